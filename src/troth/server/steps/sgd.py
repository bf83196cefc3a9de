"""The plain server step, optionally with momentum."""

from typing import Any

from torch import Tensor

from troth.config.checks import expect
from troth.server.steps._moments import moved
from troth.types import Broadcast, Options


def sgd(
    broadcast: Broadcast,
    step: Tensor,
    memory: Tensor,
    *,
    lr: float = 1.0,
    momentum: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Take a plain step: w ← w + lr·step (Ditto's Algorithm 2, line 8, has lr = 1).

    w is the shared model, and `step` the aggregated update. With momentum, m ←
    momentum·m + step and w ← w + lr·m (FedAvgM: Hsu, Qi and Brown, arXiv 1909.06335,
    Section 4.3).

    Args:
        broadcast: Server's message of this round, with the shared model w.
        step: Aggregated update.
        memory: Momentum m; empty at first.
        lr: Learning rate of the server. 1 takes the whole step; with 0, w never
            changes.
        momentum: Factor of the previous m, in [0, 1). 0 means no momentum.

    Returns:
        The next shared model [d], and the new memory.

    Example:
        >>> import torch
        >>> from troth.server.rules import broadcast
        >>> sent = broadcast([1.0, 1.0])
        >>> w, memory = sgd(sent, torch.tensor([2.0, -2.0]), torch.zeros(0), lr=0.5)
        >>> w.tolist()
        [2.0, 0.0]
    """
    must = "at least 0 and below 1; 0 takes steps without momentum"
    expect(0 <= momentum < 1, "server.momentum", momentum, must)
    if momentum:
        step = momentum * memory + step if memory.numel() else step.clone()
        memory = step
    return moved(broadcast.w, step, lr), memory


def known(options: Options) -> dict[str, Any]:
    """Return what attacks may assume: without momentum, w reveals the last step."""
    return {"infers": not options["momentum"]}
