"""The weights of `transfer`, and the rule by which they are chosen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from troth.client.personalizers import _lam
from troth.types import Descent, Refusal, Regularizer

Weight = float | Literal["auto"]


class Weights(NamedTuple):
    """Of the two terms."""

    w1: float  # of R_adv
    w2: float  # of ‖v − w‖²


def tried(
    w1: Weight, w2: Weight, candidates: list[float], descent: Descent, pull: Regularizer
) -> list[Weights]:
    """All pairs that are tried, from the weakest to the strongest.

    Their order is that of w1·w2, and of equal ones that of w1.

    Args:
        w1: a number, or all candidates.
        w2: the same.
        candidates: what "auto" stands for.
        descent: must be stable on every pull.
        pull: ‖v − w‖².

    Raises:
        Refusal: a weight that is negative or not finite, or on which a step diverges.
    """
    if "auto" in (w1, w2) and not candidates:
        raise Refusal(
            "transfer's candidates = [] leave no weight to choose; give some, such as "
            "[0.01, 0.1, 1.0, 10.0], or set w1 and w2 to numbers"
        )
    for name, weight, what in (("w1", w1, None), ("w2", w2, pull)):
        named = {name: weight} if weight != "auto" else _named(candidates)
        for option, value in named.items():
            _lam.check("transfer", float(value), descent, what, option)
    each = [sorted({*candidates}) if w == "auto" else [w] for w in (w1, w2)]
    pairs = [Weights(float(a), float(b)) for a, b in itertools.product(*each)]
    return sorted(pairs, key=lambda pair: (pair.w1 * pair.w2, *pair))


def _named(candidates: list[float]) -> dict[str, float]:
    return {f"candidates[{i}]": value for i, value in enumerate(candidates)}


def largest(right: Sequence[Tensor], reference: Tensor) -> Tensor:
    """Which is the last that does not lower validation accuracy; the first if all do.

    The paper's rule (Section 4.1), of one client's counts, or, for one weight for all,
    of means over clients.

    Args:
        right: accuracy, or how many are right, with each pair of weights in order.
        reference: the same of what must not be lowered.
    """
    at = torch.zeros_like(reference)
    for i, found in enumerate(right):
        at = torch.where(found >= reference, torch.full_like(at, i), at)
    return at
