r"""From a model attack to poisoned examples of a linear classifier, and to their file.

References: farhadkhani2022equivalence.
"""

import math
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import optimize, special

from troth import files, seeding
from troth.data import labels as soft_labels
from troth.poison._given import Examples, array, at_least_zero, some, strength
from troth.poison.inputs import (
    Head,
    boxed_inputs,
    checked,
    clipped_inputs,
    indifferent_inputs,
)
from troth.types import Refusal


def probabilities(head: Head, x: np.ndarray) -> np.ndarray:
    """[m, classes] softmax of Wx + b; of a single margin z, (1 − σ(z), σ(z))."""
    weight, bias = checked(head)
    if x.ndim != 2 or x.shape[1] != weight.shape[1]:
        raise Refusal(
            f"inputs have shape {x.shape} and the model takes {weight.shape[1]} "
            "features; give one row per example"
        )
    logits = x @ weight.T + bias
    if len(weight) == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    return np.asarray(special.softmax(logits, axis=1))


def labelled(
    head: Head,
    x: np.ndarray,
    seed: int,
    *,
    labels: Literal["soft", "sampled", "repeated"] = "soft",
    repeats: int = 10,
) -> Examples:
    """Return inputs with the labels that a model gives them (Appendices L.1 and L.2).

    Args:
        head: θ♠.
        x: [m, d].
        seed: of sampled labels.
        labels: soft = probabilities, as the authors' code has it; sampled = one label
            each, drawn from them; repeated = every input `repeats` times, with whole
            numbers of each label that come nearest to them.
        repeats: how often; a share is then off by less than 1/repeats.
    """
    p = probabilities(head, x)
    if labels == "soft":
        return Examples(x, p.argmax(axis=1), p)
    if labels == "sampled":
        u = seeding.generator(seed, "poison/labels").random((len(x), 1))
        y = (p.cumsum(axis=1)[:, :-1] < u).sum(axis=1)
        return Examples(x, y)
    counts = whole_numbers(p, repeats)
    row, label = np.nonzero(counts)
    times = counts[row, label]
    return Examples(x[np.repeat(row, times)], np.repeat(label, times))


def whole_numbers(p: np.ndarray, repeats: int) -> np.ndarray:
    """[m, classes] counts that sum to `repeats`, nearest to repeats·p.

    Rounded down, then one more for the largest remainders: none is off by 1 or more.
    """
    if repeats < 1:
        raise Refusal(f"repeats = {repeats} must be at least 1: each input is labelled")
    wanted = repeats * p
    counts = np.floor(wanted).astype(np.int64)
    left = repeats - counts.sum(axis=1, keepdims=True)
    order = np.argsort(counts - wanted, axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return np.asarray(counts + (rank < left))


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
    makes up for κ at most, wherever it lies: docs/explanation/derivations/poison.md.
    For inputs near V with labels of θ♠ itself it takes more: `weight_needed`.

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
    """Return the α with Σ part/(1 + α·size)² = limit."""

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


class Summary(NamedTuple):
    """What a defender would notice of poisoned examples."""

    number: int
    share: float  # of all examples, these included
    largest_norm: float  # of an input


def summary(x: np.ndarray, others: int) -> Summary:
    """Return number, share and largest norm of poisoned inputs x, [m, …].

    The share is of them and the honest users' `others`.

    Departs: the paper's 3.3 % are 2,000 of the honest 60,000; here it is the share of
    all 62,000, 3.2 %.
    """
    if others < 0:
        raise Refusal(f"others = {others} is a number of examples; give 0 or more")
    norms = np.linalg.norm(x.reshape(len(x), -1).astype(np.float64), axis=1)
    return Summary(len(x), len(x) / (len(x) + others), float(norms.max(initial=0.0)))


def save(
    path: str | Path,
    x: np.ndarray,
    y: np.ndarray | None = None,
    p: np.ndarray | None = None,
    *,
    others: int = 0,
    scale: float = 0.0,
) -> Summary:
    """Write an .npz file of poisoned examples, for `corruptions/from_file`.

    It holds x, y, with soft labels p too, scale, and number, share and largest_norm.
    The file appears under its name only when it is whole.

    Args:
        path: where; as it is, with .npz or without. A file there is replaced.
        x: [m, …] of the shape of the data set's own examples.
        y: [m] labels or answers; not needed where p is given, whose largest it is.
        p: [m, classes] soft labels.
        others: how many examples the honest users have together.
        scale: the value of x that stands for 1; 0 means 255 for bytes and 1 otherwise.
    """
    at_least_zero("scale", scale)
    x, y, p = _checked(np.asarray(x), y, p)
    found = summary(x, others)
    unit = scale or (255.0 if x.dtype == np.uint8 else 1.0)
    soft: dict[str, Any] = {} if p is None else {"p": p}
    place = Path(path).expanduser()
    if not place.name:
        raise Refusal(f"'{path}' names no file; give a path such as poison.npz")
    remedy = "give a path in a folder that exists and has room"
    with files.refused(path, remedy), files.whole(place) as file:
        np.savez(file, x=x, y=y, scale=unit, **soft, **found._asdict())
    return found


def _checked(x: np.ndarray, y: np.ndarray | None, p: np.ndarray | None) -> Examples:
    if p is not None:
        p = np.asarray(p, np.float64)
        two = p.ndim == 2
        why = soft_labels.wrong(torch.from_numpy(p)) if two else "has not two axes"
        if why:
            raise Refusal(
                f"p, of shape {list(p.shape)}, {why}; give one row of probabilities "
                "per example, at least 0 and 1 together"
            )
        y = p.argmax(axis=1) if y is None else np.asarray(y)
        if len(y) == len(p) and not np.array_equal(y, p.argmax(axis=1)):
            raise Refusal(
                f"{int((y != p.argmax(axis=1)).sum())} labels are not the most likely "
                "of their soft labels; leave y out, it follows from p"
            )
    if y is None:
        raise Refusal("there are neither labels y nor soft labels p; give one of them")
    y = np.asarray(y)
    counts = [len(x), len(y)] + ([] if p is None else [len(p)])
    if x.ndim < 2 or not x.size or len({*counts}) > 1:
        raise Refusal(
            f"x has shape {x.shape} and there are {counts[1:]} labels; give at least "
            "one example, as x [m, features …], with as many labels"
        )
    for name, values in (("x", x), ("y", y)):
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise Refusal(
                f"{name} is {values.dtype}, or holds NaN or infinity; give finite "
                "numbers"
            )
    return Examples(x, y, p)
