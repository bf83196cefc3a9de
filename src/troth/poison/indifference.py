r"""Inputs on which a linear classifier finds all classes equally likely.

References: farhadkhani2022equivalence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from troth import seeding
from troth.poison._given import array, at_least_zero, same_size, some
from troth.types import Refusal

ROWS = 1024  # examples made at once, each such tile from draws of its own


class Head(NamedTuple):
    """A linear classifier with logits Wx + b; a single row is a binary one's margin."""

    weight: np.ndarray  # [k, d]
    bias: np.ndarray  # [k]

    @property
    def classes(self) -> int:
        """How many labels it tells apart; a single margin tells two."""
        return max(2, len(self.bias))


class Subspace(NamedTuple):
    """V = {x : normals·x = offset}."""

    normals: np.ndarray  # [r, d] orthonormal rows; r = classes − 1 unless rows depend
    offset: np.ndarray  # [r]

    def project(self, x: np.ndarray) -> np.ndarray:
        """The nearest points of V; twice, for the first leaves a rounding error."""
        for _ in range(2):
            x = x - (x @ self.normals.T - self.offset) @ self.normals
        return x


def head_of(
    theta: ArrayLike | Tensor, outputs: int, features: int, *, bias: bool = True
) -> Head:
    """A flat model of `models/linear` as (W, b): the rows of W, then b.

    Args:
        theta: [outputs·features (+ outputs)].
        outputs: classes, or 1 for a margin.
        features: d.
        bias: whether there is a b; 0 otherwise.

    Raises:
        Refusal: the vector is of another size.
    """
    flat = array("the model", theta, 1)
    d = outputs * (features + bias)
    if len(flat) != d:
        raise Refusal(
            f"the model has {len(flat)} parameters, and a linear one with {features} "
            f"features and {outputs} outputs has {d}; give a target of that size"
        )
    weight = flat[: outputs * features].reshape(outputs, features)
    return Head(weight, flat[outputs * features :] if bias else np.zeros(outputs))


def before(head: Head, mean: ArrayLike, std: ArrayLike) -> Head:
    """The same classifier on inputs that are not yet normalised by (x − mean)/std.

    Args:
        head: of a layer behind the normalisation.
        mean: [d], or one number for all features.
        std: [d] or one number, above 0.
    """
    weight, bias = checked(head)
    center, spread = (
        np.broadcast_to(np.asarray(v, np.float64), weight.shape[1:])
        for v in (mean, std)
    )
    if not (spread > 0).all():
        raise Refusal(f"std holds {spread.min()}; inputs are divided by it: give > 0")
    scaled = weight / spread
    return Head(scaled, bias - scaled @ center)


def checked(head: Head) -> Head:
    """A head as finite float64 arrays that fit together."""
    weight, bias = array("the weight", head[0], 2), array("the bias", head[1], 1)
    same_size("the bias", bias, "the weight, by its rows,", len(weight))
    if not weight.size:
        raise Refusal(
            f"the weight has shape {weight.shape}; a classifier has at least one row "
            "and one feature"
        )
    return Head(weight, bias)


def indifference(head: Head) -> Subspace:
    """V: (W_a − W_0)x = b_0 − b_a for all classes a (Appendix L.1); Wx = −b if binary.

    From the singular value decomposition of the differences, where the paper has
    Gram–Schmidt, which loses orthogonality when rows are nearly dependent.

    Raises:
        Refusal: V is empty.
    """
    weight, bias = checked(head)
    if len(weight) == 1:
        rows, sides = weight, -bias
    else:
        rows, sides = weight[1:] - weight[0], bias[0] - bias[1:]
    left, size, right = np.linalg.svd(rows, full_matrices=False)
    precise = max(rows.shape) * np.finfo(np.float64).eps
    scale = float(np.abs(weight).max() * math.sqrt(weight.shape[1]))
    kept = size > precise * scale
    turned = left.T @ sides
    missed = sides - left[:, kept] @ turned[kept]
    if np.abs(missed).max(initial=0.0) > 1e-9 * max(1e-300, float(np.abs(bias).max())):
        raise Refusal(
            f"no input makes all {head.classes} classes equally likely: two or more of "
            "them have rows of W that do not tell them apart, or there are more "
            f"classes than {weight.shape[1]} features allow, but their biases differ; "
            "label random inputs instead, or use another target"
        )
    return Subspace(right[kept], turned[kept] / size[kept])


def tiles(count: int) -> Iterator[slice]:
    """Rows that are made together."""
    for first in range(0, count, ROWS):
        yield slice(first, min(first + ROWS, count))


def indifferent_inputs(
    head: Head,
    count: int,
    seed: int,
    *,
    low: float = -50.0,
    high: float = 50.0,
    noise: float = 0.01,
) -> np.ndarray:
    """[count, d] inputs near V: uniform in a box, projected on V, moved off by noise.

    The noise, N(0, noise²) along each of the orthonormal directions normal to V, is
    what tells a learner the scale of θ♠ and the sides of its boundaries; labels stay
    close to equally likely. The first examples of a longer list are the same.

    Args:
        head: θ♠.
        count: examples.
        seed: of all draws.
        low: of the box before projection; −50 in the authors' code.
        high: of the box; a wide one fixes the directions along V with few examples.
        noise: 0 puts them on V itself, where the scale of θ♠ cannot be learned.
    """
    space = indifference(head)

    def near(x: np.ndarray, off: np.ndarray) -> np.ndarray:
        moved: np.ndarray = space.project(x) + off @ space.normals
        return moved

    return drawn(space, count, seed, (low, high), noise, near)


def drawn(
    space: Subspace,
    count: int,
    seed: int,
    box: tuple[float, float],
    noise: float,
    place: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Uniform draws, put in their places tile by tile.

    Args:
        space: V.
        count: examples.
        seed: of all draws.
        box: lowest and highest value of a feature.
        noise: standard deviation along each normal of V.
        place: draws [m, d] and their noise [m, r] → inputs [m, d].
    """
    some(count)
    at_least_zero("noise", noise)
    low, high = box
    if not (low < high and math.isfinite(high - low)):
        raise Refusal(
            f"the box from {low} to {high} is empty; give low below high, both finite"
        )
    r, d = space.normals.shape
    x = np.empty((count, d))
    for tile in tiles(count):
        draw = seeding.generator(seed, "poison/inputs", tile.start // ROWS)
        # whole tiles, so that a longer list begins with a shorter one
        uniform = draw.uniform(low, high, (ROWS, d))[: tile.stop - tile.start]
        off = noise * draw.standard_normal((ROWS, r))[: len(uniform)]
        x[tile] = place(uniform, off)
    return x
