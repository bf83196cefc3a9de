"""FedMGDA+: the shortest mixture of the normalized updates.

References: hu2022federated.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.aggregators import _min_norm
from troth.server.rules import Note, silent
from troth.types import Messages, Refusal

ACCURACY = 1e-6  # allowed violation of the optimality conditions


def fedmgda(messages: Messages, note: Note = silent, *, eps: float = 0.1) -> Tensor:
    """Mix unit updates with nearly equal weights to the shortest possible vector.

    min ‖Σ λ_i·g_i‖² over Σλ = 1, λ ≥ 0, |λ_i − 1/n| ≤ eps, where g_i = u_i/‖u_i‖.

    FedMGDA+ (Algorithm 1). An update of zeros stays 0. At eps = 1, the inner product of
    the step with every g_i is at least the squared length of the step. So a small
    enough step makes no client worse off. The length of the result is at most 1: the
    server's learning rate sets the length of the step.

    The weights meet the KKT conditions of the quadratic program to 1e-6, or the rule
    refuses. The step is unique. If several weight vectors give it, one near equal
    weights is taken.

    No robustness: the length of an update does not matter, but its direction does. An
    update opposite to the others, or an update of zeros, takes a weight of up to 1/n +
    eps. At large eps it reduces the step to almost 0, and w stands still. At eps = 0,
    one update moves the result by at most 2/n.

    Departs: updates result from several local steps instead of one gradient, as also in
    the paper.

    Args:
        messages: One update per client.
        note: Callback that receives the weights.
        eps: Largest distance of a weight from 1/n, in [0, 1]. 0 gives the mean of the
            unit updates. From 1 − 1/n on, all mixtures are allowed, and the result is
            the shortest vector of their convex hull.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[3.0, 0.0], [0.0, 5.0]])
        >>> troth.aggregate("fedmgda", updates)
        tensor([0.5000, 0.5000])
    """
    must = "in [0, 1]: 0 is the mean of unit vectors, 1 the shortest of their mixtures"
    expect(0 <= eps <= 1, "fedmgda's eps", eps, must)
    rows = messages.update
    largest = _largest(rows) if rows.dtype == torch.float64 else None
    products = rows.new_zeros(len(rows), len(rows), dtype=torch.float64)
    for _, wide in _blocks(rows, largest):
        products.addmm_(wide, wide.T)
    length = _or_one(products.diagonal()).sqrt()
    weight = _weights(products / length / length[:, None], eps)
    note(weight=weight)
    step = torch.empty_like(rows[0])
    for block, wide in _blocks(rows, largest):
        step[block] = ((weight / length) @ wide).to(step)
    return step


def _weights(products: Tensor, eps: float) -> Tensor:
    """Return the weights λ [n], float64, from inner products of the unit updates."""
    n = len(products)
    if eps == 0 or n == 1:
        return torch.full_like(products[0], 1 / n)
    low, high = max(0.0, 1 / n - eps), min(1.0, 1 / n + eps)
    g = products.cpu().numpy()
    lam = _min_norm.solve(g, low, high)
    missed = _min_norm.violation(g @ lam, lam, low, high)
    if not missed <= ACCURACY:
        raise Refusal(
            f"fedmgda missed its optimality conditions by {missed:.1e}, more than "
            f"{ACCURACY:.0e}, with n = {n} and eps = {eps}; lower eps or train.cohort"
        )
    return torch.from_numpy(lam).to(products)


def _largest(rows: Tensor) -> Tensor:
    """Return each update's largest absolute entry, [n].

    The updates are divided by it, because squares may exceed the range of float64.
    """
    largest = rows.new_zeros(len(rows))
    for _, wide in _blocks(rows, None):
        largest = torch.maximum(largest, wide.abs().amax(dim=1))
    return _or_one(largest)


def _or_one(scale: Tensor) -> Tensor:
    return torch.where(scale > 0, scale, 1.0)


def _blocks(rows: Tensor, over: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Yield columns in float64, in blocks, to avoid a copy of the whole matrix."""
    for block in numerics.blocks(rows):
        wide = rows[:, block].double()
        yield block, wide if over is None else wide / over[:, None]
