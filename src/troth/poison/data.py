r"""From a model attack to poisoned examples of a linear classifier.

References: farhadkhani2022equivalence.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from troth.poison._given import Examples, array, at_least_zero, some, strength
from troth.poison.box import boxed_inputs, clipped_inputs
from troth.poison.indifference import Head, checked, indifferent_inputs
from troth.poison.labelling import labelled, probabilities
from troth.types import Refusal


def data_attack(
    head: Head,
    examples: int,
    seed: int,
    *,
    inputs: Literal["free", "box", "clip"] = "free",
    labels: Literal["soft", "sampled", "repeated"] = "soft",
    repeats: int = 10,
    width: float = 50.0,
    noise: float = 0.01,
) -> Examples:
    """Examples from which a linear classifier learns θ♠ (Section 5.3, Appendix L).

    Inputs near the indifference subspace V of θ♠, with the labels that θ♠ gives them.
    The same on embeddings for the head of a deep network (Appendix J).

    Args:
        head: θ♠ = (W, b); a single row of W is the margin of a binary classifier.
        examples: how many inputs; below the number of features some directions of θ♠
            are not learned.
        seed: of all draws.
        inputs: free = `indifferent_inputs`; box = `boxed_inputs`, every feature in
            [0, 1]; clip = `clipped_inputs`, the authors' way to that.
        labels: soft, sampled or repeated: see `labelled`.
        repeats: how often each input is labelled, where repeated; the number of
            examples is then `repeats` times as large.
        width: half the side of the box about 0 in which free inputs are drawn.
        noise: standard deviation along each normal of V; 0 hides the scale of θ♠.

    Raises:
        Refusal: V is empty or not reached, or one example was asked for: an example
            says one direction, and that is enough only for a regression.
    """
    some(examples)
    if examples == 1:
        raise Refusal(
            "1 poisoned example bends a linear regression (single_example), not a "
            f"classifier of {head.classes} classes; ask for 2 or more, about as many "
            f"as its {np.shape(head.weight)[-1]} features"
        )
    if inputs == "free":
        x = indifferent_inputs(
            head, examples, seed, low=-width, high=width, noise=noise
        )
    else:
        make = boxed_inputs if inputs == "box" else clipped_inputs
        x = make(head, examples, seed, noise=noise)
    return labelled(head, x, seed, labels=labels, repeats=repeats)


def weight_needed(
    head: Head, target: Head, x: ArrayLike, *, lam: float, tolerance: float = 0.1
) -> float:
    """How heavily examples must count for the attacker's own model to stay near θ♠.

    The weight α (as though each were given α times, Appendix L.2) at which the pull to
    ρ = θ† moves θ_s from θ♠ by `tolerance` of ‖θ♠ − θ†‖. To first order the move is
    λ(αH + λ)⁻¹(θ♠ − θ†) with H = Σ_i Λ_i ⊗ x_i x_iᵀ the curvature of the cross-entropy
    at θ♠. For Λ_i = diag(p) − ppᵀ stands its mean over the k − 1 directions in which
    it is not 0, Σ_a p_a(1 − p_a)/(k − 1): the same on V, where all p_a are 1/k, and for
    two classes; elsewhere an estimate. What all classes have in common is left out, for
    no label depends on it.

    Args:
        head: θ♠.
        target: θ†.
        x: [m, d] inputs with soft labels.
        lam: λ of `l2sq`; the paper's λ is half of it.
        tolerance: between 0 and 1; towards 0 the weight goes to infinity.

    Returns:
        α > 0; ∞ where the inputs leave more than `tolerance` of it undetermined.
    """
    strength(lam)
    if not 0 < tolerance < 1:
        raise Refusal(f"tolerance = {tolerance} must lie between 0 and 1, such as 0.1")
    crafted, wanted = checked(head), checked(target)
    if crafted.weight.shape != wanted.weight.shape:
        raise Refusal(
            f"the target's weight has shape {wanted.weight.shape} and the crafted "
            f"model's {crafted.weight.shape}; both must be of the same model"
        )
    rows = np.column_stack([array("x", x, 2), np.ones(len(np.asarray(x)))])
    p = probabilities(crafted, rows[:, :-1])
    curved = (p * (1 - p)).sum(axis=1) / max(1, len(crafted.bias) - 1)
    if len(crafted.bias) == 1:
        curved /= 2  # one margin: p(1 − p), which is there twice
    size, turn = np.linalg.eigh((rows * curved[:, None]).T @ rows)
    size[size <= 1e-13 * size[-1] * len(size)] = 0
    apart = np.column_stack([c - t for c, t in zip(crafted, wanted, strict=True)])
    if len(apart) > 1:
        apart -= apart.mean(axis=0)
    part = ((apart @ turn) ** 2).sum(axis=0)
    if not part.sum():
        return 0.0
    return lam * _solve(size, part / part.sum(), tolerance**2)


def examples_needed(head: Head, target: Head, *, lam: float, nu: float = 0.0) -> float:
    """No fewer examples than this, however made, hold the attacker's model at θ♠.

    Weights count as so many examples. It is (λ⟨θ♠ − θ†, θ♠⟩ + 2ν‖θ♠‖²)/κ with
    κ = W((k − 1)/e), Lambert's W: .2785 for two classes, 1.12 for ten. The pull to the
    shared model, multiplied by θ♠, is what the labels must make up for, and one example
    makes up for κ at most, wherever it lies (docs/derivations/poison.md). For inputs
    near V with labels of θ♠ itself it takes more: `weight_needed`.

    Args:
        head: θ♠.
        target: θ†, where the shared model is to be.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν of ν‖θ‖².

    Returns:
        A number of examples, where losses are added up; 0: nothing is asked of them.
    """
    strength(lam)
    at_least_zero("nu", nu)
    crafted, wanted = checked(head), checked(target)
    own = np.column_stack(tuple(crafted))
    pull = lam * (own - np.column_stack(tuple(wanted))) + 2 * nu * own
    if len(own) > 1:  # what all classes have in common answers to no label
        own, pull = own - own.mean(axis=0), pull - pull.mean(axis=0)
    most = float(special.lambertw((max(2, len(own)) - 1) / math.e).real)
    return max(0.0, float((own * pull).sum()) / most)


def _solve(size: np.ndarray, part: np.ndarray, limit: float) -> float:
    """The α with Σ part/(1 + α·size)² = limit."""

    def over(log: float) -> float:
        return float((part / (1 + math.exp(log) * size) ** 2).sum()) - limit

    if part[size == 0].sum() >= limit:
        return math.inf
    low, high = -1.0, 1.0
    while over(low) < 0:
        low *= 2
    while over(high) > 0:
        high *= 2
    return math.exp(float(optimize.brentq(over, low, high, xtol=1e-12)))
