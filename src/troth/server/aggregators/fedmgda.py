"""FedMGDA+: the weighted mean of normalized updates with the smallest norm.

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

ACCURACY = 1e-6  # largest accepted violation of the optimality conditions


def fedmgda(messages: Messages, note: Note = silent, *, eps: float = 0.1) -> Tensor:
    """Return the weighted mean of normalized updates with the smallest norm.

    FedMGDA+ (Algorithm 1) normalizes the n updates u_i to g_i = u_i/‖u_i‖ and computes
    the weights λ_i by

        min ‖Σ λ_i·g_i‖² over Σλ = 1, λ ≥ 0, |λ_i − 1/n| ≤ eps.

    An update of zeros stays 0. With eps = 1, the inner product of the result with every
    g_i is at least the squared norm of the result. So a small enough step increases no
    client's loss. The norm of the result is at most 1: the server's learning rate sets
    the length of the step.

    The rule raises Refusal if the weights do not satisfy the optimality conditions of
    the quadratic program to 1e-6. The result is unique. If several weight vectors give
    it, one near equal weights is taken.

    No robustness: the norm of an update has no effect, but its direction has. An update
    opposite to the others, or an update of zeros, gets a weight of up to 1/n + eps.
    With large eps, it reduces the result to almost 0, so that the shared model hardly
    changes. With eps = 0, one update changes the result by at most 2/n.

    Departs: updates result from several local steps instead of one gradient, as also in
    the paper.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records the weights of the updates.
        eps: Largest distance of a weight from 1/n, in [0, 1]. 0 gives the mean of the
            g_i. From 1 − 1/n on, all weights are allowed, and the result is the vector
            with the smallest norm in the convex hull of the g_i.

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
    """Return each update's largest absolute entry, [n]; 1 for an update of zeros.

    float64 updates are divided by it, because their squares could overflow.
    """
    largest = rows.new_zeros(len(rows))
    for _, wide in _blocks(rows, None):
        largest = torch.maximum(largest, wide.abs().amax(dim=1))
    return _or_one(largest)


def _or_one(scale: Tensor) -> Tensor:
    return torch.where(scale > 0, scale, 1.0)


def _blocks(rows: Tensor, over: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of columns in float64, to avoid a copy of the whole matrix."""
    for block in numerics.blocks(rows):
        wide = rows[:, block].double()
        yield block, wide if over is None else wide / over[:, None]
