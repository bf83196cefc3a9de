"""Bucketing: updates are averaged in small random groups.

References: karimireddy2022byzantine.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from troth import numerics, seeding
from troth.config.checks import expect
from troth.server.rules import Note, silent
from troth.types import Messages


def bucketing(
    messages: Messages, key: Tensor, note: Note = silent, *, s: int = 2
) -> Messages:
    """Divide the n updates at random into buckets of s, and average each (Algorithm 1).

    `extra` and `loss` are averaged too, and the sizes are added. The id of a bucket is
    the lowest of its client ids. Buckets depend on the round and the client ids, not on
    the order of the messages.

    Guarantee: with f malicious updates, at most f of the ⌈n/s⌉ buckets contain one. So
    if an aggregator withstands f malicious among ⌈n/s⌉ updates, then after this filter
    it withstands f among n. Buckets of benign updates differ less than single benign
    updates.

    Departs: if the last bucket has fewer than s updates, it is their mean. In the paper
    it is their sum divided by s.

    Args:
        messages: Messages of n clients, with one update each.
        key: Random key of the round.
        note: Function that records the id of the bucket of each update.
        s: Number of updates in a bucket. 1 only changes the order of the updates.

    Returns:
        The messages, one per bucket.

    Example:
        >>> from troth.server.rules import messages
        >>> left = bucketing(messages([[1.0], [2.0], [9.0]]), torch.tensor(0), s=3)
        >>> left.update.tolist()
        [[4.0]]
    """
    expect(s > 0, "bucketing's s", s, "at least 1, which merges nothing")
    n = len(messages.client)
    s = min(s, max(1, n))
    order = messages.client.argsort(stable=True)
    order = order[seeding.fold(key, messages.client[order]).argsort(stable=True)]
    client = _each(messages.client, order, s, lambda ids: ids.amin(dim=1))
    into = torch.empty_like(messages.client)
    into[order] = client.repeat_interleave(s)[:n]
    note(into=into)
    return Messages(
        _means(messages.update, order, s),
        _means(messages.extra, order, s),
        _each(messages.loss, order, s, lambda losses: losses.mean(dim=1)),
        _each(messages.size, order, s, _sums),
        client,
    )


def _each(
    field: Tensor, order: Tensor, s: int, merge: Callable[[Tensor], Tensor]
) -> Tensor:
    """Merge a field [n, …] by bucket; the argument of `merge` is [buckets, s, …]."""
    whole = len(order) // s * s
    merged = merge(field[order[:whole]].reshape(whole // s, s, *field.shape[1:]))
    if whole == len(order):
        return merged
    return torch.cat([merged, merge(field[order[whole:]].unsqueeze(0))])


def _means(rows: Tensor, order: Tensor, s: int) -> Tensor:
    """Average the rows of each bucket, in double precision to avoid overflow."""
    means = rows.new_empty(-(-len(order) // s), rows.shape[1])
    for block in numerics.blocks(rows):
        mean = _each(rows[:, block], order, s, lambda x: x.mean(1, dtype=torch.float64))
        means[:, block] = mean.to(rows.dtype)
    return means


def _sums(sizes: Tensor) -> Tensor:
    """Add the sizes; huge ones are clamped, so that the sum does not overflow."""
    limit = (2**63 - 1) // sizes.shape[1]
    return sizes.clamp(-limit, limit).sum(dim=1)
