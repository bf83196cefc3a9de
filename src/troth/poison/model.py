r"""From a gradient attack to a model attack.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth.poison._given import above_zero, array, at_least_zero, same_size, strength
from troth.types import Refusal

_SLACK = 1e-5  # how far outside the ball the filter `plausible` lets a report be
_AWAY = 1.0  # from rho, where l2 pulls alike from every distance


def model_attack(
    rho: Tensor,
    gradient: Tensor,
    *,
    lam: float,
    regularizer: Literal["l2sq", "l2", "smooth_l2"] = "l2sq",
    square: Literal["half", "whole"] = "half",
    delta: float = 1.0,
    epsilon: float = 1e-6,
) -> Tensor:
    """Return the fixed model θ♠ whose honest report at ρ is what an attack ended in.

    It solves ∇_ρ R(ρ, θ♠) = g for θ♠ (Proposition 4; Lemma 3 and Appendix B.3), so that
    the loss with θ♠ in the attacker's place has its minimum where the attack ended.

    - `l2sq`: θ♠ = ρ − g/λ for R = λ·½‖ρ − θ‖², ρ − g/(2λ) for the paper's λ‖ρ − θ‖².
    - `smooth_l2`: with r = ‖g‖/λ < 1, θ♠ lies at δr/√(1 − r²) from ρ, against g. On the
      boundary, r = 1, no model gives g; at the distance `boundary_distance` says, about
      δ√(λ/(2ε)), the report is within ε of it.
    - `l2`: away from ρ every report has length λ. On the boundary any θ♠ against g
      gives g; it is put at 1. Inside, θ♠ = ρ: there g is a subgradient of R, and the
      others' reports, which sum to −g, cannot move ρ off.

    Args:
        rho: [d] where the attack ended: θ† where it reached its target.
        gradient: [d] g∞, what the attacker reported there (on ρ, not its negative).
        lam: λ of the regularizer; towards 0 the model goes to infinity.
        regularizer: R.
        square: which λ: half = this library's λ·½‖·‖²; whole = the paper's λ‖·‖². The
            others are λ‖·‖ in both.
        delta: δ of `smooth_l2`; 1 in the paper.
        epsilon: a g that lies within ε of the boundary counts as on it. 0 asks for g
            itself, which for `smooth_l2` is refused on the boundary.

    Guarantee: ‖∇_ρ R(ρ, θ♠) − g‖ ≤ ε + 1e-5·λ; 0 up to rounding for `l2sq` and for g
    further than ε inside the ball.

    Departs: Section 5.2 has θ† − g/2 in the text, which is Proposition 4 for λ = 1. The
    paper calls the ball the gradients of `l2`; they are only its sphere, and the rest
    are subgradients at θ = ρ.
    """
    where, g = array("rho", rho, 1), array("gradient", gradient, 1)
    same_size("gradient", g, "rho", len(where))
    strength(lam)
    at_least_zero("epsilon", epsilon)
    if regularizer == "l2sq":
        model = where - g / (lam if square == "half" else 2 * lam)
    else:
        size = float(np.linalg.norm(g))
        far = _distance(size, lam, regularizer, delta, epsilon)
        model = where - far * (g / size if size else g)
    return torch.as_tensor(model).to(rho)


def _distance(
    size: float, lam: float, regularizer: str, delta: float, epsilon: float
) -> float:
    """How far from ρ the model must be that reports a gradient of this size."""
    if size > lam * (1 + _SLACK):
        raise Refusal(
            f"the gradient has norm {size:.6g}, and no model reports more than lam = "
            f"{lam} with {regularizer}; project it on that ball, as counter_gradient "
            "does"
        )
    on_boundary = size > lam - epsilon or size >= lam
    if regularizer == "l2":
        return _AWAY if on_boundary else 0.0
    if on_boundary:
        return boundary_distance(lam, delta=delta, epsilon=epsilon)
    above_zero("delta", delta, "l2 is what 0 would be")
    return _inverse(size / lam, delta)


def boundary_distance(lam: float, *, delta: float = 1.0, epsilon: float) -> float:
    """How far from ρ a model must be to report within ε of the boundary of the ball.

    With `smooth_l2` a model at distance D reports λD/√(δ² + D²), which is λ − ε at
    D = δc/√(1 − c²), c = 1 − ε/λ: about δ√(λ/(2ε)). ε = 0 would be at infinity, and is
    refused; λ or more is at ρ itself.
    """
    strength(lam)
    above_zero("delta", delta, "l2 is what 0 would be")
    above_zero("epsilon", epsilon, "the boundary itself is only reached at infinity")
    return _inverse(max(0.0, 1 - epsilon / lam), delta)


def _inverse(ratio: float, delta: float) -> float:
    """Return the distance at which smooth_l2 pulls with this share of λ."""
    return delta * ratio / math.sqrt((1 - ratio) * (1 + ratio))
