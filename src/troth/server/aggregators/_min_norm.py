"""The shortest combination of vectors with weights in a box: a small quadratic program.

minimize ½·λᵀGλ  subject to  Σλ = 1,  low ≤ λ_i ≤ high.

Projected gradient steps show which weights lie at an edge of the box. An active-set
method in float64 then finds the solution to rounding: it solves the equations of the
free weights, holds one that would leave the box at its edge, and frees two where moving
weight from one to the other would help.
"""

import numpy as np
import torch
from scipy import linalg

from troth import numerics

STEPS, FEW = 100, 50  # of projected gradient, for more than a few weights: for speed


def solve(g: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return [n] the weights; equal ones if no others are better by more than rounding.

    Args:
        g: [n, n] the products of n vectors of length at most 1.
        low: at most 1/n.
        high: at least 1/n.
    """
    n = len(g)
    slack, lam = 1e-13 * n, np.full(n, 1 / n)
    if violation(g @ lam, lam, low, high) <= slack:
        return lam
    # About the mean: what all vectors share is a constant (Σλ = 1), which would drown
    # differences between vectors that are nearly equal.
    mean = g.mean(axis=1)
    c = mean - mean.mean()
    h = g - mean - c[:, None]
    # A constant again where H is 0, and a pull to equal weights that makes the solution
    # unique, and H definite beyond what rounding can undo.
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
    """Measure how far weights are from the optimality (KKT) conditions; 0 if they hold.

    At the optimum one price ν has slope_i ≥ ν where λ_i cannot fall, slope_i ≤ ν where
    it cannot rise, and both in between: no weight that can fall has a larger slope than
    one that can rise.
    """
    fall, rise = _pair(slope, lam, low, high)
    can = lam[fall] > low and lam[rise] < high
    return max(0.0, float(slope[fall] - slope[rise])) if can else 0.0


def _pair(
    slope: np.ndarray, lam: np.ndarray, low: float, high: float
) -> tuple[int, int]:
    """Return the steepest weight that can fall, and the least steep that can rise."""
    fall = np.where(lam > low, slope, -np.inf).argmax()
    rise = np.where(lam < high, slope, np.inf).argmin()
    return int(fall), int(rise)


def _descended(h: np.ndarray, c: np.ndarray, low: float, high: float) -> np.ndarray:
    """Come near the solution by accelerated projected gradient from equal weights."""
    n = len(c)
    steepest = linalg.eigvalsh(h, subset_by_index=(n - 1, n - 1))[0]
    length = max(float(steepest), float(np.ptp(c)))  # c: to stay near the box
    lam = ahead = np.full(n, 1 / n)
    momentum = 1.0
    for _ in range(STEPS if n > FEW else 0):
        point = torch.from_numpy(ahead - (h @ ahead + c) / length)
        new = numerics.capped_simplex(point, low, high).numpy()
        if (ahead - new) @ (new - lam) > 0:  # uphill
            momentum = 1.0
        grown = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = new + (momentum - 1) / grown * (new - lam)
        lam, momentum = new, grown
    return lam.clip(low, high)


def _best(
    h: np.ndarray, slope: np.ndarray, lam: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Minimize over the free weights alone; keep all others and the sum."""
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
    """Move from lam towards best as far as the box allows; hold what stops it."""
    step = np.where(free, best - lam, 0.0)
    room = np.where(step > 0, high - lam, low - lam)
    share = np.divide(room, step, out=np.full(len(lam), np.inf), where=step != 0)
    first = int(share.argmin())
    moved: np.ndarray = lam + share[first] * step
    moved[first] = high if step[first] > 0 else low
    free[first] = False
    return moved
