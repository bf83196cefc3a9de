"""The geometric median: the point with the least sum of distances to the updates.

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

_FAR = 1e100  # longer distances, in units of `scale`, are clamped


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

    u_i are the n updates. As in the paper, the next z is the mean of the updates with
    weights β_i = 1/√(‖z − u_i‖² + ν²). If this converges slowly, the step goes along
    Weiszfeld's or Newton's direction, by the length that lowers the sum most. The
    iteration ends when the norm of the gradient of the mean distance is at most the
    tolerance (far away from the updates, this norm is 1). If there are more coordinates
    than updates, it works in the subspace of the updates.

    Guarantee: let 2f < n, let at most f updates be malicious, and let all benign
    updates be within a distance R of some point. Then the distance of the result from
    this point is at most 2(n − f)/(n − 2f)·R (up to ν and the tolerance).

    Departs: all updates have the same weight; in the paper, weights depend on sizes
    that clients send. The unit of ν is the median distance of the updates from their
    coordinate-wise median, so the result scales with the updates. √(‖·‖² + ν²) replaces
    max(ν, ‖·‖), so that Newton's steps converge. The iteration runs to the optimum; the
    paper takes three steps.

    Args:
        messages: Messages of n clients, with one update each.
        note: Function that records the weights of the updates; the result is their
            weighted mean.
        nu: Smoothing ν > 0 of the distances. Small values approach the geometric
            median, large values the mean.
        tolerance: Norm of the gradient, above 0, at which the iteration stops.
        iterations: Largest number of steps.
        f: Number of malicious updates that the guarantee covers. The result does not
            depend on f. "auto" means the expected number of malicious clients in a
            cohort, rounded down.
        strict: Whether to raise Refusal if 2f ≥ n, or if the tolerance is not reached.
            If false, the last point of the iteration is taken, without a guarantee.

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
    if scale == 0:  # half of the updates equal the start: it is the minimum
        weight = (length == 0).double()
    else:
        ratio = length / scale
        points = unit * ratio.clamp(max=_FAR)[:, None]
        nu = min(max(nu, 1 / _FAR), _FAR)  # otherwise its square would be 0 or infinite
        weight, steep = _weights(points, nu, tolerance, iterations)
        weight = weight * (_FAR / ratio).clamp(max=1)  # undo the clamp of `points`
        if strict and steep > tolerance:
            raise Refusal(
                f"geometric_median came to a gradient of {steep:.1e} in iterations = "
                f"{iterations}, and tolerance is {tolerance:g}; raise either, or set "
                "strict = false to take the last point"
            )
    weight = weight / weight.sum()
    note(weight=weight)
    return _around.moved(center, weight, rows)


def _directions(rows: Tensor, center: Tensor) -> tuple[Tensor, Tensor]:
    """Return unit vectors [n, p] from the center to the updates, and distances [n].

    Both are on the CPU. For an update at the center, the vector is 0. If there are more
    coordinates than updates, p ≤ n coordinates are computed from inner products. Each
    update is scaled separately, so that distant updates do not make the others
    imprecise and nothing overflows.
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
    """Return vectors [n, p ≤ n] with the given inner products [n, n]."""
    value, vector = torch.linalg.eigh(product)
    noise = len(value) * torch.finfo(value.dtype).eps * value[-1]
    real = value > noise
    return torch.mul(vector[:, real], value[real].sqrt())


def _weights(
    points: Tensor, nu: float, tolerance: float, iterations: int
) -> tuple[Tensor, float]:
    """Return the weights β_i at the last z, and the norm of the gradient there."""
    z, last = torch.zeros_like(points[0]), math.inf
    for step in range(iterations + 1):
        gap = z - points
        beta = 1 / _smooth(gap, nu)
        slope = beta @ gap / len(gap)
        steep = float(torch.linalg.vector_norm(slope))
        if steep <= tolerance or step == iterations:
            break
        move = -slope / beta.mean()  # Weiszfeld's step
        z = z + (move if steep < last / 10 else _far(gap, beta, slope, move, nu))
        last = steep
    return beta, steep


def _smooth(gap: Tensor, nu: float) -> Tensor:
    return ((gap * gap).sum(dim=1) + nu * nu).sqrt()


def _far(gap: Tensor, beta: Tensor, slope: Tensor, move: Tensor, nu: float) -> Tensor:
    """Return the best step among multiples of Weiszfeld's and Newton's step."""
    pull = gap * beta[:, None]
    bend = beta.mean() * (1 + 1e-12) * torch.eye(len(slope), dtype=slope.dtype)
    bend -= (pull * beta[:, None]).T @ pull / len(gap)
    newton = -torch.linalg.solve(bend, slope)
    power = 4.0 ** torch.arange(8, dtype=slope.dtype)
    moves = torch.cat([power.outer(move), (1 / power).outer(newton)])
    falls = [  # from differences of squares, which are exact for small moves
        ((gap + m / 2) @ m / (_smooth(gap + m, nu) + 1 / beta)).mean() for m in moves
    ]
    best: Tensor = moves[torch.stack(falls).argmin()]
    return best
