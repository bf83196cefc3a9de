"""Projected gradient descent on a model's inputs.

References: madry2018towards, wang2021robust.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from troth import seeding
from troth.client.adversarial._worst import Adversarial, Worst, rows, worse
from troth.types import Batch, Refusal, Task

Norm = Literal["linf", "l2"]
_START = -2  # enters the key of starts; augments and dropout fold in no negative one


def pgd(
    task: Task,
    scale: float,
    *,
    eps: float = 0.1,
    step: float = 0.0,
    iterations: int = 10,
    start: Literal["none", "random"] = "none",
    norm: Norm = "linf",
    bounds: list[float] = [0.0, 1.0],  # noqa: B006
) -> Adversarial:
    """x_adv = argmax ℓ(f(x'), y) over ‖x' − x‖ ≤ ε within the data's range (Eq. 1).

    xᵗ⁺¹ = Proj(xᵗ + α·sign ∇ℓ(f(xᵗ), y)), with the norm "l2" along ∇ℓ/‖∇ℓ‖ (Section
    3.1). Of x⁰ … xᵀ every example keeps the one with the highest loss. The model
    predicts as it does in use, without dropout and with its own running statistics.

    All lengths are in units of the data's range: 1 is what stands for 1 in the data
    (255 for bytes). x_adv itself is in the units of the data, as fractions.

    Departs: the paper adds the step to x, not to xᵗ, with which more than one iteration
    would be of no use, and does not say which iterate is taken, nor ε, α, T or the
    start; here they are as is usual.

    Args:
        task: Task whose loss is raised.
        scale: Value of x that stands for 1.
        eps: Radius ε > 0 of the ball.
        step: Step size α; 0: ε/4. From ε on (linf; l2: 2ε), a step reaches across.
        iterations: Number of steps T ≥ 1; 1 with step = eps is the fast gradient sign
            method. More never lower the loss that is kept.
        start: Start of the search: "none", x itself, or "random". "random" is uniform
            in the ball, then clipped, drawn by (seed, round, client, step, example).
        norm: Norm of the ball: "linf" or "l2".
        bounds: Lowest and highest value of the data; x_adv is clipped to them. []: the
            data have no range, and nothing is clipped.

    Guarantee: where every input lies within the bounds, so does x_adv, and in the ball
    (to the last digit of its numbers).
    """
    _check(eps, step, iterations, bounds)
    low, high = (bound * scale for bound in bounds or (-math.inf, math.inf))
    box = _Ball(norm, eps * scale, low, high)
    along = (step or eps / 4) * scale

    def worst(w: Tensor, batch: Batch) -> Worst:
        x = batch.x.to(w.dtype)
        at = x if start == "none" else box.inside(x, box.drawn(x, batch))
        outputs, loss, g = task.climb(w, at, batch.y)
        best = Worst(at, loss, outputs)
        for i in range(iterations):
            at = box.inside(x, at - x + along * box.steepest(g))
            outputs, loss, g = task.climb(w, at, batch.y, i + 1 == iterations)
            best = worse(Worst(at, loss, outputs), best)
        return best

    def expect(x: Tensor) -> None:
        least, most = (float(end) for end in x.aminmax()) if x.numel() else (low, high)
        if not low <= least <= most <= high:
            raise Refusal(
                f"adversarial.bounds = {bounds} says that inputs lie between {low:g} "
                f"and {high:g} (1 stands for {scale:g}), and they reach from {least:g} "
                f"to {most:g}; set adversarial.bounds to [{least / scale:g}, "
                f"{most / scale:g}] or wider, or to [] where they have no range"
            )

    return Adversarial(worst, expect)


class _Ball(NamedTuple):
    """The inputs near one, in a norm and within the data's range."""

    norm: Norm
    radius: float
    low: float
    high: float

    def steepest(self, g: Tensor) -> Tensor:
        """Return the direction of length 1 that climbs most; 0 where nothing does."""
        return g.sign() if self.norm == "linf" else g / _length(g)

    def inside(self, x: Tensor, away: Tensor) -> Tensor:
        """Move x away, projected: into the ball first, then into the range.

        The second brings no number farther from x, which lies in the range.
        """
        r = self.radius
        if self.norm == "linf":
            near = away.clamp(-r, r)
        else:
            near = away * (r / _length(away)).clamp(max=1)
        return (x + near).clamp(self.low, self.high)

    def drawn(self, x: Tensor, batch: Batch) -> Tensor:
        """Draw a displacement for every example, uniform in the ball."""
        each = torch.arange(x.shape[0], device=x.device)
        step = seeding.fold(seeding.fold(batch.key, batch.t), _START)
        key, d = seeding.fold(step, each), x.shape[1:].numel()
        if self.norm == "linf":
            wide = 2 * seeding.uniform(key, d, x.dtype) - 1
            return self.radius * wide.reshape(x.shape)
        direction = seeding.normal(key, d, x.dtype).reshape(x.shape)
        u = seeding.uniform(seeding.fold(key, 0), 1, x.dtype)[:, 0]
        return direction / _length(direction) * rows(self.radius * u ** (1 / d), x)


def _length(g: Tensor) -> Tensor:
    """Compute each example's norm, [b, 1, …], never underflowing; 1 where it is 0."""
    flat = g.flatten(1)
    largest = flat.abs().amax(dim=1, keepdim=True)
    largest = torch.where(largest > 0, largest, torch.ones_like(largest))
    size = largest * (flat / largest).square().sum(dim=1, keepdim=True).sqrt()
    return rows(torch.where(size > 0, size, torch.ones_like(size)), g)


def _check(eps: float, step: float, iterations: int, bounds: list[float]) -> None:
    if not 0 < eps < math.inf:
        raise Refusal(
            f"adversarial.eps = {eps} must be a positive, finite number, in units of "
            "the data's range, such as 0.1"
        )
    if not 0 <= step < math.inf:
        raise Refusal(
            f"adversarial.step = {step} must be a finite number of at least 0; 0 is a "
            "quarter of eps"
        )
    if iterations < 1:
        raise Refusal(
            f"adversarial.iterations = {iterations} must be at least 1, such as 10"
        )
    pair = len(bounds) == 2 and -math.inf < bounds[0] < bounds[1] < math.inf
    if bounds and not pair:
        raise Refusal(
            f"adversarial.bounds = {bounds} is no range; give its lowest and highest "
            "value, such as [0.0, 1.0], or [] for data that have none"
        )
