"""The shortest combination of vectors with bounded weights: a small quadratic program.

minimize ½·λᵀGλ  subject to  Σλ = 1,  low ≤ λ_i ≤ high.

Projected gradient steps find which weights lie at a bound. An active-set method in
float64 then finds the solution up to rounding. It solves the equations of the free
weights. A weight that would exceed a bound is held there. Two weights are freed if
moving weight from one to the other would lower the objective.
"""

import numpy as np
import torch
from scipy import linalg

from troth import numerics

STEPS, FEW = 100, 50  # projected gradient steps, only for more than FEW weights


def solve(g: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the weights λ [n]; equal weights if no others are better beyond rounding.

    Args:
        g: [n, n] inner products of n vectors of length at most 1.
        low: Lower bound of each weight, at most 1/n.
        high: Upper bound of each weight, at least 1/n.
    """
    n = len(g)
    slack, lam = 1e-13 * n, np.full(n, 1 / n)
    if violation(g @ lam, lam, low, high) <= slack:
        return lam
    # Center at the mean. A part that all vectors share adds a constant (as Σλ = 1), but
    # would swamp the differences between nearly equal vectors.
    mean = g.mean(axis=1)
    c = mean - mean.mean()
    h = g - mean - c[:, None]
    # `trace / n**2` adds a constant again. `pull` draws towards equal weights. It makes
    # the solution unique, and H definite by more than rounding errors.
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
    """Return how far weights are from the optimality (KKT) conditions; 0 if they hold.

    At the optimum there is a number ν with slope_i ≥ ν where λ_i cannot fall, slope_i ≤
    ν where λ_i cannot rise, and slope_i = ν in between. So no weight that can fall has
    a larger slope than one that can rise.
    """
    fall, rise = _pair(slope, lam, low, high)
    can = lam[fall] > low and lam[rise] < high
    return max(0.0, float(slope[fall] - slope[rise])) if can else 0.0


def _pair(
    slope: np.ndarray, lam: np.ndarray, low: float, high: float
) -> tuple[int, int]:
    """Return which weight to lower (steepest) and which one to raise (least steep)."""
    fall = np.where(lam > low, slope, -np.inf).argmax()
    rise = np.where(lam < high, slope, np.inf).argmin()
    return int(fall), int(rise)


def _descended(h: np.ndarray, c: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return weights near the solution, by accelerated projected gradient steps."""
    n = len(c)
    steepest = linalg.eigvalsh(h, subset_by_index=(n - 1, n - 1))[0]
    length = max(float(steepest), float(np.ptp(c)))  # c keeps steps near the bounds
    lam = ahead = np.full(n, 1 / n)
    momentum = 1.0
    for _ in range(STEPS if n > FEW else 0):
        point = torch.from_numpy(ahead - (h @ ahead + c) / length)
        new = numerics.capped_simplex(point, low, high).numpy()
        if (ahead - new) @ (new - lam) > 0:  # uphill: restart the momentum
            momentum = 1.0
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / grown * (new - lam)
        lam, momentum = new, grown
    return lam.clip(low, high)


def _best(
    h: np.ndarray, slope: np.ndarray, lam: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Minimize over the free weights; keep all other weights and the sum."""
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
    """Move from `lam` towards `best` up to the first bound; hold the weight there."""
    step = np.where(free, best - lam, 0.0)
    room = np.where(step > 0, high - lam, low - lam)
    share = np.divide(room, step, out=np.full(len(lam), np.inf), where=step != 0)
    first = int(share.argmin())
    moved: np.ndarray = lam + share[first] * step
    moved[first] = high if step[first] > 0 else low
    free[first] = False
    return moved
