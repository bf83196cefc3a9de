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
_START = -2  # purpose in the key of starts; augments and dropout have none below 0


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

    x_adv maximizes ℓ(f(x'), y) over ‖x' − x‖ ≤ ε within the range of the data (Eq. 1 of
    Wang et al. 2021). Every step is

        xᵗ⁺¹ = Proj(xᵗ + α·sign ∇ℓ(f(xᵗ), y)),

    or with the norm "l2" along ∇ℓ/‖∇ℓ‖ (Section 3.1). Proj is the nearest point that
    lies both in the ball and in the range. For every example, the result is the input
    with the highest loss among x⁰ … xᵀ, or the earliest such input. The model is in
    evaluation mode, without dropout and with its running statistics.

    All lengths are relative to `scale`, the value of x that is scaled to 1 (255 for
    bytes). x_adv itself is in the units of x and need not be whole numbers.

    Args:
        task: Task whose loss is raised.
        scale: Value of x that is scaled to 1.
        eps: Radius ε > 0 of the ball.
        step: Step size α. 0 means ε/4. A step of ε ("linf") or 2ε ("l2") can cross the
            ball.
        iterations: Number of steps T ≥ 1. 1 with step = eps is the fast gradient sign
            method. More steps never lower the loss that is kept.
        start: Start of the search: "none" is x itself. "random" is drawn uniformly from
            the ball, then clipped, by (seed, round, client, step, example).
        norm: Norm of the ball: "linf" or "l2".
        bounds: Lowest and highest value of the data; x_adv is clipped to them. [] means
            that the data have no range, and nothing is clipped.

    Departs: the paper adds the step to x, not to xᵗ, which would make all iterations
    after the first useless. The paper does not state which iterate is used, nor ε, α, T
    or the start. The defaults here are the usual choices.

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
                f"{most / scale:g}] or wider, or to [] if the data have no range"
            )

    return Adversarial(worst, expect)


class _Ball(NamedTuple):
    """The inputs near a given one, in a norm and within the range of the data."""

    norm: Norm
    radius: float
    low: float
    high: float

    def steepest(self, g: Tensor) -> Tensor:
        """Return the direction of length 1 of steepest ascent; 0 where g is 0."""
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
        """Return the factor s ≤ 1 with which x + s·away, clipped, is the projection.

        By the conditions of Karush, Kuhn and Tucker, the projection of y = x + away is
        clip((y + μx)/(1 + μ)) with the multiplier μ ≥ 0 of the ball, and s = 1/(1 + μ).
        With room_i from x_i to its bound, its squared distance from x is

            Σ min(s·|away_i|, room_i)²,

        which grows with s. If this squared distance is at most r² at s = 1, then s = 1.
        Otherwise s is where it equals r². It is quadratic in s between two values of s
        at which a coordinate reaches its bound.
        """
        a = (away / self.radius).flatten(1)
        room = torch.where(away > 0, self.high - x, x - self.low) / self.radius
        ends = room.flatten(1) / a.abs()
        ends, order = torch.where(a == 0, torch.inf, ends).sort(dim=1)
        squares = a.square().gather(1, order)
        moving = squares.flip(1).cumsum(1).flip(1)  # coordinates still within bounds
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
    """Compute the norm of each example, [b, 1, …], without underflow; 1 if it is 0."""
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
            "highest value, such as [0.0, 1.0], or to [] for data without a range"
        )
