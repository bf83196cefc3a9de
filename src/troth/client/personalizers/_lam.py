"""What λ may be."""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, Context

import torch
from torch import Tensor

from troth.types import Descent, Refusal, Regularizer


def check(
    name: str,
    lam: float,
    descent: Descent,
    regularizer: Regularizer | None,
    option: str = "lam",
) -> None:
    """Refuse a λ that is no weight, or with which an explicit step diverges.

    Args:
        name: of the personalizer.
        lam: the weight of the pull.
        descent: its learning rate and optimiser.
        regularizer: what pulls; None, or one whose curvature is not bounded (or not
            known): no step is refused.
        option: what a refusal calls the weight.
    """
    if not 0 <= lam < float("inf"):
        raise Refusal(
            f"{name}'s {option} = {lam} must be a finite number of at least 0; "
            "0 pulls not at all"
        )
    curvature = regularizer.curvature if regularizer else 0.0
    factors = {option: lam}
    if curvature != 1:
        factors["curvature"] = curvature
    if lam > 0:
        stable(name, descent, factors)


def stable(
    name: str,
    descent: Descent,
    factors: dict[str, float],
    section: str = "personalizer",
) -> None:
    """Refuse a learning rate with which explicit steps on a pull diverge.

    Args:
        name: of the personalizer.
        descent: its learning rate and optimiser.
        factors: of the pull's curvature, by what a refusal calls them.
        section: whose `lr` it is.
    """
    bend = math.prod(factors.values())
    if math.isinf(descent.limit) or descent.lr * bend < descent.limit:
        return
    every = {"lr": descent.lr} | factors
    raise Refusal(
        f"{name}'s step diverges: {'·'.join(every)} = "
        f"{'·'.join(f'{x:g}' for x in every.values())} = "
        f"{descent.lr * bend:g} must stay below {descent.limit:g}; "
        f"set {section}.lr below {_down(descent.limit / bend)}"
    )


def times(g: Tensor, factor: float | Tensor, tail: int) -> Tensor:
    """A gradient times a factor; running statistics keep their whole step."""
    if tail == 0:
        return factor * g
    return torch.cat([factor * g[:-tail], g[-tail:]])


def plus(g: Tensor, pull: Tensor, lam: float) -> Tensor:
    """Add λ times a pull to a gradient; at λ = 0 nothing, whatever the pull.

    In one pass, but for a λ that the numbers' type cannot hold.
    """
    if lam == 0:
        return g
    fits = lam <= torch.finfo(g.dtype).max
    return g.add(pull, alpha=lam) if fits else g + lam * pull


def _down(limit: float) -> str:
    """A limit to four digits, never rounded up."""
    short = Context(prec=4, rounding=ROUND_DOWN)
    return f"{float(short.create_decimal_from_float(limit * (1 + 1e-12))):g}"
