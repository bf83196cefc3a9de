"""What clients say, clipped around where the last round ended.

References: karimireddy2021learning.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.server.aggregators import _centred
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages, Refusal


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
    """From the last result: v ← v + mean_i (u_i − v)·min(1, τ/‖u_i − v‖).

    The paper's centered clipping with its history: the first round starts at 0, and so
    does one whose updates have another width.

    Guarantee: a row adds at most τ/n to v an iteration, whatever it says, so that with
    f rows it is at most iterations·τ·f/n from where it would be if they added nothing,
    and with all of them iterations·τ from where it started. That it comes near the
    benign mean, the paper shows where few are hostile (2f < n is the least) and τ fits
    their spread.

    Departs: the paper clips momenta that workers keep; here it is what clients send.

    Args:
        messages: of the round.
        memory: the result of the last round.
        note: is told whose message was clipped.
        tau: farthest that a row counts, above 0; large values give the mean.
        iterations: how often; more come nearer to the rows.
        remember: start at the last round's result; false always starts at 0.
        f: rows that may be hostile; the result does not depend on it.
        strict: refuse 2f ≥ n; false goes on without the guarantee.
    """
    if not 0 < tau < math.inf:
        raise Refusal(f"centered_clipping's tau = {tau} must be a positive number")
    if iterations < 1:
        raise Refusal(f"centered_clipping's iterations = {iterations} must be above 0")
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
    """[n] in float64, however far the rows are; exact from about tau on.

    Taken in the rows' own type at first, whose squares may leave its range.
    """
    parts = [torch.linalg.vector_norm(b, dim=1) for b in _centred.blocks(rows, v)]
    found = numerics.norms(torch.stack(parts, dim=1))
    if tau > 1e-15 and float(found.max()) < 1e15:
        return found
    parts = [numerics.norms(b) for b in _centred.blocks(rows, v)]
    # NaN: beyond what float64 holds; finite rows have no other
    return numerics.norms(torch.stack(parts, dim=1)).nan_to_num(torch.inf, torch.inf)


def _moved(v: Tensor, weight: Tensor, rows: Tensor) -> Tensor:
    """The v + Σ_i weight_i·(rows_i − v)."""
    if rows.dtype.itemsize < 8 and float(weight.min()) < 1e-30:
        return _centred.moved(v, weight, rows)  # float32 hardly holds such weights
    return (1 - weight.sum()).to(v) * v + numerics.combine(weight, rows)
