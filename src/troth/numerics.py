"""Stable medians, norms, distances and projections of updates.

The functions process a matrix [n, d] in blocks of columns, so they need little extra
memory even for millions of columns. Sums are in float64, except on devices without
float64 (MPS).
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from troth.networks import kernels

_NUMBERS = {"cpu": 1 << 19, "cuda": 1 << 25}
"""Number of entries in a block. On a CPU, a block fits into the cache; on a GPU, it is
large enough to use all of the GPU."""
_SMALL = 1 << 20
"""Number of entries up to which a GPU takes less time than the launch of kernels."""


def blocks(rows: Tensor, n: int = 0) -> Iterator[slice]:
    """Yield slices of columns such that n rows of a slice are one block.

    If n is 0, it is the number of rows of the matrix. A matrix without columns gives
    one empty slice.
    """
    numbers = _NUMBERS.get(rows.device.type, 1 << 22)
    width, d = max(1, numbers // max(1, n or rows.shape[0])), rows.shape[1]
    for first in range(0, max(1, d), width):
        yield slice(first, min(first + width, d))


def widest(rows: Tensor) -> torch.dtype:
    """Return the widest float dtype that the device of a tensor supports."""
    return torch.float32 if rows.device.type == "mps" else torch.float64


def median(rows: Tensor) -> Tensor:
    """Return the coordinate-wise median of [n, d]; NaN if a column contains NaN.

    If n is even, the median is the mean of the two middle values. (`torch.median`
    returns the lower one.)
    """
    if kernels.ready(rows):
        from troth.networks.kernels import columns

        if columns.fits(rows):
            return columns.median(rows)
    n = rows.shape[0]
    result = rows.new_empty(rows.shape[1])
    for block, ordered in sorted_blocks(rows):
        lower, upper = ordered[(n - 1) // 2], ordered[n // 2]
        middle = (lower / 2 + upper / 2).clamp(lower, upper)  # the sum might overflow
        result[block] = torch.where(ordered[-1].isnan(), ordered[-1], middle)
    return result


def sorted_blocks(rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of columns of [n, d], with each column sorted in ascending order.

    Each item is a slice of columns and the sorted columns [n, columns], which the
    caller may modify. NaN comes last. On a CPU the columns are contiguous, because
    numpy's vectorized sort is ten times as fast as torch's.
    """
    rows = rows.detach()
    if rows.device.type != "cpu":
        for block in blocks(rows):
            yield block, rows[:, block].sort(dim=0).values
        return
    dtype = rows.dtype if rows.dtype.itemsize >= 4 else torch.float32
    workers = torch.get_num_threads() if rows.numel() > 1 << 16 else 1
    with ThreadPoolExecutor(workers) as pool:
        for block in blocks(rows, -(-rows.shape[0] // 4)):  # four times as wide
            part = rows[:, block].T
            table = torch.empty(part.shape, dtype=dtype).copy_(part)
            pieces = np.array_split(table.numpy(), workers)
            each = pool.map if workers > 1 else map
            list(each(lambda piece: piece.sort(axis=1), pieces))
            yield block, table.T.to(rows.dtype)


def norms(rows: Tensor) -> Tensor:
    """Return the Euclidean norms of the rows, [n] in float64, without overflow.

    On devices without float64, the result is float32.
    """
    wide = widest(rows)
    if kernels.ready(rows) and rows.numel() > _SMALL:
        from troth.networks.kernels import rows as by_rows

        if by_rows.fits(rows):
            return by_rows.sums(rows, rows.new_zeros(len(rows)))[:, 1].sqrt()
    safe = rows.dtype.itemsize < wide.itemsize  # in `wide`, squares cannot overflow
    if safe and rows.numel() <= _NUMBERS.get(rows.device.type, 0):
        return _length(rows, wide)
    total, unit = rows.new_zeros(len(rows), dtype=wide), rows.new_ones(len(rows))
    if not safe:
        unit = _sizes(rows).clamp(min=torch.finfo(wide).tiny)
    for block in blocks(rows):
        part = rows[:, block] if safe else rows[:, block] / unit[:, None]
        total += _length(part, wide) ** 2
    return unit * total.sqrt()


def finite(rows: Tensor) -> Tensor:
    """Return whether all entries of each row are finite, [n].

    For dtypes below 64 bits, a row is finite if and only if its norm is finite. This
    test takes one pass over the matrix instead of four.
    """
    if rows.dtype.itemsize < widest(rows).itemsize:
        return norms(rows) < torch.inf
    return rows.isfinite().all(dim=1)


def _length(rows: Tensor, dtype: torch.dtype) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=dtype)
    return length


def _sizes(rows: Tensor) -> Tensor:
    """Return the largest absolute value of every row, [n]."""
    sizes = rows.new_zeros(rows.shape[0])
    for block in blocks(rows) if rows.numel() else ():
        low, high = rows[:, block].aminmax(dim=1)
        sizes = torch.maximum(sizes, torch.maximum(-low, high))
    return sizes


def square_distances(rows: Tensor) -> Tensor:
    """Return the relative squared distances between the rows, [n, n] in float64.

    Distances are divided by the largest absolute entry, so that squares neither
    overflow nor become 0. So they can only be compared with each other. In float64,
    this unit is at most 2⁴⁰⁰ times the largest entry of the median row, and squared
    distances are capped at 2⁹⁶⁰. So one very distant row cannot make the distances
    between other rows become 0.

    Distances are computed by matrix products,

        ‖a − b‖² = ‖a − c‖² + ‖b − c‖² − 2(a − c)·(b − c),

    at first with c = 0. If ‖a − b‖ is small compared with the distances to c, rounding
    errors are large. Such rows form a group, and the step is repeated for the group
    with one of its rows as c. The repetition ends when all distances have a relative
    error below 1e-10 (1e-5 on devices without float64).

    The result is symmetric. It is 0 on the diagonal and between equal rows.
    (`torch.cdist` has large errors for nearly equal rows if there are more than 25
    rows.)
    """
    n, rows = rows.shape[0], rows.detach()
    result = rows.new_zeros(n, n, dtype=widest(rows))
    unit = _unit(rows) if rows.numel() else 0.0
    missing = ~torch.eye(n, dtype=torch.bool, device=rows.device)
    groups: list[tuple[Tensor, Tensor | None]] = []
    groups.append((torch.arange(n, device=rows.device), None))
    while groups and unit:
        group, center = groups.pop()
        square, vague, from_center, scale = _around(rows, group, center)
        ratio = min(scale / unit, 2.0**480)
        here = (group[:, None], group)
        found = missing[here] & ~vague
        result[here] = torch.where(found, square * ratio * ratio, result[here])
        missing[here] &= vague
        for members in _parts(missing[here]):
            # Take a row at the median distance, which is no malicious outlier.
            middle = members[from_center[members].argsort()[len(members) // 2]]
            groups.append((group[members], rows[group[middle]]))
    return result


def _unit(rows: Tensor) -> float:
    """Return the largest absolute entry.

    In float64, it is capped at 2⁴⁰⁰ times the largest entry of the median row.
    """
    low, high = rows.aminmax()
    largest = max(-low.item(), high.item())
    if rows.dtype.itemsize < 8:
        return largest
    middle = _sizes(rows).median().item()
    return min(largest, middle * 2.0**400) if middle else largest


def _around(
    rows: Tensor, group: Tensor, center: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Compute squared distances in a group of rows by means of a center c.

    Returns:
        Squared distances [n, n], a mask [n, n] of those that are too inaccurate,
        squared distances from c [n], and the unit of length of these distances.
    """
    n, wide = len(group), widest(rows)
    whole, safe = n == rows.shape[0], rows.dtype.itemsize < wide.itemsize
    gram, scale = rows.new_zeros(n, n, dtype=wide), 0.0
    for block in blocks(rows, n):
        part = (rows[:, block] if whole else rows[group, block]).to(wide)
        if center is not None:
            part = part - center[block]  # not in place: it may be the caller's tensor
        if not safe:  # squares may overflow or underflow
            low, high = part.aminmax()
            largest = max(-low.item(), high.item(), scale)
            gram *= (scale / largest) ** 2 if largest else 1
            part, scale = part / (largest or 1), largest
        gram.addmm_(part, part.T)
    own = gram.diag()
    both = own[:, None] + own
    square = (both - (gram + gram.T)).clamp(min=0)
    vague = square < both * (1e-4 if wide == torch.float64 else 3e-2)
    if not safe and scale:
        number = torch.finfo(wide)
        vague |= both < number.tiny / number.eps**2
    return square, vague, own, 1.0 if safe else scale


def _parts(linked: Tensor) -> Iterator[Tensor]:
    """Yield the connected components with more than one row, as indices of rows."""
    from scipy.sparse.csgraph import connected_components  # slow to load

    count, label = connected_components(linked.cpu().numpy(), directed=False)
    for part in range(count):
        members = (label == part).nonzero()[0]
        if len(members) > 1:
            yield torch.from_numpy(members).to(linked.device)


def average(rows: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Return the mean of [n, d] over the rows, even if their sum overflows.

    Args:
        rows: Matrix [n, d].
        dtype: Dtype of the sum; `None` means that of `rows`.
    """
    total = rows.sum(dim=0, dtype=dtype)
    found = total.div_(len(rows))
    if math.isfinite(found.sum()):  # no overflow
        return found
    most = torch.finfo(total.dtype).max
    shares = (rows.to(total.dtype) / len(rows)).sum(dim=0).clamp(-most, most)
    return torch.where(found.isfinite(), found, shares)


def level(numbers: Tensor) -> Tensor:
    """Round float64 numbers to 30 bits, so that rounding errors do not affect order.

    Ties are then broken by client id, and do not depend on the order of sums. The
    method is Veltkamp's splitting. Numbers for which it overflows are not changed.
    Other dtypes are not changed.
    """
    if numbers.dtype != torch.float64:
        return numbers.clone()
    shifted = numbers * (2.0**23 + 1)
    rounded = shifted - (shifted - numbers)
    return torch.where(rounded.isfinite(), rounded, numbers)


def off_tail(vector: Tensor, tail: int) -> Tensor:
    """Return a vector with its last `tail` entries (running statistics) set to 0."""
    if tail == 0:
        return vector
    return torch.cat([vector[:-tail], torch.zeros_like(vector[-tail:])])


def combine(weight: Tensor, rows: Tensor) -> Tensor:
    """Return Σ_i weight_i · rows_i in the dtype of the rows."""
    if rows.dtype.itemsize >= 4:
        return weight.to(rows) @ rows
    result, wide = rows.new_empty(rows.shape[1]), weight.to(rows.device).float()
    for block in blocks(rows):  # 16-bit weights would not sum to 1
        result[block] = (wide @ rows[:, block].float()).to(rows.dtype)
    return result


def capped_simplex(point: Tensor, low: float, high: float) -> Tensor:
    """Project onto the vectors with entries in [low, high] that sum to 1.

    With low = 0 and high = 1, this is the projection onto the simplex. The projection
    is clamp(point − shift, low, high) for one number `shift`. The sum of its entries
    decreases with the shift, and is linear between the edges. Edges are the shifts at
    which an entry leaves `high` or reaches `low`. They are sorted, and the equation sum
    = 1 is solved between two edges.

    If two neighboring entries differ by more than high − low, the result does not
    depend on the size of the gap. Such gaps are narrowed first, so that large entries
    (such as 1e30) lose no precision. If no vector sums to 1, all entries of the result
    are `low`, or all are `high`.
    """
    n, order = len(point), point.argsort()
    wide = point.to(widest(point))
    gaps = wide[order].diff().clamp(max=high - low)
    near = torch.empty_like(wide)
    near[order] = torch.cat([wide.new_zeros(1), gaps.cumsum(0)])
    edges, index = torch.cat([near - high, near - low]).sort()
    # At each edge, the number of entries strictly between low and high.
    falling = torch.where(index < n, 1.0, -1.0).to(wide).cumsum(0)
    drops = falling[:-1] * edges.diff()
    total = n * high - torch.cat([wide.new_zeros(1), drops.cumsum(0)])
    last = ((total > 1).sum() - 1).clamp(min=0)  # last edge with a sum above 1
    step = ((total[last] - 1) / falling[last].clamp(min=1)).clamp(min=0)
    return (near - (edges[last] + step)).clamp(low, high)
