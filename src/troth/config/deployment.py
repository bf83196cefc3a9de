"""The section `[deployment]` of a real federation, whose clients are called sites."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from troth.config.checks import in_range
from troth.types import Refusal

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Deployment:
    """Names of the sites, format of their data, and when a round ends.

    Attributes:
        sites: Names of the sites; the first is client 0.
        shape: Shape of one example; if not set, the number of `features`.
        classes: Number of classes; 0: regression; if not set, that of `labels`.
        scale: Value of the inputs x that is scaled to 1.
        several: Whether an example may have several labels.
        features: Names of the features, in order: `age`, or `sex=f` for a category.
        label: Column of the sites' tables to predict.
        labels: Names of the classes, in order.
        quorum: Number of replies after which a round ends; 0: when all sites of the
            round have replied.
        deadline: Seconds after which a round ends without the missing replies.
        least: Fewest replies for a step; with fewer, the shared model is unchanged.
        most_examples: Largest number of examples that counts for a site; a larger
            reported number is replaced by it.
    """

    sites: list[str] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    classes: int | None = None
    scale: float = 1.0
    several: bool = False
    features: list[str] = field(default_factory=list)
    label: str = ""
    labels: list[str] = field(default_factory=list)
    quorum: int = 0
    deadline: float = 600.0
    least: int = 1
    most_examples: int = 1_000_000

    def __post_init__(self) -> None:
        in_range(self, "deployment", "[0, inf)", "classes", "quorum")
        in_range(self, "deployment", "[1, inf)", "least", "most_examples")
        in_range(self, "deployment", "(0, 2592000]", "deadline")  # 30 days
        in_range(self, "deployment", "(0, inf)", "scale")
        if self.features and not self.shape:
            object.__setattr__(self, "shape", [len(self.features)])
        if self.labels and self.classes is None:
            object.__setattr__(self, "classes", len(self.labels))
        if min(self.shape, default=1) < 1:
            raise Refusal(
                f"deployment.shape = {self.shape} is no shape of an example; give its "
                "sizes, such as [22] or [1, 28, 28]"
            )
        if self.several and (self.classes or 0) < 2:
            raise Refusal(
                f"deployment.several is set and deployment.classes = {self.classes}; "
                "say how many labels there are, at least 2"
            )
        if self.labels and len(self.labels) != self.classes:
            raise Refusal(
                f"deployment.labels names {len(self.labels)} classes and deployment."
                f"classes = {self.classes}; name each class once, in its order"
            )
        if self.features and [len(self.features)] != self.shape:
            raise Refusal(
                f"deployment.features names {len(self.features)} features and "
                f"deployment.shape = {self.shape}; name each feature once"
            )
        for name in self.sites:
            if not _NAME.fullmatch(name) or self.sites.count(name) > 1:
                raise Refusal(
                    f"deployment.sites holds {name!r} twice, or this is not a valid "
                    "name; name each site once, by letters, digits, '.', '_' and '-'"
                )
