r"""Minimum-diameter averaging: the mean of the updates that are closest together.

References: rousseeuw1985multivariate, elmhamdi2022genuinely.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.aggregators import _choice
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages, Refusal


def mda(
    messages: Messages,
    note: Note = silent,
    *,
    f: Count = "auto",
    limit: int = 1_000_000,
    strict: bool = True,
) -> Tensor:
    """Average the n − f updates that are closest together: minimum-diameter averaging.

    Among all subsets of n − f of the n updates, one with the smallest diameter is
    averaged. The diameter is the largest distance between two updates of the subset
    (El-Mhamdi et al. 2022). The search is exact. Two updates are in conflict if their
    distance exceeds a threshold. If f updates can be removed such that no conflict
    remains, the diameter of the others is at most the threshold. Bisection finds the
    smallest such threshold, and branch and bound finds the f updates.

    Guarantee: for n ≥ 2f + 1, the diameter of the chosen updates does not exceed that
    of the benign updates, and at least one chosen update is benign. So the distance of
    every chosen update, and of their mean, from some benign update is at most the
    diameter of the benign updates.

    Departs: among several subsets whose diameters agree to nine digits, the subset with
    the lowest client ids is taken.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records which updates were chosen.
        f: Number of malicious updates to withstand; 0 gives the mean. "auto" means the
            expected number of malicious clients in a cohort, rounded down.
        limit: Largest number of search steps; a longer search raises Refusal. A step
            takes about 40 µs at n = 100. If there are at most a million subsets, the
            search takes far fewer steps than the default. With more subsets, an
            adversary may send updates that make the search long.
        strict: Whether to raise Refusal if n < 2f + 1. If false, there is no guarantee
            for such n, and at least one update is taken.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> troth.aggregate("mda", torch.tensor([[1.0], [2.0], [9.0]]), f=1)
        tensor([1.5000])
    """
    n = len(messages.client)
    f = count("mda", f, n, (2, 1), strict)
    expect(limit > 0, "mda's limit", limit, "at least 1 step of its search")
    order = _choice.ordered(messages)
    places = torch.arange(n)
    spare = min(f, n - 1)
    if spare:
        between = numerics.level(_choice.distances(messages, order)).numpy()
        kept = _closest(between, spare, _steps(limit, n, spare))
        places = torch.tensor(list(_bits(kept)))
    return _choice.taken(messages, order, places, note)


def _steps(limit: int, n: int, f: int) -> Iterator[int]:
    """Yield `limit` times, then raise Refusal."""
    yield from range(limit)
    raise Refusal(
        f"mda did not find the closest {n - f} of n = {n} updates "
        f"({math.comb(n, f):.3g} subsets) in limit = {limit} steps; raise limit, lower "
        "f, or take another rule"
    )


def _closest(between: np.ndarray, f: int, steps: Iterator[int]) -> int:
    """Return n − f updates with the smallest diameter, as the bits of a number."""
    n = len(between)
    everyone = (1 << n) - 1
    diameters = np.unique(between)
    low, high, peaceful = 0, len(diameters) - 1, everyone
    while low < high:
        middle = (low + high) // 2
        left = _peaceful(_conflicts(between, diameters[middle]), everyone, f, steps)
        if left is None:
            low = middle + 1
        else:
            high, peaceful = middle, left
    return _first(_conflicts(between, diameters[high]), peaceful, f, steps)


def _conflicts(between: np.ndarray, diameter: float) -> list[int]:
    """Return the conflicts of each update, as bits.

    Two updates are in conflict if their distance exceeds `diameter`.
    """
    bits = np.packbits(between > diameter, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in bits]


def _bits(rows: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, from the lowest."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest


def _peaceful(
    conflicts: list[int], rows: int, spare: int, steps: Iterator[int]
) -> int | None:
    """Remove up to `spare` updates so that no conflict is left; None if impossible.

    `rows` and the result are sets of updates, as bits. Each step branches on the update
    with the most conflicts: either this update is removed, or all updates in conflict
    with it are.
    """
    ahead = [(rows, spare)]
    while ahead:
        next(steps)
        rows, spare = ahead.pop()
        degree = {v: (conflicts[v] & rows).bit_count() for v in _bits(rows)}
        worst = max(degree, key=degree.__getitem__)
        if degree[worst] == 0:
            return rows
        down = sorted(degree.values(), reverse=True)
        if 2 * sum(down[:spare]) < sum(down):  # removing `spare` updates is not enough
            continue
        leaf = next((v for v, conflict in degree.items() if conflict == 1), None)
        if leaf is not None:  # removing its only conflict is at least as good
            ahead.append((rows & ~conflicts[leaf], spare - 1))
            continue
        if 2 < degree[worst] <= spare:  # for cycles, one branch is enough
            ahead.append((rows & ~conflicts[worst], spare - degree[worst]))
        ahead.append((rows ^ (1 << worst), spare - 1))
    return None


def _first(conflicts: list[int], peaceful: int, f: int, steps: Iterator[int]) -> int:
    """Return the lexicographically first n − f updates without conflicts, as bits.

    `peaceful` is any set of at least n − f updates without conflicts.
    """
    n = len(conflicts)
    rows, spare, kept = (1 << n) - 1, f, 0
    for v in range(n):
        if kept.bit_count() == n - f:
            break
        if not rows >> v & 1:
            continue
        gone = conflicts[v] & rows
        left = spare - gone.bit_count()
        if not peaceful >> v & 1:
            other = (
                _peaceful(conflicts, rows & ~gone, left, steps) if left >= 0 else None
            )
            if other is None:
                rows, spare = rows ^ (1 << v), spare - 1
                continue
            peaceful = other
        rows, spare, kept = rows & ~gone, left, kept | 1 << v
    return kept
