"""The point with the least sum of distances from the updates.

References: pillutla2022robust.
"""

import math

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.aggregators import _around
from troth.server.rules import Count, Note, count, silent
from troth.types import Messages, Refusal

_FAR = 1e100  # distances beyond it (nearest half = 1): only the direction counts


def geometric_median(
    messages: Messages,
    note: Note = silent,
    *,
    nu: float = 1e-6,
    tolerance: float = 1e-8,
    iterations: int = 100,
    f: Count = "auto",
    strict: bool = True,
) -> Tensor:
    """Minimize Σ_i √(‖z − u_i‖² + ν²) over z, by smoothed Weiszfeld steps.

    The paper's step goes to the mean of the rows with weights β_i = 1/√(‖z − u_i‖² +
    ν²); where that is slow, it goes as far as Weiszfeld's or Newton's direction lowers
    the sum most. It ends where the gradient of the mean distance, which is 1 far away,
    is no longer than the tolerance. Iterations work on as many coordinates as there are
    rows.

    Guarantee: with 2f < n and at most f malicious rows, it is within 2(n − f)/(n −
    2f)·R of any point whose distance from every benign row is at most R (up to ν and
    the tolerance).

    Departs: all rows weigh the same, not by reported sizes. ν is in units of the
    distance that the nearer half of the rows keeps from their coordinate-wise median,
    so the result scales with the updates. √(‖·‖² + ν²) stands for max(ν, ‖·‖), so that
    Newton's steps converge. It goes to the optimum, not for three steps.

    Args:
        messages: One update per client.
        note: Receives the weights; the result is the rows' mean under them.
        nu: Smoothing ν > 0 of the distances; large values lead to the mean.
        tolerance: Length of the gradient, above 0, at which the iteration stops.
        iterations: Largest number of steps.
        f: Number of rows that may be malicious; the result does not depend on f.
        strict: Whether 2f ≥ n and a missed tolerance are refused; false takes the last
            point.

    Returns:
        The step of the shared model [d].

    Example:
        >>> import torch, troth
        >>> updates = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [9.0, 9.0]])
        >>> troth.aggregate("geometric_median", updates)
        tensor([0., 0.])
    """
    for name, value in {"nu": nu, "tolerance": tolerance}.items():
        must = "a positive number, such as 1e-6"
        expect(0 < value < math.inf, f"geometric_median's {name}", value, must)
    expect(iterations > 0, "geometric_median's iterations", iterations, "above 0")
    rows, n = messages.update, len(messages.update)
    count("geometric_median", f, n, (2, 1), strict, 0)
    center = numerics.median(rows)
    unit, length = _directions(rows, center)
    scale = length.sort().values[(n - 1) // 2]
    if scale == 0:  # half of the rows lie there: nothing is nearer to all
        weight = (length == 0).double()
    else:
        ratio = length / scale
        points = unit * ratio.clamp(max=_FAR)[:, None]
        nu = min(max(nu, 1 / _FAR), _FAR)  # the square of what is beyond is 0 or inf
        weight, steep = _weights(points, nu, tolerance, iterations)
        weight = weight * (_FAR / ratio).clamp(max=1)  # as far as they really are
        if strict and steep > tolerance:
            raise Refusal(
                f"geometric_median came to a gradient of {steep:.1e} in iterations = "
                f"{iterations}, and tolerance is {tolerance:g}; raise either, or set "
                "strict = false and take what it came to"
            )
    weight = weight / weight.sum()
    note(weight=weight)
    return _around.moved(center, weight, rows)


def _directions(rows: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
    """Return unit vectors [n, p] from a center (0 at it) and lengths [n], on the CPU.

    More coordinates than rows become as many, from the rows' inner products. Each row
    has a unit of its own: far ones do not drown the others, and nothing overflows.
    """
    n, d = rows.shape
    unit = torch.linalg.vector_norm(rows, math.inf, dim=1).double()
    unit = unit + center.abs().max().double()
    unit = unit.clamp(min=torch.finfo(torch.float64).tiny)[:, None]
    if d <= n:
        away = (rows.double() - center.double()) / unit
        length = torch.linalg.vector_norm(away, dim=1)
    else:
        product = rows.new_zeros(n, n, dtype=torch.float64)
        for block in _around.blocks(rows, center.double()):
            block /= unit
            product += block @ block.T
        length = product.diagonal().sqrt()
    some = torch.where(length > 0, length, 1)[:, None]
    direction = away / some if d <= n else _coordinates((product / some / some.T).cpu())
    return direction.cpu(), (length * unit[:, 0]).cpu()


def _coordinates(product: Tensor) -> Tensor:
    """Return vectors [n, p ≤ n] with these inner products."""
    value, vector = torch.linalg.eigh(product)
    noise = len(value) * torch.finfo(value.dtype).eps * value[-1]
    real = value > noise
    return torch.mul(vector[:, real], value[real].sqrt())


def _weights(
    points: Tensor, nu: float, tolerance: float, iterations: int
) -> tuple[Tensor, float]:
    """Return β_i at the geometric median of [n, p], and the gradient's length."""
    z, last = torch.zeros_like(points[0]), math.inf
    for step in range(iterations + 1):
        gap = z - points
        beta = 1 / _smooth(gap, nu)
        slope = beta @ gap / len(gap)
        steep = float(torch.linalg.vector_norm(slope))
        if steep <= tolerance or step == iterations:
            break
        move = -slope / beta.mean()  # Weiszfeld's
        z = z + (move if steep < last / 10 else _far(gap, beta, slope, move, nu))
        last = steep
    return beta, steep


def _smooth(gap: Tensor, nu: float) -> Tensor:
    return ((gap * gap).sum(dim=1) + nu * nu).sqrt()


def _far(gap: Tensor, beta: Tensor, slope: Tensor, move: Tensor, nu: float) -> Tensor:
    """Return the best of Weiszfeld's move, longer ones, Newton's and shorter ones."""
    pull = gap * beta[:, None]
    bend = beta.mean() * (1 + 1e-12) * torch.eye(len(slope), dtype=slope.dtype)
    bend -= (pull * beta[:, None]).T @ pull / len(gap)
    newton = -torch.linalg.solve(bend, slope)
    power = 4.0 ** torch.arange(8, dtype=slope.dtype)
    moves = torch.cat([power.outer(move), (1 / power).outer(newton)])
    falls = [  # from differences of squares: exact if moves are small
        ((gap + m / 2) @ m / (_smooth(gap + m, nu) + 1 / beta)).mean() for m in moves
    ]
    best: Tensor = moves[torch.stack(falls).argmin()]
    return best
