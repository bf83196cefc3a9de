"""Centered clipping: updates are clipped around the result of the previous round.

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

    u_i is the update of client i, and v the result. This is the paper's centered
    clipping with history. v starts at the result of the previous round, or at 0 in the
    first round and whenever the number of entries has changed.

    Guarantee: each of the n updates changes v by at most τ/n per iteration. So f
    updates change v by at most iterations·τ·f/n, and all updates by at most
    iterations·τ. v comes near the benign mean if few updates are malicious (at least 2f
    < n) and τ suits the spread of the benign updates (see the paper).

    Departs: in the paper, clients send momenta. Here updates are clipped.

    Args:
        messages: Messages of n clients, with one update each.
        memory: Result of the previous round; empty at first.
        note: Function that records which updates were clipped.
        tau: Clipping radius τ > 0 around v. Large values give the mean.
        iterations: Number of clipping steps per round. With more steps, v comes nearer
            to the updates.
        remember: Whether v starts at the result of the previous round. If false, v
            starts at 0 in every round.
        f: Number of malicious updates that the guarantee covers. The result does not
            depend on f. "auto" means the expected number of malicious clients in a
            cohort, rounded down.
        strict: Whether to raise Refusal if 2f ≥ n. If false, there is no guarantee for
            such n.

    Returns:
        The step of the shared model [d], and the new memory.

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
    """Return the distances ‖rows − v‖ [n], float64; those far below tau are inexact."""
    parts = [torch.linalg.vector_norm(b, dim=1) for b in _around.blocks(rows, v)]
    lengths = numerics.norms(torch.stack(parts, dim=1))
    if tau > 1e-15 and float(lengths.max()) < 1e15:  # no overflow or underflow
        return lengths
    parts = [numerics.norms(b) for b in _around.blocks(rows, v)]
    # For finite updates, NaN means that float64 overflowed.
    return numerics.norms(torch.stack(parts, dim=1)).nan_to_num(torch.inf, torch.inf)


def _moved(v: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """Return v + Σ_i weight_i·(rows_i − v)."""
    if rows.dtype.itemsize < 8 and float(weight.min()) < 1e-30:
        return _around.moved(v, weight, rows)  # the weights are too small for float32
    return (1 - weight.sum()).to(v) * v + numerics.combine(weight, rows)
