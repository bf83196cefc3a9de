"""The weighted mean of vectors with the smallest norm: a small quadratic program.

minimize ½·λᵀGλ  subject to  Σλ = 1,  low ≤ λ_i ≤ high.

G contains the inner products of the vectors, and λ their weights. Projected gradient
steps find which weights are at a bound. An active-set method in float64 then finds the
solution up to rounding. It minimizes over the free weights. A weight that would exceed
a bound is fixed at the bound. Two weights become free if increasing one and decreasing
the other would lower the objective.
"""

import numpy as np
import torch
from scipy import linalg

from troth import numerics

STEPS, FEW = 100, 50  # projected gradient steps, only for more than FEW weights


def solve(g: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the optimal weights λ [n], or equal weights if these are optimal.

    Args:
        g: [n, n] inner products of n vectors, whose norms are at most 1.
        low: Lower bound of each weight, at most 1/n.
        high: Upper bound of each weight, at least 1/n.
    """
    n = len(g)
    slack, lam = 1e-13 * n, np.full(n, 1 / n)
    if violation(g @ lam, lam, low, high) <= slack:
        return lam
    # Subtract the mean of the vectors. This adds a constant to the objective (as Σλ =
    # 1), and keeps differences between nearly equal vectors precise.
    mean = g.mean(axis=1)
    c = mean - mean.mean()
    h = g - mean - c[:, None]
    # `trace / n**2` also adds a constant. `pull` favors equal weights. It makes the
    # solution unique, and H positive definite despite rounding errors.
    trace = float(np.trace(h))
    pull = 1e-11 + 4 * np.finfo(float).eps * n * trace
    h, c = h + trace / n**2 + pull * np.eye(n), c - pull / n
    lam = _descended(h, c, low, high)
    free = (low < lam) & (lam < high)
    for _ in range(20 * n + 100):
        slope = h @ lam + c
        best = _best(h, slope, lam, free)
        if best.min() < low or best.max() > high:
            lam = _stopped(best, lam, free, low, high)
            continue
        lam, slope = best, h @ best + c
        fall, rise = _pair(slope, lam, low, high)
        if slope[fall] - slope[rise] <= slack:
            break
        free[[fall, rise]] = True
    return lam


def violation(slope: np.ndarray, lam: np.ndarray, low: float, high: float) -> float:
    """Return the violation of the optimality (KKT) conditions by weights; 0 if none.

    slope_i is the derivative of the objective in λ_i. At the optimum, no weight above
    its lower bound has a larger slope than a weight below its upper bound. The result
    is the largest such difference of slopes.
    """
    fall, rise = _pair(slope, lam, low, high)
    can = lam[fall] > low and lam[rise] < high
    return max(0.0, float(slope[fall] - slope[rise])) if can else 0.0


def _pair(
    slope: np.ndarray, lam: np.ndarray, low: float, high: float
) -> tuple[int, int]:
    """Return the index of the weight to lower and of the weight to raise.

    Of the weights that are not at that bound, they have the largest and the smallest
    slope.
    """
    fall = np.where(lam > low, slope, -np.inf).argmax()
    rise = np.where(lam < high, slope, np.inf).argmin()
    return int(fall), int(rise)


def _descended(h: np.ndarray, c: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return weights near the solution, by accelerated projected gradient steps."""
    n = len(c)
    steepest = linalg.eigvalsh(h, subset_by_index=(n - 1, n - 1))[0]
    length = max(float(steepest), float(np.ptp(c)))  # c keeps steps within bounds
    lam = ahead = np.full(n, 1 / n)
    momentum = 1.0
    for _ in range(STEPS if n > FEW else 0):
        point = torch.from_numpy(ahead - (h @ ahead + c) / length)
        new = numerics.capped_simplex(point, low, high).numpy()
        if (ahead - new) @ (new - lam) > 0:  # uphill: restart
            momentum = 1.0
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / grown * (new - lam)
        lam, momentum = new, grown
    return lam.clip(low, high)


def _best(
    h: np.ndarray, slope: np.ndarray, lam: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Return the minimizer over the free weights; the others and the sum stay fixed."""
    if free.sum() < 2:
        return lam
    steep = slope[free] - slope[free].mean()
    sides = np.stack([np.ones(len(steep)), steep], axis=1)
    factor = linalg.cho_factor(h[np.ix_(free, free)], check_finite=False)
    ones, down = linalg.cho_solve(factor, sides, check_finite=False).T
    best = lam.copy()
    best[free] -= down - down.sum() / ones.sum() * ones
    return best


def _stopped(
    best: np.ndarray, lam: np.ndarray, free: np.ndarray, low: float, high: float
) -> np.ndarray:
    """Move `lam` towards `best` up to the first bound; fix that weight there."""
    step = np.where(free, best - lam, 0.0)
    room = np.where(step > 0, high - lam, low - lam)
    share = np.divide(room, step, out=np.full(len(lam), np.inf), where=step != 0)
    first = int(share.argmin())
    moved: np.ndarray = lam + share[first] * step
    moved[first] = high if step[first] > 0 else low
    free[first] = False
    return moved
