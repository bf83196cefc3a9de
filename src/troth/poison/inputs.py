"""Make inputs for which a linear classifier finds all classes equally likely.

They are free vectors, images with every pixel in a box, or embeddings of a deep
network, whose last layer is a linear classifier.

References: farhadkhani2022equivalence.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from troth import seeding
from troth.networks.last_layer import last
from troth.poison._given import above_zero, array, at_least_zero, same_size, some
from troth.types import Refusal

ROWS = 1024  # examples drawn at once; each such tile has its own random draws


class Head(NamedTuple):
    """A linear classifier with logits Wx + b; a single row is a binary margin."""

    weight: np.ndarray  # [k, d]
    bias: np.ndarray  # [k]

    @property
    def classes(self) -> int:
        """The number of classes; a single margin distinguishes two."""
        return max(2, len(self.bias))


class Subspace(NamedTuple):
    """The affine subspace V = {x : normals·x = offset}."""

    normals: np.ndarray  # [r, d] orthonormal rows; r ≤ classes − 1
    offset: np.ndarray  # [r]

    def project(self, x: np.ndarray) -> np.ndarray:
        """Return the nearest points of V; project twice to remove rounding errors."""
        for _ in range(2):
            x = x - (x @ self.normals.T - self.offset) @ self.normals
        return x


def head_of(
    theta: ArrayLike | Tensor, outputs: int, features: int, *, bias: bool = True
) -> Head:
    """Split a flat model of `models/linear` into (W, b): first the rows of W, then b.

    `outputs` is the number of classes, or 1 for a margin. Without `bias`, b is 0. A
    vector of another size is refused.
    """
    flat = array("the model", theta, 1)
    d = outputs * (features + bias)
    if len(flat) != d:
        raise Refusal(
            f"the model has {len(flat)} parameters, but a linear model with "
            f"{features} features and {outputs} outputs has {d}; give a vector of that "
            "size"
        )
    weight = flat[: outputs * features].reshape(outputs, features)
    return Head(weight, flat[outputs * features :] if bias else np.zeros(outputs))


def before(head: Head, mean: ArrayLike, std: ArrayLike) -> Head:
    """Return the same classifier for inputs before the normalization (x − mean)/std.

    `mean` and `std` > 0 are one number per feature, or one for all features.
    """
    weight, bias = checked(head)
    center, spread = (
        np.broadcast_to(np.asarray(v, np.float64), weight.shape[1:])
        for v in (mean, std)
    )
    if not (spread > 0).all():
        raise Refusal(f"std has the value {spread.min()}; all must be above 0")
    scaled = weight / spread
    return Head(scaled, bias - scaled @ center)


def checked(head: Head) -> Head:
    """Return a head as finite float64 arrays of matching shapes."""
    weight, bias = array("the weight", head[0], 2), array("the bias", head[1], 1)
    same_size("the bias", bias, "the weight, by its rows,", len(weight))
    if not weight.size:
        raise Refusal(
            f"the weight has shape {weight.shape}; a classifier needs at least one row "
            "and one feature"
        )
    return Head(weight, bias)


def indifference(head: Head) -> Subspace:
    """Return the subspace V on which all classes are equally likely (Appendix L.1).

    V is the set of x with (W_a − W_0)x = b_0 − b_a for all classes a. For a binary
    classifier with a single row, it is Wx = −b.

    Departs: the normals come from a singular value decomposition of the differences.
    The paper uses Gram–Schmidt, which loses orthogonality if rows are nearly dependent.

    Raises:
        Refusal: V is empty.

    >>> indifference(Head(np.array([[0.0, 2.0]]), np.array([-1.0]))).offset.tolist()
    [0.5]
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
            f"for no input are all {head.classes} classes equally likely: two or more "
            "classes have the same row of W but different biases, or there are too "
            f"many classes for {weight.shape[1]} features; label random inputs "
            "instead, or use another target"
        )
    return Subspace(right[kept], turned[kept] / size[kept])


def indifferent_inputs(
    head: Head,
    count: int,
    seed: int,
    *,
    low: float = -50.0,
    high: float = 50.0,
    noise: float = 0.01,
) -> np.ndarray:
    """Return inputs near V [count, d]: drawn in a box, projected on V, plus noise.

    The noise N(0, noise²) along each of the orthonormal normals of V shows a learner
    the scale of θ♠ and the sides of its boundaries. The classes stay almost equally
    likely. A longer list begins with the examples of a shorter one.

    Args:
        head: Model θ♠.
        count: Number of inputs.
        seed: Seed of all draws.
        low: Lower bound of the box before projection; −50 in the authors' code.
        high: Upper bound of the box. In a wide box, few examples determine the
            directions along V.
        noise: Standard deviation of the noise. With 0, inputs are in V, where the scale
            of θ♠ cannot be learned.
    """
    space = indifference(head)

    def near(x: np.ndarray, off: np.ndarray) -> np.ndarray:
        return np.asarray(space.project(x) + off @ space.normals)

    return drawn(space, count, seed, (low, high), noise, near)


def drawn(
    space: Subspace,
    count: int,
    seed: int,
    box: tuple[float, float],
    noise: float,
    place: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Draw inputs uniformly, and move each tile by `place(inputs, noise [m, r])`."""
    some(count)
    at_least_zero("noise", noise)
    low, high = box
    if not (low < high and math.isfinite(high - low)):
        raise Refusal(
            f"the box from {low} to {high} is empty; give low below high, both finite"
        )
    r, d = space.normals.shape
    x = np.empty((count, d))
    for tile, first in enumerate(range(0, count, ROWS)):
        draw = seeding.generator(seed, "poison/inputs", tile)
        # whole blocks, so that a longer list begins with a shorter one
        uniform = draw.uniform(low, high, (ROWS, d))[: count - first]
        off = noise * draw.standard_normal((ROWS, r))[: len(uniform)]
        x[first : first + ROWS] = place(uniform, off)
    return x


_HALVINGS = 30  # largest number of draws in a step


def clipped_inputs(
    head: Head, count: int, seed: int, *, noise: float = 0.01
) -> np.ndarray:
    """Follow the authors' recipe (L.3, Fig. 20): divide by the largest value and clip.

    Inputs are drawn uniformly from [0, 1]^d, projected on V, and moved by `noise` along
    each normal of V. All are divided by the largest value of all inputs. Negative
    values are then set to 0. Most inputs are off V after this. Their labels, computed
    after clipping, are nearly certain. So the attack needs many of them, with a large
    weight.
    """
    x = indifferent_inputs(head, count, seed, low=0.0, high=1.0, noise=noise)
    largest = float(x.max())
    if largest <= 0:
        raise Refusal(
            f"the largest value of {count} projected inputs is {largest:.3g}, so "
            "clipping to [0, 1] sets all values to 0; use inputs = 'free'"
        )
    return np.asarray((x / largest).clip(0, 1))


def boxed_inputs(
    head: Head,
    count: int,
    seed: int,
    *,
    low: float = 0.0,
    high: float = 1.0,
    noise: float = 0.01,
    rim: float = 0.1,
    tolerance: float = 1e-10,
    steps: int = 100,
) -> np.ndarray:
    """Return inputs [count, d] in the box and near V: uniform draws, moved to V.

    Each draw is projected on {x : normals·x = offset + ξ} ∩ [low, high]^d, with its own
    noise ξ ~ N(0, noise²). So it is exactly in the box, and its distances from V are
    exactly ξ. Its classes are almost equally likely, and a learner learns about as much
    from it as from an input without a box.

    If draws were projected on V ∩ box only, some features would be at the same bound in
    every example. Their weights could then not be distinguished from the bias. So each
    draw is projected into a box of its own, which is the given box contracted towards
    the draw, as `rim` says. The whole box is used only if V does not meet that smaller
    box.

    Args:
        head: Model θ♠.
        count: Number of inputs.
        seed: Seed of all draws.
        low: Smallest value of a feature.
        high: Largest value of a feature.
        noise: Standard deviation of the distance from V, in each normal direction.
        rim: How far the box is contracted, from 0 (not at all) to below 1 (at 1, only
            the draw itself would be left).
        tolerance: Largest allowed error of an input's position along the normals.
        steps: Largest number of steps of the projection.

    Raises:
        Refusal: Some examples could not be moved to V ∩ [low, high]^d.

    Departs: Appendix L.3 clips after the projection (`clipped_inputs`), which moves
        inputs away from V.
    """
    above_zero("tolerance", tolerance, "rounding causes some error; try 1e-10")
    if not 0 <= rim < 1:
        raise Refusal(f"rim = {rim} must be a share, at least 0 and below 1")
    space = indifference(head)
    tried = 0

    def inside(x: np.ndarray, off: np.ndarray) -> np.ndarray:
        nonlocal tried
        tried += len(x)
        offset = space.offset + off
        own = low + rim * (x - low), high - rim * (high - x)
        near, gap = _into_box(x, space, offset, own, steps, tolerance)
        if rim and len(again := np.flatnonzero(gap > tolerance)):
            box = (np.full((len(again), 1), low), np.full((len(again), 1), high))
            near[again], gap[again] = _into_box(
                x[again], space, offset[again], box, steps, tolerance
            )
        if missed := int((gap > tolerance).sum()):
            raise Refusal(
                f"V ∩ [{low:g}, {high:g}]^{x.shape[1]} was not reached: {missed} of "
                f"{tried} inputs are up to {gap.max():.3g} away; use less noise, "
                "inputs = 'clip', or inputs = 'free'"
            )
        return near

    return drawn(space, count, seed, (low, high), noise, inside)


def _into_box(
    x: np.ndarray,
    space: Subspace,
    offset: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    steps: int,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Project rows on {normals·z = offset} ∩ box; return the result and its distances.

    The projection is clip(x − normalsᵀμ), with the μ that solves the r equations.
    Dykstra's alternating projections take the steps μ += normals·z − offset, which is
    gradient ascent on the dual (`docs/explanation/derivations/poison.md`). Here
    Newton's method maximizes the dual. Its Hessian is over the features that are not at
    their bounds. A little of Dykstra's step is added where there are too few of these,
    and a step is halved if the dual does not grow.
    """
    normals, r = space.normals, len(space.normals)
    products = (normals[:, None] * normals).reshape(r * r, x.shape[1]).T
    mu = np.zeros_like(offset)
    at = _placed(x, normals, offset, box, mu)
    # the largest cost in the box: a larger dual proves that no point exists
    most = (1 + 1e-9) * 0.5 * (np.maximum(x - box[0], box[1] - x) ** 2).sum(axis=1)
    for _ in range(steps):
        far = np.linalg.norm(at.gap, axis=1)
        todo = np.flatnonzero((far > tolerance) & (at.dual <= most))
        if not len(todo):
            break
        free = (at.near[todo] > box[0][todo]) & (at.near[todo] < box[1][todo])
        damp = 1e-3 * far[todo].clip(max=1)
        curved = (free @ products).reshape(-1, r, r) + damp[:, None, None] * np.eye(r)
        step = np.linalg.solve(curved, at.gap[todo][..., None])[..., 0]
        for scale in 0.5 ** np.arange(_HALVINGS):
            tried = mu[todo] + scale * step
            own = box[0][todo], box[1][todo]
            new = _placed(x[todo], normals, offset[todo], own, tried)
            # near the solution, the dual grows by less than its rounding error
            near = np.linalg.norm(new.gap, axis=1) <= 0.5 * far[todo]
            good = near | (new.dual > at.dual[todo])
            mu[todo[good]] = tried[good]
            for whole, part in zip(at, new, strict=True):
                whole[todo[good]] = part[good]
            todo, step = todo[~good], step[~good]
            if not len(todo):
                break
    return at.near, np.linalg.norm(at.gap, axis=1)


class _Placed(NamedTuple):
    near: np.ndarray  # [m, d] in the box
    gap: np.ndarray  # [m, r] errors along the normals: the gradient of the dual
    dual: np.ndarray  # [m] ½‖near − x‖² + μ·gap, which the right μ maximizes


def _placed(
    x: np.ndarray,
    normals: np.ndarray,
    offset: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    mu: np.ndarray,
) -> _Placed:
    """Return the points for given multipliers, with their errors and dual values."""
    near = (x - mu @ normals).clip(*box)
    gap = near @ normals.T - offset
    return _Placed(near, gap, 0.5 * ((near - x) ** 2).sum(1) + (mu * gap).sum(1))


def embeddings(
    net: nn.Module, x: Tensor, *, batch: int = 1024
) -> tuple[np.ndarray, Head]:
    """Return inputs of the last linear layer, and that layer (Section 4.2, Appendix J).

    The layers before it are not changed, so the chain runs on embeddings as on images:
    `data_attack(head, …)` makes poisoned embeddings. The network is run in evaluation
    mode (no dropout, running statistics), and its own mode is restored.

    Args:
        net: Network that ends in `nn.Linear`.
        x: [m, …] inputs of the network.
        batch: Number of examples that go through the network at once.

    Returns:
        Embeddings [m, e] and the layer (W, b), in float64; b = 0 if the layer has no
        bias.

    Departs: an embedding is not an image. To send it as data, an attacker needs an
    input that has this embedding, as Appendix J also says.
    """
    if batch < 1 or not len(x):
        raise Refusal(
            f"there are {len(x)} examples, and batch = {batch}; both must be at least 1"
        )
    training = {part: part.training for part in net.modules()}
    net.eval()
    try:
        module = last(net, x[:1]).module
        seen = _inputs(net, module, x, batch)
    except Refusal:
        raise Refusal(
            f"{type(net).__name__} does not end in a linear layer (torch.nn.Linear), "
            "which the attack needs; add one at its end"
        ) from None
    finally:
        for part, was in training.items():
            part.training = was
    none, bias = np.zeros(len(module.weight)), module.bias
    weight = array("the weight", module.weight, 2)
    return seen, Head(weight, none if bias is None else array("the bias", bias, 1))


def _inputs(net: nn.Module, module: nn.Module, x: Tensor, batch: int) -> np.ndarray:
    seen: list[Tensor] = []
    hook = module.register_forward_pre_hook(
        lambda module, given: seen.append(given[0].detach().to("cpu", torch.float64))
    )
    try:
        with torch.no_grad():
            for part in torch.split(x, batch):
                net(part)
    finally:
        hook.remove()
    return torch.cat(seen).numpy()
