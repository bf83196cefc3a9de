"""Projected gradient descent on a model's inputs (PGD), which raises the loss.

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
_START = -2  # keeps the draws of starts apart from those of augmentations and dropout


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
    """Make inputs near the given ones on which a model has a high loss.

    For an input x with label y, the result x_adv approximately maximizes the loss
    ℓ(f(x'), y) of the model f over the ball ‖x' − x‖ ≤ ε, within the range of the data
    (Eq. 1 of Wang et al. 2021). Every step is

        xᵗ⁺¹ = Proj(xᵗ + α·sign ∇ℓ(f(xᵗ), y)),

    where, with the norm "l2", ∇ℓ/‖∇ℓ‖ replaces the sign (Section 3.1). Proj is the
    nearest point that lies both in the ball and in the range. For every example, the
    result is the input with the highest loss among x⁰ … xᵀ, the earliest if several are
    equal. The model is in evaluation mode.

    eps, step and bounds are in units of `scale`, the value of x that is scaled to 1
    (255 for bytes). x_adv itself is in the units of x and is not rounded.

    Args:
        task: Loss of the model, and its gradient in the inputs.
        scale: Value of x that is scaled to 1.
        eps: Radius ε > 0 of the ball.
        step: Step size α. 0 means ε/4. With α ≥ ε, one step from the center reaches the
            border of the ball.
        iterations: Number of steps T ≥ 1. 1 with step = eps is the fast gradient sign
            method. More steps never lower the loss of the result.
        start: Start x⁰ of the search. "none" is x itself. "random" is drawn uniformly
            from the ball, then clipped to the bounds; seed, round, client, step and
            example determine it.
        norm: Norm of the ball: "linf" or "l2".
        bounds: Lowest and highest value of the data; x_adv is clipped to them. [] means
            that the data have no range, and nothing is clipped.

    Departs: Wang et al. add the step to x, not to xᵗ, which would make all iterations
    after the first useless. They do not state ε, α, T, the start, and which iterate is
    the result. The defaults here are usual choices.

    Guarantee: if every input lies within the bounds, then x_adv lies within the bounds
    and in the ball, up to rounding.
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
                f"and {high:g} (in units of {scale:g}), but they lie between {least:g} "
                f"and {most:g}; set adversarial.bounds to [{least / scale:g}, "
                f"{most / scale:g}] or wider, or to [] (troth audit --bounds none) if "
                "the data have no range"
            )

    return Adversarial(worst, expect)


class _Ball(NamedTuple):
    """All inputs within a distance of a given one and within the data's range."""

    norm: Norm
    radius: float
    low: float
    high: float

    def steepest(self, g: Tensor) -> Tensor:
        """Return the direction of steepest ascent, of norm 1; 0 if g is 0."""
        return g.sign() if self.norm == "linf" else g / _length(g)

    def inside(self, x: Tensor, away: Tensor) -> Tensor:
        """Project x + away onto the intersection of the ball and the range.

        x must lie in the range.
        """
        if self.norm == "linf":
            away = away.clamp(-self.radius, self.radius)
        else:
            away = away * rows(self._factor(x, away), x)
        return (x + away).clamp(self.low, self.high)

    def _factor(self, x: Tensor, away: Tensor) -> Tensor:
        """Return the s ≤ 1 for which clip(x + s·away) is the projection (l2 norm).

        By the Karush–Kuhn–Tucker conditions, the projection of y = x + away is clip((y
        + μx)/(1 + μ)) with the multiplier μ ≥ 0 of the ball, and s = 1/(1 + μ). Let
        room_i be the distance from x_i to its bound. The squared distance of the
        projection from x is

            Σ min(s·|away_i|, room_i)²,

        which grows with s. If it is at most r² at s = 1, where r is the radius, then s
        = 1. Otherwise s is the value at which it equals r². Between two values of s at
        which a coordinate reaches its bound, it is quadratic in s.
        """
        a = (away / self.radius).flatten(1)
        room = torch.where(away > 0, self.high - x, x - self.low) / self.radius
        ends = room.flatten(1) / a.abs()
        ends, order = torch.where(a == 0, torch.inf, ends).sort(dim=1)
        squares = a.square().gather(1, order)
        moving = squares.flip(1).cumsum(1).flip(1)  # sum over coordinates within bounds
        rooms = room.flatten(1).square().gather(1, order).cumsum(1)
        held = torch.cat([torch.zeros_like(rooms[:, :1]), rooms[:, :-1]], dim=1)
        there = held + ends.square() * moving  # squared distance at these values of s
        passed = ((there < 1) & (moving > 0)).sum(1, keepdim=True)
        at = passed.clamp(max=a.shape[1] - 1)
        left, speed = 1 - held.gather(1, at), moving.gather(1, at)
        s = (left.clamp(min=0) / torch.where(speed > 0, speed, 1.0)).sqrt()
        return torch.where(speed > 0, s.clamp(max=1), 1.0)[:, 0]

    def drawn(self, x: Tensor, batch: Batch) -> Tensor:
        """Draw a displacement for every example, uniformly from the ball."""
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
    """Return the l2 norm of each example, [b, 1, …]; 1 instead of 0; no underflow."""
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
            f"adversarial.bounds = {bounds} is no range; set it to the lowest and the "
            "highest value, such as [0.0, 1.0], or to [] (troth audit --bounds none) "
            "for data without a range"
        )
