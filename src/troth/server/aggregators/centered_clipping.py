"""What clients say, clipped around where the last round ended.

References: karimireddy2021learning.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.aggregators import _around
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages


def centered_clipping(
    messages: Messages,
    memory: Tensor,
    note: Note = silent,
    *,
    tau: float = 10.0,
    iterations: int = 1,
    remember: bool = True,
    f: Count = "auto",
    strict: bool = True,
) -> tuple[Tensor, Tensor]:
    """Clip around the last result: v ← v + mean_i (u_i − v)·min(1, τ/‖u_i − v‖).

    The paper's centered clipping with history. The first round starts at 0, and so does
    one whose updates have another width.

    Guarantee: a row adds at most τ/n to v per iteration. So with f rows v is at most
    iterations·τ·f/n from where it would be if they added nothing, and at most
    iterations·τ from its start. It comes near the benign mean if few are malicious (2f
    < n is the least) and τ fits their spread (the paper).

    Departs: the paper clips momenta that workers keep; here it is what clients send.

    Args:
        messages: One update per client.
        memory: Result of the last round; empty at first.
        note: Receives a mask of the clipped rows.
        tau: Radius τ > 0 of the clipping around v; large values give the mean.
        iterations: Number of clipping steps; with more, v comes nearer to the rows.
        remember: Whether to start at the last round's result; false always starts at 0.
        f: Number of rows that may be malicious; the result does not depend on f.
        strict: Whether 2f ≥ n is refused; false goes on without the guarantee.

    Returns:
        The step of the shared model [d], and the memory.

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[1.0], [2.0], [90.0]])
        >>> troth.aggregate("centered_clipping", updates, f=1, tau=3.0)
        tensor([2.])
    """
    whose = "centered_clipping's"
    expect(0 < tau < math.inf, f"{whose} tau", tau, "a positive number")
    expect(iterations > 0, f"{whose} iterations", iterations, "above 0")
    rows = messages.update
    n, d = rows.shape
    count("centered_clipping", f, n, (2, 1), strict, 0)
    known = remember and memory.shape == (d,)
    v = memory.to(rows) if known else rows.new_zeros(d)
    clipped = torch.zeros(n, dtype=torch.bool, device=rows.device)
    for _ in range(iterations):
        distance = _distances(rows, v, tau)
        clipped = clipped | (distance > tau)
        v = _moved(v, tau / distance.clamp(min=tau) / n, rows)
    note(clipped=clipped)
    return v, v.clone() if remember else memory


def _distances(rows: Tensor, v: Tensor, tau: float) -> Tensor:
    """Return [n] distances in float64, exact from about tau on."""
    parts = [torch.linalg.vector_norm(b, dim=1) for b in _around.blocks(rows, v)]
    lengths = numerics.norms(torch.stack(parts, dim=1))
    if tau > 1e-15 and float(lengths.max()) < 1e15:  # in range of the rows' own type
        return lengths
    parts = [numerics.norms(b) for b in _around.blocks(rows, v)]
    # NaN: beyond what float64 holds; finite rows have no other
    return numerics.norms(torch.stack(parts, dim=1)).nan_to_num(torch.inf, torch.inf)


def _moved(v: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """Return v + Σ_i weight_i·(rows_i − v)."""
    if rows.dtype.itemsize < 8 and float(weight.min()) < 1e-30:
        return _around.moved(v, weight, rows)  # float32 hardly holds such weights
    return (1 - weight.sum()).to(v) * v + numerics.combine(weight, rows)
