"""Variance between clients' true values w_k, by the method of moments.

Only noisy estimates ŵ_k = w_k + e_k are known, and the variance of the noise e_k.
Cov(e_k) is the noise's covariance matrix, and tr Cov(e_k) its trace. τ² is the variance
of w_k per coordinate, and τ_a² that of malicious clients.
"""

import math

import numpy as np
from scipy import stats

from troth.types import Refusal


def between(rows: np.ndarray, noise: np.ndarray) -> float:
    """Estimate the variance of the clients' true values, summed over coordinates.

    For the estimates of K independent clients, E[Σ_k‖ŵ_k − mean‖²/(K−1)] is tr Cov(w)
    plus the mean of tr Cov(e_k). So the sample variance minus the mean noise is an
    unbiased estimate of tr Cov(w). If it is negative, the result is 0.

    Args:
        rows: [K, p] estimates ŵ_k, one row per client, of at least 2 clients.
        noise: [K] tr Cov(e_k), the variance of each estimate around its true value.

    Returns:
        tr Cov(w) ≥ 0, which is p·τ² if all p coordinates have variance τ².

    Example:
        >>> between(np.array([[-1.0], [0.0], [4.0]]), np.array([1.0, 2.0, 3.0]))
        5.0
    """
    spread, mean_noise = _moments(rows, noise)
    return max(0.0, spread - mean_noise)


def interval(
    rows: np.ndarray, noise: np.ndarray, groups: int = 50
) -> tuple[float, float, float]:
    """Return the standard error and the 95 % interval of the estimate of `between`.

    The jackknife leaves out one client at a time, or one of `groups` groups of clients.
    The estimate is T = S − N, before negative values are replaced by 0. S is the
    variance of the ŵ_k, and N the mean noise. Because the distribution of a variance is
    skewed, the interval is computed for log(T + N): its ends are
    (T + N)·exp(±t·error) − N, or 0 if this is negative. Here `error` is the standard
    error of log(T + N), and t the quantile of Student's t distribution with
    (number of groups − 1) degrees of freedom.

    Args:
        rows: [K, p] estimates ŵ_k, one row per client.
        noise: [K] tr Cov(e_k).
        groups: number of groups; if there are fewer clients, each is a group.

    Returns:
        The standard error of T, and the two ends of the interval. With fewer than 3
        clients, the error cannot be estimated, and the result is (∞, 0, ∞).

    Guarantee: in simulations with Gaussian estimates, the interval contained the true
        value in 93 to 98 % of cases, for 4 to 100 clients, 1 to 20 coordinates, and
        noise of .1 to 4 times τ². If differences between clients are very skewed or
        heavy-tailed, it does so less often: in 90 to 98 % for Laplace distributions.
    """
    count = min(groups, len(rows))
    if count < 3:
        return math.inf, 0.0, math.inf
    spread, mean_noise = _moments(rows, noise)
    group = np.arange(len(rows)) % count
    parts = [_moments(rows[group != g], noise[group != g]) for g in range(count)]
    variance, without = np.array(parts).T
    moment = variance - without
    error = math.sqrt((count - 1) * moment.var())
    if not spread > 0:  # all estimates are equal
        return error, 0.0, 0.0
    # If the ŵ_k are nearly equal, T + N can be negative without a client of low noise.
    total = np.where(moment + mean_noise > 0, moment + mean_noise, variance)
    total = np.log(np.maximum(total, np.finfo(float).tiny))
    half = float(stats.t.ppf(0.975, count - 1)) * math.sqrt((count - 1) * total.var())
    with np.errstate(over="ignore"):
        low, high = (float(spread * np.exp(z) - mean_noise) for z in (-half, half))
    return error, max(0.0, low), max(0.0, high)


def _moments(rows: np.ndarray, noise: np.ndarray) -> tuple[float, float]:
    """Return the variance of the estimates, summed over coordinates, and mean noise.

    Raise Refusal if there are fewer than 2 clients.
    """
    if len(rows) < 2:
        raise Refusal(
            f"{len(rows)} clients have no variance between them; give at least 2"
        )
    return float(rows.var(axis=0, ddof=1).sum()), float(noise.mean())


def stray(
    rows: np.ndarray, noise: np.ndarray, others: np.ndarray, others_noise: np.ndarray
) -> float:
    """Estimate the variance of malicious clients' true values, summed over coordinates.

    For a malicious client i, the expected squared distance of ŵ_i from the mean of the
    K_b benign estimates is tr Cov(w_i) + tr Cov(e_i) + (tr Cov(w) + mean noise)/K_b,
    where w and the mean noise are those of benign clients. All terms except the first
    are estimated and subtracted. If the difference is negative, the result is 0.

    Args:
        rows: [K_a, p] estimates of malicious clients.
        noise: [K_a] tr Cov(e_i) of malicious clients.
        others: [K_b, p] estimates of benign clients, at least 2.
        others_noise: [K_b] tr Cov(e_k) of benign clients.

    Returns:
        tr Cov(w_i) ≥ 0, which is p·τ_a² if all p coordinates have variance τ_a².

    Example:
        >>> benign, noise = np.array([[-1.0], [0.0], [4.0]]), np.array([1.0, 2.0, 3.0])
        >>> round(stray(np.array([[11.0]]), np.array([6.0]), benign, noise), 3)
        91.667
    """
    center = others.mean(axis=0)
    about = float(((rows - center) ** 2).sum(axis=1).mean()) - float(noise.mean())
    around = (between(others, others_noise) + float(others_noise.mean())) / len(others)
    return max(0.0, about - around)
