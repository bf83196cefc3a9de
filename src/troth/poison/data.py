"""Turn a model attack into poisoned examples of a linear classifier, and save them.

The attackers should learn the model θ♠, which moves the shared model ρ to the target
θ†. V is the indifference subspace of θ♠: the inputs for which all its classes are
equally likely. The paper is Farhadkhani et al. (2022), *An Equivalence Between Data
Poisoning and Byzantine Gradient Attacks*.

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
    """Return the probabilities of the classes, [m, classes].

    They are the softmax of Wx + b. If Wx + b is a single margin z, they are
    (1 − σ(z), σ(z)) with the logistic function σ.

    Args:
        head: linear classifier (W, b).
        x: [m, d] inputs.
    """
    weight, bias = checked(head)
    if x.ndim != 2 or x.shape[1] != weight.shape[1]:
        raise Refusal(
            f"inputs have shape {x.shape}, but the model needs [m, {weight.shape[1]}]: "
            "one row per example, one column per feature"
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
        head: model θ♠.
        x: [m, d] inputs.
        seed: seed of sampled labels.
        labels: "soft": the probabilities of the model, as in the authors' code.
            "sampled": one label per input, drawn from the probabilities. "repeated":
            every input is repeated, with labels in proportion to the probabilities.
        repeats: number of copies of each input for "repeated". The share of a label
            among the copies differs from its probability by less than 1/repeats.

    Returns:
        The examples.
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
    """Round repeats·p to counts that sum to `repeats`, [m, classes].

    All counts are rounded down. Then those with the largest remainders are raised by 1
    until the sum is right. So each count differs from repeats·p by less than 1.

    >>> whole_numbers(np.array([[0.5, 0.3, 0.2]]), 4).tolist()
    [[2, 1, 1]]
    """
    if repeats < 1:
        raise Refusal(f"repeats = {repeats} must be at least 1")
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
    """Make examples from which a linear classifier learns θ♠ (Appendix L).

    The inputs are near the subspace V on which all classes of θ♠ are equally likely.
    The labels are those that θ♠ gives them. If the inputs are embeddings, the linear
    classifier may be the last layer of a deep network (Appendix J).

    Args:
        head: model θ♠ = (W, b); a single row of W is the margin of a binary classifier.
        examples: number of inputs. If it is smaller than the number of features, some
            directions of θ♠ are not learned.
        seed: seed of all random numbers.
        inputs: "free": `indifferent_inputs`, with any values. "box": `boxed_inputs`,
            with all features in [0, 1]. "clip": `clipped_inputs`, whose features are
            clipped to [0, 1] as in the paper.
        labels: "soft", "sampled" or "repeated": see `labelled`.
        repeats: number of copies of each input for "repeated". The number of examples
            is multiplied by it.
        width: "free" inputs are drawn from [−width, width] before projection.
        noise: standard deviation of inputs along each normal of V. With 0, the scale of
            θ♠ cannot be learned.

    Returns:
        The examples.

    Raises:
        Refusal: V is empty, or no point near V is in the box, or `examples` is 1,
            which is enough for a regression only.

    >>> head = Head(np.array([[2.0, 0.0]]), np.array([-1.0]))  # undecided at x_0 = ½
    >>> data_attack(head, 3, seed=0, noise=0.0).x[:, 0].round(6).tolist()
    [0.5, 0.5, 0.5]
    """
    some(examples)
    if examples == 1:
        raise Refusal(
            "1 poisoned example is enough for a linear regression (single_example), "
            f"but not for a classifier with {head.classes} classes; set examples to 2 "
            f"or more, about as many as its {np.shape(head.weight)[-1]} features"
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
    """Return the weight of each example with which the attacker's model stays near θ♠.

    An example with weight α has the effect of α copies (Appendix L.2). The shared model
    at ρ = θ† pulls the attacker's model away from θ♠. With the returned weight, the
    attacker's model moves by the share `tolerance` of ‖θ♠ − θ†‖.

    To first order, it moves by λ(αH + λ)⁻¹(θ♠ − θ†). The Hessian of the cross-entropy
    at θ♠ is H = Σ_i Λ_i ⊗ x_i x_iᵀ, where Λ_i = diag(p) − ppᵀ depends on the
    probabilities p of the k classes. Λ_i is replaced by the mean of its eigenvalues
    other than 0, Σ_a p_a(1 − p_a)/(k − 1). This is exact on V, where all p_a are 1/k,
    and for two classes; otherwise it is an estimate. A vector that is added to all rows
    of W does not change the probabilities, so the mean of the rows is subtracted.

    Args:
        head: model θ♠.
        target: target θ† of the shared model.
        x: [m, d] inputs with soft labels.
        lam: λ of `l2sq`; the paper's λ is half of it.
        tolerance: share of the distance, between 0 and 1. As it goes to 0, the weight
            goes to infinity.

    Returns:
        Weight α; 0 if θ♠ = θ†, and infinite if the inputs do not determine enough
        directions of θ♠.
    """
    strength(lam)
    if not 0 < tolerance < 1:
        raise Refusal(f"tolerance = {tolerance} must lie between 0 and 1, such as 0.1")
    crafted, wanted = checked(head), checked(target)
    if crafted.weight.shape != wanted.weight.shape:
        raise Refusal(
            f"the target's weight has shape {wanted.weight.shape}, but that of head "
            f"has {crafted.weight.shape}; both must be of the same model"
        )
    rows = np.column_stack([array("x", x, 2), np.ones(len(np.asarray(x)))])
    p = probabilities(crafted, rows[:, :-1])
    curved = (p * (1 - p)).sum(axis=1) / max(1, len(crafted.bias) - 1)
    if len(crafted.bias) == 1:
        curved /= 2  # for a single margin, the sum has p(1 − p) twice
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
    """Return a lower bound on the number of examples with which a model stays at θ♠.

    The bound holds for any inputs and labels. An example with weight α counts as α
    examples. The bound is (λ⟨θ♠ − θ†, θ♠⟩ + 2ν‖θ♠‖²)/κ with κ = W((k − 1)/e) for k
    classes, where W is Lambert's function: κ is .2785 for two classes and 1.12 for ten.
    The bound follows because, at θ♠, the gradient of the loss on the examples must
    balance the pull to the shared model and the weight decay. In the inner product
    with θ♠, one example contributes at most κ (docs/explanation/derivations/poison.md).
    Examples of `data_attack` need more weight than this bound: see `weight_needed`.

    Args:
        head: model θ♠.
        target: target θ† of the shared model.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: weight decay ν of ν‖θ‖².

    Returns:
        The bound, for a loss that is summed over examples; 0 if it is negative.
    """
    strength(lam)
    at_least_zero("nu", nu)
    crafted, wanted = checked(head), checked(target)
    own = np.column_stack(tuple(crafted))
    pull = lam * (own - np.column_stack(tuple(wanted))) + 2 * nu * own
    if len(own) > 1:  # the mean of the classes' rows has no effect on labels
        own, pull = own - own.mean(axis=0), pull - pull.mean(axis=0)
    most = float(special.lambertw((max(2, len(own)) - 1) / math.e).real)
    return max(0.0, float((own * pull).sum()) / most)


def _solve(size: np.ndarray, part: np.ndarray, limit: float) -> float:
    """Return the α that solves Σ part/(1 + α·size)² = limit; ∞ if there is none."""

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
    """How conspicuous poisoned examples are."""

    number: int  # number of poisoned examples
    share: float  # their share of all examples, including the poisoned ones
    largest_norm: float  # largest norm of an input


def summary(x: np.ndarray, others: int) -> Summary:
    """Return number, share and largest norm of poisoned inputs.

    Departs: the paper divides 2,000 poisoned examples by 60,000 honest ones (3.3 %).
    Here the divisor is the number of all examples, 62,000 (3.2 %).

    Args:
        x: [m, …] poisoned inputs.
        others: number of the honest users' examples.
    """
    if others < 0:
        raise Refusal(f"others = {others} must be a number of examples, 0 or more")
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
    """Write poisoned examples to an .npz file, for the corruption `from_file`.

    The file has the arrays x, y, p (for soft labels), scale, number, share and
    largest_norm. If writing fails, an existing file stays as it was.

    Args:
        path: path of the file, with or without .npz. An existing file is replaced.
        x: [m, …] inputs of the same shape as the examples of the data set.
        y: [m] labels, or targets of a regression; None: the most likely label by p.
        p: [m, classes] soft labels.
        others: number of the honest users' examples.
        scale: value of x that is scaled to 1; 0: 255 if x is of bytes, otherwise 1.

    Returns:
        Number, share and largest norm.
    """
    at_least_zero("scale", scale)
    x, y, p = _checked(np.asarray(x), y, p)
    found = summary(x, others)
    unit = scale or (255.0 if x.dtype == np.uint8 else 1.0)
    soft: dict[str, Any] = {} if p is None else {"p": p}
    place = Path(path).expanduser()
    if not place.name:
        raise Refusal(f"'{path}' is not a file name; give a path such as poison.npz")
    remedy = "give a path in a folder that exists, on a disk with free space"
    with files.refused(path, remedy), files.whole(place) as file:
        np.savez(file, x=x, y=y, scale=unit, **soft, **found._asdict())
    return found


def _checked(x: np.ndarray, y: np.ndarray | None, p: np.ndarray | None) -> Examples:
    if p is not None:
        p = np.asarray(p, np.float64)
        two = p.ndim == 2
        why = soft_labels.wrong(torch.from_numpy(p)) if two else "must have two axes"
        if why:
            raise Refusal(
                f"p, of shape {list(p.shape)}, {why}; give one row of probabilities "
                "per example, each at least 0, with sum 1"
            )
        y = p.argmax(axis=1) if y is None else np.asarray(y)
        if len(y) == len(p) and not np.array_equal(y, p.argmax(axis=1)):
            raise Refusal(
                f"{int((y != p.argmax(axis=1)).sum())} labels in y are not the most "
                "likely by p; leave y out: it follows from p"
            )
    if y is None:
        raise Refusal("y and p are both missing; give labels y or soft labels p")
    y = np.asarray(y)
    counts = [len(x), len(y)] + ([] if p is None else [len(p)])
    if x.ndim < 2 or not x.size or len({*counts}) > 1:
        raise Refusal(
            f"x has shape {x.shape}, and the numbers of labels are {counts[1:]}; give "
            "x as [m, features …] with m ≥ 1, and m labels"
        )
    for name, values in (("x", x), ("y", y)):
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise Refusal(
                f"{name} has type {values.dtype} or NaN or infinite values; give "
                "finite numbers"
            )
    return Examples(x, y, p)
