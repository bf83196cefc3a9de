"""Centered clipping: updates are clipped around the result of the last round.

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

    This is the paper's centered clipping with history. v starts at 0 in the first
    round, and whenever the updates have another length than in the round before.

    Guarantee: one update adds at most τ/n to v per iteration. So f updates move v by at
    most iterations·τ·f/n, compared with f updates that add nothing. v moves by at most
    iterations·τ in all. v comes near the benign mean if few updates are malicious (at
    least 2f < n) and τ fits the spread of the benign ones (the paper).

    Departs: the paper clips momenta that clients keep. Here the clients' updates are
    clipped.

    Args:
        messages: One update per client.
        memory: Result of the last round; empty at first.
        note: Callback that receives a mask of the clipped updates.
        tau: Clipping radius τ > 0 around v. Large values give the mean.
        iterations: Number of clipping steps per round. With more steps, v comes nearer
            to the updates.
        remember: Whether v starts at the result of the last round. If false, v starts
            at 0 in every round.
        f: Number of malicious updates that the guarantee covers. The result does not
            depend on f. "auto": the number of malicious clients expected in a cohort,
            rounded down.
        strict: Whether to refuse 2f ≥ n. If false, such n are accepted, without a
            guarantee.

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
    """Return the distances ‖rows − v‖ [n] in float64, exact from about tau upwards."""
    parts = [torch.linalg.vector_norm(b, dim=1) for b in _around.blocks(rows, v)]
    lengths = numerics.norms(torch.stack(parts, dim=1))
    if tau > 1e-15 and float(lengths.max()) < 1e15:  # in the range of the rows' dtype
        return lengths
    parts = [numerics.norms(b) for b in _around.blocks(rows, v)]
    # Finite updates give NaN only beyond the range of float64.
    return numerics.norms(torch.stack(parts, dim=1)).nan_to_num(torch.inf, torch.inf)


def _moved(v: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """Return v + Σ_i weight_i·(rows_i − v)."""
    if rows.dtype.itemsize < 8 and float(weight.min()) < 1e-30:
        return _around.moved(v, weight, rows)  # tau is too small for float32
    return (1 - weight.sum()).to(v) * v + numerics.combine(weight, rows)
