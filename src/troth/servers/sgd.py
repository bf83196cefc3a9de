"""The server's plain step."""

from __future__ import annotations

from torch import Tensor

from troth.types import Broadcast, Refusal


def sgd(broadcast: Broadcast, step: Tensor, *, lr: float = 1.0) -> Tensor:
    """A plain step: w ← w + lr·step (Ditto's Algorithm 2, line 8, has lr = 1).

    Args:
        broadcast: what the round began with.
        step: the aggregated update.
        lr: how much of the step is taken; 1 all of it, 0 none.
    """
    if not 0 <= lr < float("inf"):
        raise Refusal(f"server.lr = {lr} must be a finite number of at least 0")
    return broadcast.w.add(step, alpha=lr) if lr else broadcast.w
