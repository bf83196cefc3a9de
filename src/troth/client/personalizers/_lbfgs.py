r"""L-BFGS with one step per call; vmap can vectorize it, because it has no branches.

References: liu1989limited.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from troth.types import Carry

PAIRS = 10
LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001)
"""Step lengths to try in turn. The first one that does not raise the loss is taken."""

_LEVEL = 1e-12  # relative increase of the loss that is treated as rounding


def begin(v: Tensor) -> Carry:
    """Return the carry (see `step`) at the initial parameters v [d]."""
    none = v.new_zeros(PAIRS, v.shape[0])
    return v, torch.zeros_like(v), torch.zeros_like(v), none, none, v.new_zeros(())


def step(
    carry: Carry,
    value: Callable[[Tensor], Tensor],
    gradient: Callable[[Tensor], Tensor],
) -> Carry:
    """Take one step from v; if every step length raises the loss, keep v.

    The carry is (v, previous v, gradient at the previous v, last differences of v, last
    differences of the gradient, number of steps). Differences are in the order of the
    steps, the newest last.

    Args:
        carry: State of the optimizer.
        value: Loss at given parameters.
        gradient: Gradient of the loss at given parameters.
    """
    v, before, slope, moves, bends, count = carry
    g = gradient(v).clone()  # the next gradient may overwrite this buffer
    move, bend = v - before, g - slope
    useful = (count > 0) & (move @ bend > 1e-14 * (bend @ bend))
    moves = torch.where(useful, torch.cat([moves[1:], move[None]]), moves)
    bends = torch.where(useful, torch.cat([bends[1:], bend[None]]), bends)
    down = -_direction(g, moves, bends)
    here = value(v)
    made = v
    taken = torch.zeros_like(here, dtype=torch.bool)
    for length in LENGTHS:
        tried = v + length * down
        good = (value(tried) <= here + _LEVEL * here.abs()) & ~taken
        made = torch.where(good, tried, made)
        taken = taken | good
    return made, v, g, moves, bends, count + 1


def _direction(g: Tensor, moves: Tensor, bends: Tensor) -> Tensor:
    """Compute H·g by the two-loop recursion.

    H is the estimate of the inverse Hessian. Rows of zeros in `moves` and `bends` have
    no effect.
    """
    inner = (moves * bends).sum(dim=1)
    there = inner > 0
    rho = torch.where(there, 1 / torch.where(there, inner, 1.0), 0.0)
    q, alphas = g, []
    for i in reversed(range(PAIRS)):
        alpha = rho[i] * (moves[i] @ q)
        q = q - alpha * bends[i]
        alphas.append(alpha)
    newest = bends[-1] @ bends[-1]
    first = 1 / torch.linalg.vector_norm(g).clamp(min=1.0)
    scale = torch.where(
        there[-1], inner[-1] / torch.where(there[-1], newest, 1.0), first
    )
    r = scale * q
    for i, alpha in zip(range(PAIRS), reversed(alphas), strict=True):
        beta = rho[i] * (bends[i] @ r)
        r = r + moves[i] * (alpha - beta)
    return r
