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

_SLACK = 1e-5  # tolerance of the filter `plausible`, outside the ball
_AWAY = 1.0  # distance from rho for l2, whose gradient is the same at all distances


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
    """Return the fixed model θ♠ whose honest gradient at ρ is that of an attack's end.

    It solves ∇_ρ R(ρ, θ♠) = g for θ♠ (Proposition 4; Lemma 3 and Appendix B.3). So the
    loss, with θ♠ as the attacker's model, has its minimum at the ρ where the attack
    ended.

    - `l2sq`: θ♠ = ρ − g/λ for R = λ·½‖ρ − θ‖², and ρ − g/(2λ) for the paper's λ‖ρ −
      θ‖².
    - `smooth_l2`: with r = ‖g‖/λ < 1, θ♠ is at distance δr/√(1 − r²) from ρ, in the
      direction of −g. For r = 1, on the boundary of the ball of gradients, no model has
      gradient g. A model at distance `boundary_distance`, about δ√(λ/(2ε)), has a
      gradient within ε of it.
    - `l2`: at every θ ≠ ρ the gradient has length λ. For ‖g‖ = λ, every θ♠ in the
      direction of −g has gradient g; here its distance from ρ is 1. For ‖g‖ < λ, θ♠ =
      ρ: g is a subgradient of R there, and the other users' gradients, which sum to −g,
      cannot move ρ away.

    Args:
        rho: [d] shared model ρ where the attack ended; θ† if it reached its target.
        gradient: [d] g∞, the gradient with respect to ρ that the attacker sent there
            (not its negative).
        lam: λ of the regularizer. Towards 0, θ♠ goes to infinity.
        regularizer: The regularizer R.
        square: Which λ of `l2sq`: "half" for this library's λ·½‖·‖², "whole" for the
            paper's λ‖·‖². The others are λ‖·‖ in both.
        delta: δ of `smooth_l2`; 1 in the paper.
        epsilon: A g within ε of the boundary counts as on it. With 0, g itself is
            required, which `smooth_l2` refuses on the boundary.

    Guarantee: ‖∇_ρ R(ρ, θ♠) − g‖ ≤ ε + 1e-5·λ. It is 0 up to rounding for `l2sq`, and
    for g farther than ε inside the ball.

    Departs: Section 5.2 has θ† − g/2 in the text, which is Proposition 4 for λ = 1. The
    paper says that the gradients of `l2` fill the ball. They are only its sphere; the
    inner points are subgradients at θ = ρ.
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
    """Return the distance from ρ of the model whose gradient has this length."""
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
    """Return the distance from ρ of a model with a gradient within ε of the boundary.

    With `smooth_l2`, a model at distance D from ρ has a gradient of length λD/√(δ² +
    D²). This is λ − ε at D = δc/√(1 − c²) with c = 1 − ε/λ, which is about δ√(λ/(2ε)).
    ε = 0 would need D = ∞ and is refused. For ε of λ or more, D is 0.
    """
    strength(lam)
    above_zero("delta", delta, "for 0, set regularizer = 'l2'")
    above_zero("epsilon", epsilon, "the boundary is only reached at infinity")
    return _inverse(max(0.0, 1 - epsilon / lam), delta)


def _inverse(ratio: float, delta: float) -> float:
    """Return the distance at which the gradient of `smooth_l2` has length share·λ."""
    return delta * ratio / math.sqrt((1 - ratio) * (1 + ratio))
