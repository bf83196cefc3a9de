r"""The mean of the rows that lie closest together.

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
    """Average the n − f updates that lie closest together: minimum-diameter averaging.

    Of all subsets of n − f rows, take one whose largest distance between two rows is
    smallest (El-Mhamdi et al.). The search is exact: rows farther apart than a
    threshold are in conflict; if f rows take part in all conflicts, the others'
    diameter is within it. The threshold comes from bisection, the f rows from branch
    and bound.

    Guarantee: for n ≥ 2f + 1, the chosen rows lie no farther apart than the benign
    ones, and at least one is benign; so every chosen row, and their mean, lies within
    the benign rows' diameter of a benign row.

    Departs: of several subsets with the smallest diameter, to nine digits, that with
    the lowest client ids in order.

    Args:
        messages: One update per client.
        note: Receives a mask of the chosen rows.
        f: Number of rows that may be malicious; 0 is the mean.
        limit: Largest number of search steps; a longer search is refused. A step takes
            some 40 µs at n = 100. Up to a million subsets need far fewer than the
            default; with more, an adversary may send rows that make the search long.
        strict: Whether n < 2f + 1 is refused. Otherwise at least one row is taken.

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
    """Yield `limit` times, then refuse."""
    yield from range(limit)
    raise Refusal(
        f"mda did not find the closest {n - f} of n = {n} rows ({math.comb(n, f):.3g} "
        f"subsets) in limit = {limit} steps; raise limit, lower f, or take another rule"
    )


def _closest(between: np.ndarray, f: int, steps: Iterator[int]) -> int:
    """Return the n − f rows with the smallest diameter, the first such, as bits."""
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
    """Return for every row those farther from it than this, as bits."""
    bits = np.packbits(between > diameter, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in bits]


def _bits(rows: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, from the lowest."""
    while rows:
        lowest = rows & -rows
        yield lowest.bit_length() - 1
        rows ^= lowest


def _peaceful(
    conflicts: list[int], rows: int, spare: int, steps: Iterator[int]
) -> int | None:
    """Return `rows` less at most `spare`, without conflicts; None if impossible.

    Rows without conflicts stay. Each step takes the row with most conflicts: either it
    goes, or all it is in conflict with do.
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
        if 2 * sum(down[:spare]) < sum(down):  # so few rows cannot cover all conflicts
            continue
        leaf = next((v for v, conflict in degree.items() if conflict == 1), None)
        if leaf is not None:  # no worse than to take the leaf away
            ahead.append((rows & ~conflicts[leaf], spare - 1))
            continue
        if 2 < degree[worst] <= spare:  # where all have two, they are in circles
            ahead.append((rows & ~conflicts[worst], spare - degree[worst]))
        ahead.append((rows ^ (1 << worst), spare - 1))
    return None


def _first(conflicts: list[int], peaceful: int, f: int, steps: Iterator[int]) -> int:
    """Return the first n − f rows without a conflict; `peaceful`: some such rows."""
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
