"""The section `[deployment]`: what all sites of a real federation agree on beforehand.

A simulation does not look at it: the TOML that ran there runs across sites.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from troth.config.parts import in_range
from troth.types import Refusal

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Deployment:
    """Who the sites are, what their data look like, and when a round closes."""

    sites: list[str] = field(default_factory=list)  # names; client 0 is the first
    shape: list[int] = field(default_factory=list)  # of one example
    classes: int | None = None  # 0: regression
    scale: float = 1.0  # the value of x that stands for 1
    several: bool = False  # whether an example may have several of the labels
    features: list[str] = field(default_factory=list)  # of sites' tables, in order
    label: str = ""  # the column of sites' tables that is predicted
    labels: list[str] = field(default_factory=list)  # names of the classes, in order
    quorum: int = 0  # a round closes with so many replies; 0: of all that are asked
    deadline: float = 600.0  # seconds, after which a round closes without the others
    least: int = 1  # with fewer replies the shared model stays as it is
    most_examples: int = 1_000_000  # that a site is believed to have

    def __post_init__(self) -> None:
        lowest = {"classes": 0, "quorum": 0, "least": 1, "most_examples": 1}
        in_range(self, "deployment", lowest)
        if not 0 < self.deadline <= 30 * 86400:
            raise Refusal(
                f"deployment.deadline = {self.deadline} is out of range; it must be "
                "above 0 and at most 2592000 seconds"
            )
        if not 0 < self.scale < float("inf"):
            raise Refusal(
                f"deployment.scale = {self.scale} is out of range; it must be the "
                "value of x that stands for 1, such as 255 for bytes"
            )
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
        self._named()

    def _named(self) -> None:
        """Refuse names that are none, or given twice."""
        for name in self.sites:
            if not _NAME.fullmatch(name) or self.sites.count(name) > 1:
                raise Refusal(
                    f"deployment.sites holds {name!r}, twice or with characters that "
                    "a name has not; name each site once, by letters, digits, '.', "
                    "'_' and '-'"
                )
