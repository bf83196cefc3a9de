"""Make inputs for which a linear classifier finds all classes equally likely.

These inputs are the classifier's indifference subspace V. They may have any values, or
be limited to a box. They may be embeddings of a deep network, whose last layer is a
linear classifier. θ♠ is the classifier that attackers should learn from such inputs.
The paper is Farhadkhani et al. (2022), *An Equivalence Between Data Poisoning and
Byzantine Gradient Attacks*.

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

ROWS = 1024  # inputs in a block; each block has separate random numbers


class Head(NamedTuple):
    """A linear classifier with logits Wx + b, such as the last layer of a network.

    If W has a single row, Wx + b is the margin between two classes.
    """

    weight: np.ndarray  # [k, d]
    bias: np.ndarray  # [k]

    @property
    def classes(self) -> int:
        """Number of classes; 2 if W has a single row."""
        return max(2, len(self.bias))


class Subspace(NamedTuple):
    """Subspace V = {x : normals·x = offset}."""

    normals: np.ndarray  # [r, d] orthonormal rows; r ≤ classes − 1
    offset: np.ndarray  # [r]

    def project(self, x: np.ndarray) -> np.ndarray:
        """Return the nearest points of V; a second pass reduces rounding errors."""
        for _ in range(2):
            x = x - (x @ self.normals.T - self.offset) @ self.normals
        return x


def head_of(
    theta: ArrayLike | Tensor, outputs: int, features: int, *, bias: bool = True
) -> Head:
    """Convert the flat parameters of the model `linear` to (W, b).

    Args:
        theta: [d] parameters: the rows of W, then b.
        outputs: number of classes, or 1 for a margin.
        features: number of features.
        bias: whether the model has b; if not, b is 0.

    >>> head_of([1.0, 2.0, 3.0], 1, 2)
    Head(weight=array([[1., 2.]]), bias=array([3.]))
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

    Args:
        head: classifier of normalized inputs.
        mean: one number per feature, or one for all.
        std: one number above 0 per feature, or one for all.
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
    """Convert a head to float64 arrays.

    Raise Refusal if they are not finite, or their shapes do not fit together.
    """
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

    V is the set of x with (W_a − W_0)x = b_0 − b_a for all classes a. If W has a single
    row, V is the set with Wx = −b. The normals of V come from the singular value
    decomposition of the differences W_a − W_0. The paper uses Gram–Schmidt, which loses
    orthogonality if the rows are nearly dependent.

    Args:
        head: classifier (W, b).

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
    """Draw inputs from a box, project them on V, and add noise normal to V.

    The noise is N(0, noise²) along each normal of V. Without it, the scale of θ♠ could
    not be learned, nor on which side of a boundary each class is. All classes remain
    nearly equally likely. With a larger `count`, the first inputs stay the same.

    Args:
        head: model θ♠.
        count: number of inputs.
        seed: seed of all random numbers.
        low: lower limit of the box; −50 in the authors' code.
        high: upper limit of the box. The wider the box, the fewer examples are needed
            to learn θ♠ in the directions along V.
        noise: standard deviation of the noise. With 0, all inputs are on V, and the
            scale of θ♠ cannot be learned.

    Returns:
        Inputs, [count, d].
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
    """Draw uniform inputs from a box and noise, and return the inputs after `place`.

    Args:
        space: the subspace V in d dimensions, with r normals.
        count: number of inputs.
        seed: seed of all random numbers.
        box: lower and upper limit of the box.
        noise: standard deviation of the noise along each normal.
        place: function from inputs [m, d] and noise [m, r] to the final inputs.
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
    for tile, first in enumerate(range(0, count, ROWS)):
        draw = seeding.generator(seed, "poison/inputs", tile)
        # always draw whole blocks, so the first inputs do not depend on `count`
        uniform = draw.uniform(low, high, (ROWS, d))[: count - first]
        off = noise * draw.standard_normal((ROWS, r))[: len(uniform)]
        x[first : first + ROWS] = place(uniform, off)
    return x


_HALVINGS = 30  # number of times that a step may be halved


def clipped_inputs(
    head: Head, count: int, seed: int, *, noise: float = 0.01
) -> np.ndarray:
    """Make inputs with features in [0, 1] as the authors do (Appendix L.3, Fig. 20).

    Inputs are drawn from [0, 1]^d, projected on V, and get noise along each normal of
    V. Then all inputs are divided by the largest value among them, and negative values
    are set to 0. Afterwards, most inputs are far from V, and one class is nearly
    certain. So many examples or large weights are needed.

    Args:
        head: model θ♠.
        count: number of inputs.
        seed: seed of all random numbers.
        noise: standard deviation of the noise along each normal.

    Returns:
        Inputs, [count, d].
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
    """Make inputs that are near V and have all features in [low, high].

    Each input is drawn from the box, with noise ξ ~ N(0, noise²) for each normal. Then
    it is projected on the intersection of the box with {x : normals·x = offset + ξ}. So
    it is in the box, and its distance from V along each normal is ξ. All classes are
    nearly equally likely, and about as many examples are needed as without a box.

    If inputs were projected on the whole box, some features would be at the same limit
    in all examples. Then their weights could not be distinguished from the bias. So
    each input is projected on a smaller box: every limit is moved towards the drawn
    value by the share `rim` of their distance. The whole box is used only if the
    smaller one does not meet V.

    Args:
        head: model θ♠.
        count: number of inputs.
        seed: seed of all random numbers.
        low: lower limit of the features.
        high: upper limit of the features.
        noise: standard deviation along each normal of V.
        rim: share by which the box is made smaller, at least 0 and below 1; 0: the
            whole box.
        tolerance: largest error of an input along the normals.
        steps: largest number of Newton steps of the projection.

    Returns:
        Inputs, [count, d].

    Raises:
        Refusal: for some inputs, no point of the box with this noise was found.

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
    """Project each row of x on {normals·z = offset} ∩ box; return z and its error.

    The projection is z = clip(x − normalsᵀμ), where the multipliers μ solve the r
    equations normals·z = offset. They maximize the dual problem of the projection
    (`docs/explanation/derivations/poison.md`), which is solved by Newton's method.
    Dykstra's alternating projections are gradient ascent on the same problem. Only
    features that are not at their limits enter the Hessian. It is damped, in case there
    are too few of them. A step is halved until the dual grows.
    """
    normals, r = space.normals, len(space.normals)
    products = (normals[:, None] * normals).reshape(r * r, x.shape[1]).T
    mu = np.zeros_like(offset)
    at = _placed(x, normals, offset, box, mu)
    # largest possible ½‖z − x‖²; if the dual exceeds it, the intersection is empty
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
            # near the solution, rounding hides the growth of the dual
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
    gap: np.ndarray  # [m, r] error along the normals: gradient of the dual
    dual: np.ndarray  # [m] ½‖near − x‖² + μ·gap, which the solution μ maximizes


def _placed(
    x: np.ndarray,
    normals: np.ndarray,
    offset: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    mu: np.ndarray,
) -> _Placed:
    """Return the points z = clip(x − normalsᵀμ), their errors, and the dual."""
    near = (x - mu @ normals).clip(*box)
    gap = near @ normals.T - offset
    return _Placed(near, gap, 0.5 * ((near - x) ** 2).sum(1) + (mu * gap).sum(1))


def embeddings(
    net: nn.Module, x: Tensor, *, batch: int = 1024
) -> tuple[np.ndarray, Head]:
    """Return the embeddings of inputs, and the last layer of a network (Appendix J).

    An embedding is the input of the last, linear layer. If all other layers are fixed,
    `data_attack` can attack this layer: it makes poisoned embeddings. The network is
    evaluated in `eval` mode, and then returned to its previous mode.

    Args:
        net: network whose last layer is nn.Linear.
        x: [m, …] inputs of the network.
        batch: number of examples that are evaluated at once.

    Returns:
        Embeddings [m, e] and the layer (W, b), in float64. If the layer has no bias, b
        is 0.

    Departs: a poisoned embedding is not an input. To use it, an attacker needs an input
    with this embedding, as Appendix J says too.
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
