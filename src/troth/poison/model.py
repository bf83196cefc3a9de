"""Turn a gradient attack into a model attack.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth.poison._given import above_zero, array, at_least_zero, same_size, strength
from troth.types import Refusal

_SLACK = 1e-5  # relative tolerance of the filter `plausible` for the radius of the ball
_AWAY = 1.0  # distance from rho for `l2`, whose pull is the same from every distance


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
    """Return a fixed model θ♠ whose honest gradient at ρ is that of an attack.

    θ♠ solves ∇_ρ R(ρ, θ♠) = g (Proposition 4; Lemma 3 and Appendix B.3). If the
    attacker has the model θ♠, the total loss has its minimum where the attack ended.

    - `l2sq`: θ♠ = ρ − g/λ for R = λ·½‖ρ − θ‖², and ρ − g/(2λ) for the paper's R =
      λ‖ρ − θ‖².
    - `smooth_l2`: let r = ‖g‖/λ. If r < 1, θ♠ is at distance δr/√(1 − r²) from ρ, in
      the direction −g. If r = 1 (the boundary of the ball of gradients), no model has
      the gradient g. Then θ♠ is at `boundary_distance`, about δ√(λ/(2ε)), and its
      gradient differs from g by ε.
    - `l2`: every model except ρ has a gradient of length λ. If ‖g‖ = λ, every θ♠ in the
      direction −g has the gradient g, and the one at distance 1 is returned. If
      ‖g‖ < λ, θ♠ = ρ, where g is a subgradient of R. The gradients of the other
      clients sum to −g, so they do not move ρ.

    Args:
        rho: [d] shared model ρ where the attack ended: θ† if it reached its target.
        gradient: [d] gradient g on ρ that the attacker sent there (the negative of its
            update).
        lam: weight λ of the regularizer. As λ → 0, θ♠ goes to infinity.
        regularizer: regularizer R.
        square: definition of `l2sq`: "half" is this library's λ·½‖·‖², "whole" is the
            paper's λ‖·‖². Ignored for the others.
        delta: width δ of `smooth_l2`; 1 in the paper.
        epsilon: gradients nearer than ε to the boundary are treated as on it. With 0,
            `smooth_l2` refuses gradients on the boundary.

    Returns:
        θ♠, [d].

    Guarantee: ‖∇_ρ R(ρ, θ♠) − g‖ ≤ ε + 1e-5·λ. For `l2sq`, and for g further than ε
    inside the ball, it is 0 up to rounding.

    Departs: the text of Section 5.2 has θ† − g/2, which is Proposition 4 for λ = 1. The
    paper says that the gradients of `l2` are a ball. They are only its sphere; the
    other points of the ball are subgradients at θ = ρ.

    >>> model_attack(torch.tensor([0.0]), torch.tensor([-3.0]), lam=2.0)
    tensor([1.5000])
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
    """Return the distance from ρ at which a model has a gradient of this size."""
    if size > lam * (1 + _SLACK):
        raise Refusal(
            f"the gradient has norm {size:.6g}, but with {regularizer} no model has a "
            f"gradient longer than lam = {lam}; shorten it to this length, as "
            "counter_gradient does"
        )
    on_boundary = size > lam - epsilon or size >= lam
    if regularizer == "l2":
        return _AWAY if on_boundary else 0.0
    if on_boundary:
        return boundary_distance(lam, delta=delta, epsilon=epsilon)
    above_zero("delta", delta, "for 0, set regularizer = 'l2'")
    return _inverse(size / lam, delta)


def boundary_distance(lam: float, *, delta: float = 1.0, epsilon: float) -> float:
    """Return the distance from ρ at which a model's gradient has length λ − ε.

    With `smooth_l2`, the gradient of a model at distance D has length λD/√(δ² + D²).
    It is λ − ε at D = δc/√(1 − c²) with c = 1 − ε/λ, which is about δ√(λ/(2ε)).

    Args:
        lam: weight λ of the regularizer.
        delta: width δ of `smooth_l2`.
        epsilon: ε > 0. For λ or more, the distance is 0.

    >>> round(boundary_distance(1.0, epsilon=0.01), 2)
    7.02
    """
    strength(lam)
    above_zero("delta", delta, "for 0, set regularizer = 'l2'")
    above_zero("epsilon", epsilon, "the boundary is only reached at infinity")
    return _inverse(max(0.0, 1 - epsilon / lam), delta)


def _inverse(ratio: float, delta: float) -> float:
    """Return the distance at which the gradient of smooth_l2 has this share of λ."""
    return delta * ratio / math.sqrt((1 - ratio) * (1 + ratio))
