"""Functions for server steps: the plain step and the adaptive steps."""

from collections.abc import Callable

import torch
from torch import Tensor

from troth.config.checks import expect


def moved(w: Tensor, step: Tensor, lr: float) -> Tensor:
    """Return w + lr·step, or w if lr is 0; raise Refusal if lr is not valid."""
    must = "a finite number of at least 0; 1 takes the whole step, 0 none"
    expect(0 <= lr <= torch.finfo(w.dtype).max, "server.lr", lr, must)
    return w.add(step, alpha=lr) if lr else w


def adapted(
    w: Tensor,
    step: Tensor,
    memory: Tensor,
    second: Callable[[Tensor, Tensor], Tensor],
    *,
    lr: float,
    tau: float,
    beta1: float,
    beta2: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Take a step of FedOpt: m ← β₁m + (1 − β₁)Δ, w ← w + lr·m/(√v + τ).

    This is Algorithm 2 of Reddi et al. 2021. Δ is the aggregated update (`step`), m its
    first and v its second moment. `second` returns the next √v from √v and |Δ|. √v is
    stored instead of v, because squares of large steps would overflow, and a coordinate
    with infinite v would never change again. The memory is [2, d]: m and √v. An empty
    memory means zeros. Return the next w and the new memory.
    """
    must = "a finite number above 0; the paper tries powers of ten from 1e-5 to 0.1"
    expect(0 < tau < float("inf"), "server.tau", tau, must)
    for name, beta in (("beta1", beta1), ("beta2", beta2)):
        must = "in [0, 1]; 0 uses only the present round, 1 only the rounds before"
        expect(0 <= beta <= 1, f"server.{name}", beta, must)
    limits = torch.finfo(w.dtype)
    m, root = memory if memory.numel() else torch.zeros_like(torch.stack([w, w]))
    m = beta1 * m + (1 - beta1) * step
    root = second(root, step.abs()).clamp(max=limits.max)
    size = (root + tau).clamp(min=limits.tiny)  # τ may round to 0 in the dtype of w
    return moved(w, m / size, lr), torch.stack([m, root])
