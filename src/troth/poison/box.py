r"""Indifferent inputs that are images: every pixel in [0, 1].

References: farhadkhani2022equivalence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from troth.poison._given import above_zero
from troth.poison.indifference import (
    Head,
    Subspace,
    drawn,
    indifference,
    indifferent_inputs,
)
from troth.types import Refusal

_HALVINGS = 30  # of a step, at most


def clipped_inputs(
    head: Head, count: int, seed: int, *, noise: float = 0.01
) -> np.ndarray:
    """The authors' recipe (Appendix L.3, Fig. 20): scaled by the largest, and clipped.

    Uniform in [0, 1]^d, projected on V, with noise, divided by the largest value of
    all, then cut off below 0. Most then lie off V, and their labels, given after
    clipping, are nearly certain: it takes many of them, and a large weight.

    Args:
        head: θ♠.
        count: examples.
        seed: of all draws.
        noise: standard deviation along each normal of V.
    """
    x = indifferent_inputs(head, count, seed, low=0.0, high=1.0, noise=noise)
    largest = float(x.max())
    if largest <= 0:
        raise Refusal(
            f"the largest value of {count} projected inputs is {largest:.3g}, so that "
            "clipping to [0, 1] leaves nothing of them; use inputs without a box"
        )
    clipped: np.ndarray = (x / largest).clip(0, 1)
    return clipped


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
    """[count, d] inputs near V and in the box: uniform draws, brought to V inside it.

    Each draw is projected on {x : normals·x = offset + ξ} ∩ [low, high]^d, with its own
    noise ξ ~ N(0, noise²): so it is in the box exactly and off V by ξ exactly, its
    labels are close to equally likely, and it says about as much as without a box.

    Nearest points of the box alone have some features at the same bound in every
    example, whose weights then cannot be told from the bias. So a draw has a box of its
    own, the given one drawn together towards it by `rim`; the whole box is used only
    where V misses its own.

    Args:
        head: θ♠.
        count: examples.
        seed: of all draws.
        low: of a feature.
        high: of a feature.
        noise: standard deviation along each normal of V.
        rim: 0 gives the nearest points of the box; below 1, where only the draw itself
            would be left.
        tolerance: how far from its place along the normals an input may be.
        steps: of the projection, at most.

    Raises:
        Refusal: some examples were not brought to V ∩ [low, high]^d.

    Departs: Appendix L.3 clips after projecting (`clipped_inputs`), which leaves V.
    """
    above_zero("tolerance", tolerance, "rounding leaves some error: 1e-10 is small")
    if not 0 <= rim < 1:
        raise Refusal(f"rim = {rim} is a share of the box; give 0 or more, below 1")
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
                f"{tried} examples tried stayed up to {gap.max():.3g} away; use less "
                "noise, clipped inputs, or no box"
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
    """Project rows on {normals·z = offset} ∩ box; the result, and how far it is off.

    The projection is clip(x − normalsᵀμ) with the μ that solves the r equations.
    Dykstra's alternating projections are the steps μ += normals·z − offset, which is
    gradient ascent on the dual (`docs/derivations/poison.md`). These are Newton steps
    on it: over the features that are not at their bounds, damped by a little of
    Dykstra's step where too few are left, and halved where the dual does not grow.
    """
    normals, r = space.normals, len(space.normals)
    products = (normals[:, None] * normals).reshape(r * r, x.shape[1]).T
    mu = np.zeros_like(offset)
    at = _placed(x, normals, offset, box, mu)
    # no point of the box costs more: a dual above it proves that there is none
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
            # at the end the dual grows by less than its rounding
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
    gap: np.ndarray  # [m, r] off their places along the normals: the dual's gradient
    dual: np.ndarray  # [m] ½‖near − x‖² + μ·gap, which the right μ makes largest


def _placed(
    x: np.ndarray,
    normals: np.ndarray,
    offset: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    mu: np.ndarray,
) -> _Placed:
    """Where multipliers put their rows."""
    near = (x - mu @ normals).clip(*box)
    gap = near @ normals.T - offset
    return _Placed(near, gap, 0.5 * ((near - x) ** 2).sum(1) + (mu * gap).sum(1))
