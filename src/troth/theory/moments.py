"""Spread of clients, from their estimates, by the method of moments."""

import numpy as np

from troth.types import Refusal


def between(rows: np.ndarray, noise: np.ndarray) -> float:
    """Estimate the spread of the truths behind noisy estimates: Σ_coordinates τ².

    Estimates ŵ_k = w_k + e_k of independent clients have E[Σ‖ŵ_k − mean‖²/(K−1)] =
    tr Cov(w) + mean_k tr Cov(e_k); the second is taken off. Unbiased before it is cut
    off at 0, for any designs and numbers of examples.

    Args:
        rows: [K, p] one estimate per client.
        noise: [K] tr Cov(e_k), how far each estimate is from its own truth.

    Returns:
        tr Cov(w) ≥ 0: p·τ² where all coordinates spread alike.
    """
    if len(rows) < 2:
        raise Refusal(f"{len(rows)} clients have no spread; it takes at least 2")
    spread = float(rows.var(axis=0, ddof=1).sum())
    return max(0.0, spread - float(noise.mean()))


def stray(
    rows: np.ndarray, noise: np.ndarray, others: np.ndarray, others_noise: np.ndarray
) -> float:
    """Estimate the spread of some clients about the center of others: Σ τ_a².

    E‖ŵ_i − mean of others‖² = tr Cov(w_i) + tr Cov(e_i) + (tr Cov(w) + noise)/K_b, of
    which all but the first is taken off.

    Args:
        rows: [K_a, p] estimates of adversaries.
        noise: [K_a] tr Cov of their noise.
        others: [K_b, p] estimates of benign clients.
        others_noise: [K_b] tr Cov of their noise.
    """
    center = others.mean(axis=0)
    about = float(((rows - center) ** 2).sum(axis=1).mean()) - float(noise.mean())
    wander = (between(others, others_noise) + float(others_noise.mean())) / len(others)
    return max(0.0, about - wander)


def wobble(rows: np.ndarray, noise: np.ndarray, groups: int = 50) -> float:
    """Return the standard error of `between`, by a jackknife over groups."""
    count = min(groups, len(rows))
    if count < 3:
        return float("inf")
    group = np.arange(len(rows)) % count
    without = [between(rows[group != g], noise[group != g]) for g in range(count)]
    return float(np.sqrt((count - 1) * np.var(without)))
