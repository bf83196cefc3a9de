"""Simulate Ditto's federations, and compute the error of every λ.

A personal model is a weighted mean of a local estimate and the shared model. A client's
error is therefore a parabola in the weight a of the shared model. Three numbers per
client determine the error of all λ on the same draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial

_NUMBERS = 1 << 21  # draws of noise at a time


class Case(NamedTuple):
    """A federation of the theory; point estimation unless β is given."""

    name: str
    K: int
    n: int
    sigma: float
    tau: float
    K_a: int = 0
    tau_a: float = 0.0
    d: int = 1
    beta: float | None = None

    @property
    def numbers(self) -> tuple[Any, ...]:
        """Return K … τ_a, as `troth.theory` takes them."""
        return self[1:7]

    @property
    def shape(self) -> dict[str, Any]:
        """Return d and beta, as `troth.theory` takes them."""
        return {"d": self.d, "beta": self.beta}

    def pull(self, lam: float) -> float:
        """Return the weight of the shared model, a = λ/(β/n + λ)."""
        return lam / ((self.beta or self.n) / self.n + lam)

    def lam(self, a: float) -> float:
        """Return the λ of a weight a, the inverse of `pull`."""
        return (self.beta or self.n) / self.n * a / (1 - a)


def designs(case: Case, random: np.random.Generator) -> np.ndarray:
    """Return inputs [K, n, d] with XᵀX = βI, new for each client; ones for points."""
    if case.beta is None:
        return np.ones((case.K, case.n, 1))
    drawn = random.standard_normal((case.K, case.n, case.d))
    return np.sqrt(case.beta) * np.linalg.qr(drawn)[0]


def parabolas(
    case: Case, trials: int, random: np.random.Generator
) -> Iterator[np.ndarray]:
    """Return ‖w_k − v_k‖² of benign clients as coefficients of 1, a, a².

    The result is [trials, K_b, 3]. Every trial draws θ = 0, w_k, and y = X w_k + z. ŵ_k
    is the least-squares fit and w* the mean of all K of them. Trials are computed in
    pieces that fit into memory.
    """
    x = designs(case, random)
    beta = case.beta or case.n
    good = case.K - case.K_a
    spread = np.where(np.arange(case.K) < good, case.tau, case.tau_a)[:, None]
    step = max(1, _NUMBERS // (case.K * case.n))
    for first in range(0, trials, step):
        count = min(step, trials - first)
        w = spread * random.standard_normal((count, case.K, case.d))
        y = np.matmul(x, w[..., None])[..., 0]
        y += case.sigma * random.standard_normal((count, case.K, case.n))
        local = np.matmul(y[..., None, :], x)[..., 0, :] / beta
        off, way = w - local, local - local.mean(axis=1, keepdims=True)
        off, way = off[:, :good], way[:, :good]
        parts = [(off**2).sum(-1), 2 * (off * way).sum(-1), (way**2).sum(-1)]
        yield np.stack(parts, axis=-1)


class Tally(NamedTuple):
    """Moments of the parabolas over some trials."""

    mean: np.ndarray  # [3] over trials and clients
    within: np.ndarray  # [3, 3] covariance over clients, mean over trials
    pooled: np.ndarray  # [3, 3] covariance over trials and clients
    at: np.ndarray  # [trials] mean error at one λ

    @property
    def best(self) -> float:
        """Return the a with the least mean error."""
        return least(Polynomial(self.mean))


def tally(case: Case, trials: int, random: np.random.Generator, lam: float) -> Tally:
    """Draw federations and add up their moments.

    Args:
        case: the federation.
        trials: number of federations.
        random: the random generator.
        lam: the λ at which the error of each trial is kept.
    """
    powers = case.pull(lam) ** np.arange(3)
    mean, square, inner = np.zeros(3), np.zeros((3, 3)), np.zeros((3, 3))
    at = []
    for c in parabolas(case, trials, random):
        center = c.mean(axis=1)
        size = c.shape[1]
        mean += center.sum(0)
        flat = c.reshape(-1, 3)
        whole = flat.T @ flat / size
        square += whole
        inner += whole - center.T @ center
        at.append(center @ powers)
    mean /= trials
    pooled = square / trials - np.outer(mean, mean)
    return Tally(mean, inner / trials, pooled, np.concatenate(at))


def quartic(covariance: np.ndarray) -> Polynomial:
    """Return the variance of Σ c_i aⁱ as a polynomial in a."""
    found = np.zeros(5)
    for i in range(3):
        for j in range(3):
            found[i + j] += covariance[i, j]
    return Polynomial(found)


def least(curve: Polynomial) -> float:
    """Return the minimizer of a polynomial on [0, 1]."""
    roots = curve.deriv().roots()
    inside = [float(r.real) for r in roots if abs(r.imag) < 1e-9 and 0 < r.real < 1]
    return min([0.0, 1 - 1e-12, *inside], key=lambda a: float(curve(a)))
