"""Checks of the weight λ of a regularizer, and arithmetic with its gradient."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, Context

import torch
from torch import Tensor

from troth import numerics
from troth.types import Batch, Descent, Refusal, Regularizer, Task


def check(
    name: str,
    lam: float,
    descent: Descent,
    curvature: float = 0.0,
    option: str = "lam",
    section: str = "personalizer",
) -> None:
    """Raise Refusal if λ is not a valid weight, or if gradient steps with it diverge.

    Args:
        name: Name of the method, for the message.
        lam: Weight λ of the regularizer.
        descent: Optimizer and learning rate of the steps.
        curvature: Largest curvature of the regularizer. 0 means unknown or unbounded;
            then no learning rate is too large.
        option: Name of the option that sets λ, for the message.
        section: Section of the experiment that sets `lr`, for the message.
    """
    if not 0 <= lam < float("inf"):
        raise Refusal(
            f"{name}'s {option} = {lam} must be a finite number of at least 0; "
            "0 means no pull"
        )
    factors = {option: lam} | ({} if curvature == 1 else {"curvature": curvature})
    if lam > 0:
        stable(name, descent, factors, section)


def stable(
    name: str,
    descent: Descent,
    factors: dict[str, float],
    section: str = "personalizer",
) -> None:
    """Raise Refusal if gradient steps on λ times a regularizer diverge.

    `factors` are the numbers whose product is the curvature, by name. `section` is the
    section of the experiment that sets `lr`, for the message.
    """
    bend = math.prod(factors.values())
    if math.isinf(descent.limit) or descent.lr * bend < descent.limit:
        return
    every = {"lr": descent.lr} | factors
    raise Refusal(
        f"{name}'s step diverges: {'·'.join(every)} = "
        f"{'·'.join(f'{x:g}' for x in every.values())} = "
        f"{descent.lr * bend:g} must stay below {descent.limit:g}; "
        f"set {section}.lr below {_down(descent.limit / bend)}"
    )


def gradient(
    task: Task, regularizer: Regularizer, lam: float
) -> Callable[[Tensor, Tensor, Batch], Tensor]:
    """Return the function (v, w, batch) → ∇F(v) + λ∇R(v, w).

    F is the client's loss and R the regularizer. With λ = 0, the function does not use
    w, so the result is finite even if w is not.
    """

    def along(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        if lam == 0:
            return task.grad(v, batch)
        pull = regularizer.grad(v, w, batch)  # may overwrite task.grad's result
        return plus(task.grad(v, batch), pull, lam)

    return along


def apart(v: Tensor, w: Tensor, task: Task) -> Tensor:
    """Return v − w, with 0 for running statistics of batch normalization."""
    return numerics.off_tail(v - w, task.tail)


def length(away: Tensor) -> Tensor:
    """Return the norm ‖away‖, computed without overflow or underflow of the squares."""
    most = away.detach().abs().amax()
    scale = torch.where(most > 0, most, 1)
    norm: Tensor = scale * torch.linalg.vector_norm(away / scale)
    return norm


def times(g: Tensor, factor: float | Tensor, tail: int) -> Tensor:
    """Return factor·g, with the last `tail` entries (running statistics) not scaled."""
    if tail == 0:
        return factor * g
    return torch.cat([factor * g[:-tail], g[-tail:]])


def plus(g: Tensor, pull: Tensor, lam: float) -> Tensor:
    """Return g + λ·pull; with λ = 0, return g itself.

    The sum takes one pass over memory unless λ is too large for the dtype of g.
    """
    if lam == 0:
        return g
    fits = lam <= torch.finfo(g.dtype).max
    return g.add(pull, alpha=lam) if fits else g + lam * pull


def _down(limit: float) -> str:
    """Format a limit with four digits, rounded down."""
    short = Context(prec=4, rounding=ROUND_DOWN)
    return f"{float(short.create_decimal_from_float(limit * (1 + 1e-12))):g}"
