"""Named parts of an experiment: a member of a folder, its options, and keys beside.

Types are checked by `troth.config.reader`, which reads them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from troth.types import Refusal


def rounded_up(share: float, n: int) -> int:
    """A share of n clients, rounded up; rounding errors of the share do not count."""
    return max(math.ceil(share * n - 1e-9), 0)


def in_range(owner: Any, section: str, lowest: dict[str, int], share: str = "") -> None:
    """Refuse numbers below their lowest value, NaN, infinity, and shares from 1 on."""
    for key, low in lowest.items():
        value = getattr(owner, key)
        if value is None or low <= value < (1 if key == share else math.inf):
            continue
        bounds = f"at least {low} and below 1" if key == share else f"at least {low}"
        finite = " and finite" if value == math.inf and key != share else ""
        raise Refusal(
            f"{section}.{key} = {value} is out of range; it must be {bounds}{finite}"
        )


def alone(section: str, **values: Any) -> None:
    """Refuse two keys of which at most one may be set."""
    given = [key for key, value in values.items() if value is not None]
    if len(given) > 1:
        both = " and ".join(f"{section}.{key} = {values[key]}" for key in given)
        raise Refusal(
            f"{both} exclude each other; keep one of {', '.join(given)} "
            "and leave the others out"
        )


@dataclass(frozen=True)
class Part:
    """A named member of a folder, with its options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PartitionPart(Part):
    """Who holds what, and how each client divides it."""

    split: list[float] | Literal["given"] = field(  # train, valid, test; as published
        default_factory=lambda: [0.72, 0.08, 0.2]
    )
    valid: float = 0.0  # with "given": share of training set aside for validation
    min_examples: int = 0  # clients with fewer are left out
    split_by: Literal["example", "owner"] = "example"  # owner: never in two parts
    leakage: Literal["allow", "record", "refuse"] = "record"  # copies across the split
    conflicting: Literal["none", "copied", "held_out"] = "none"  # a test set of group 1
    correlation: float = 0.98  # held_out: share of group 0 in all other data, at least

    def __post_init__(self) -> None:
        in_range(self, "partition", {"min_examples": 0, "valid": 0}, "valid")
        if not 0 < self.correlation <= 1:
            raise Refusal(
                f"partition.correlation = {self.correlation} is out of range; it must "
                "be above 0 and at most 1, such as 0.98"
            )
        if self.split == "given":
            return
        shares = self.split if len(self.split) == 3 else [-1.0]
        whole = math.isclose(sum(shares), 1, abs_tol=1e-6)
        if not (whole and min(shares) >= 0 and shares[0] > 0 and shares[2] > 0):
            raise Refusal(
                f"partition.split = {self.split!r} is not a division; give three "
                "shares that sum to 1, of train, valid (may be 0) and test, such as "
                "[0.72, 0.08, 0.2], or 'given'"
            )
        if self.valid:
            raise Refusal(
                f"partition.valid = {self.valid} goes only with partition.split = "
                f"'given'; with shares the second is validation, now {shares[1]}"
            )


@dataclass(frozen=True)
class ModelPart(Part):
    """What is trained."""

    normalise: Literal["unit", "pixel", "none"] = "unit"
    weights: str = ""  # a file to start from
    weights_skip: list[str] = field(default_factory=list)  # patterns: not taken
    freeze: list[str] = field(default_factory=list)  # patterns: never trained or sent

    def __post_init__(self) -> None:
        if self.weights_skip and not self.weights:
            raise Refusal(
                f"model.weights_skip = {self.weights_skip} says what not to take from "
                "model.weights, which is not set; set it, or leave this out"
            )


@dataclass(frozen=True)
class CorruptionPart(Part):
    """What hostile clients do to their data, to how much of it and how often."""

    share: float = 1.0  # of a client's training examples, rounded up
    redraw: bool = False  # every round anew, from the clean data; else once

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise Refusal(
                f"corruption.share = {self.share} is out of range; it must be above 0 "
                "and at most 1, all of a hostile client's examples (for nothing at "
                "all set corruption.name = 'none')"
            )


@dataclass(frozen=True)
class AttackPart(Part):
    """What hostile clients send, and how far they go."""

    strength: float = 1.0  # 0: what they computed, 1: the attack, more: beyond it

    def __post_init__(self) -> None:
        in_range(self, "attack", {"strength": 0})


@dataclass(frozen=True)
class PersonalizerPart(Part):
    """How a client gets its own model; what is not set is as in `[train]`."""

    lr: float | None = None
    steps: int = 0
    epochs: int = 0
    optimizer: Part | None = None
    augment: list[Part] | None = None

    def __post_init__(self) -> None:
        in_range(self, "personalizer", {"lr": 0, "steps": 0, "epochs": 0})
        alone("personalizer", steps=self.steps or None, epochs=self.epochs or None)
