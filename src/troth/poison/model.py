"""Turn a gradient attack into a model attack.

Propositions, lemmas and sections are those of Farhadkhani et al. (2022), *An
Equivalence Between Data Poisoning and Byzantine Gradient Attacks*.

References: farhadkhani2022equivalence.
"""

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from troth.poison._given import above_zero, array, at_least_zero, same_size, strength
from troth.types import Refusal

_SLACK = 1e-5  # a gradient may be longer than λ by this share, as in filter `plausible`
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
    """Return a fixed model θ♠ whose honest gradient equals that of a gradient attack.

    For the shared model ρ, an honest client with model θ sends the gradient ∇_ρ R(ρ, θ)
    of the regularizer R. The result θ♠ solves ∇_ρ R(ρ, θ♠) = g, where g is the attack's
    gradient (Proposition 4; Lemma 3 and Appendix B.3). If the attacker has the model
    θ♠, the total loss has its minimum where the gradient attack ended.

    - `l2sq`: θ♠ = ρ − g/λ for R = λ·½‖ρ − θ‖², and ρ − g/(2λ) for the paper's R =
      λ‖ρ − θ‖².
    - `smooth_l2`: all gradients are shorter than λ. Let r = ‖g‖/λ. If r < 1, θ♠ is at
      distance δr/√(1 − r²) from ρ, in the direction −g. If r = 1 (the boundary), no
      model has the gradient g. Then θ♠ is at the distance `boundary_distance`, about
      δ√(λ/(2ε)), and its gradient differs from g by ε.
    - `l2`: every model except ρ has a gradient of length λ. If ‖g‖ = λ, every θ♠ in the
      direction −g has the gradient g, and the one at distance 1 is returned. If
      ‖g‖ < λ, θ♠ = ρ, where g is a subgradient of R. Where the attack ended, the
      gradients of the other clients sum to −g, so ρ does not move.

    Args:
        rho: [d] shared model ρ where the gradient attack ended. If the attack reached
            its target θ†, this is θ†.
        gradient: [d] gradient g on ρ that the attacker sent at that time (the negative
            of its update).
        lam: weight λ of the regularizer. As λ → 0, θ♠ goes to infinity.
        regularizer: regularizer R.
        square: definition of `l2sq`: "half" is this library's λ·½‖·‖², "whole" is the
            paper's λ‖·‖². The other regularizers ignore it.
        delta: width δ of `smooth_l2`; 1 in the paper.
        epsilon: if ‖g‖ > λ − ε, g is treated as if ‖g‖ were λ. With ε = 0, `smooth_l2`
            raises Refusal for ‖g‖ = λ.

    Returns:
        θ♠, [d].

    Guarantee: ‖∇_ρ R(ρ, θ♠) − g‖ ≤ ε + 1e-5·λ. For `l2sq`, and if ‖g‖ ≤ λ − ε, the
    difference is 0 up to rounding.

    Departs: the text of Section 5.2 has θ† − g/2, which is Proposition 4 for λ = 1. The
    paper says that the gradients of `l2` fill a ball of radius λ. They are only its
    sphere; the other points of the ball are subgradients at θ = ρ.

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
    """Return the distance from ρ at which a model's gradient has the length `size`.

    Raise Refusal if no model has a gradient of this length.
    """
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
        epsilon: ε > 0. If ε ≥ λ, the distance is 0.

    >>> round(boundary_distance(1.0, epsilon=0.01), 2)
    7.02
    """
    strength(lam)
    above_zero("delta", delta, "for 0, set regularizer = 'l2'")
    above_zero("epsilon", epsilon, "the boundary is only reached at infinity")
    return _inverse(max(0.0, 1 - epsilon / lam), delta)


def _inverse(ratio: float, delta: float) -> float:
    """Return the distance at which a gradient of smooth_l2 has the length ratio·λ."""
    return delta * ratio / math.sqrt((1 - ratio) * (1 + ratio))
