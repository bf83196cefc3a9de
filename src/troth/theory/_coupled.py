"""The minimum of the coupled federation, for linear and logistic regression.

Newton's method on all models at once; every problem here is convex and small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit

from troth.types import Refusal

Kind = Literal["linear", "logistic"]
Distance = Literal["l2sq", "l2", "smooth_l2"]

_STEPS = 200
_SHARPER = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # smooth_l2 on its way to l2


class User(NamedTuple):
    """What one user holds."""

    queries: np.ndarray  # [m, d]; m may be 0
    answers: np.ndarray  # [m] numbers, or −1 and 1


class Minimum(NamedTuple):
    """Where the loss of the whole federation is least."""

    rho: np.ndarray  # [d]
    theta: np.ndarray  # [n, d]


_Slopes = tuple[float, np.ndarray, np.ndarray]


class _Problem(NamedTuple):
    kind: Kind
    users: Sequence[User]
    lam: float
    nu: float
    delta: float  # of the rounded distance; 0: half the squared distance

    def slopes(self, z: np.ndarray, way: np.ndarray) -> _Slopes:
        """Loss, gradient [n + 1, d] and curvature [(n + 1)d, (n + 1)d] at (ρ, θ_1, …).

        Args:
            z: [n + 1, d] all models.
            way: [n, d] about where each θ_n lies from ρ, for the curvature.
        """
        n, d = len(self.users), z.shape[1]
        g, h = np.zeros_like(z), np.zeros((n + 1, d, n + 1, d))
        loss = 0.0
        for k, user in enumerate(self.users, start=1):
            fit, ridge = _fit(self.kind, user, z[k]), _ridge(self.nu, z[k])
            pull = _pull(self.lam, self.delta, z[k] - z[0], way[k - 1])
            loss += fit[0] + ridge[0] + pull[0]
            g[k] = fit[1] + ridge[1] + pull[1]
            g[0] -= pull[1]
            h[k, :, k] = fit[2] + ridge[2] + pull[2]
            h[0, :, 0] += pull[2]
            h[0, :, k] = h[k, :, 0] = -pull[2]
        return loss, g, h.reshape((n + 1) * d, (n + 1) * d)

    def ways(self, z: np.ndarray, step: np.ndarray, way: np.ndarray) -> np.ndarray:
        """The same after a step: what s·w = u, s = √(δ² + u²), is to first order."""
        away, moved = z[1:] - z[0], step[1:] - step[0]
        far = np.sqrt(self.delta**2 + (away**2).sum(axis=1, keepdims=True))
        along = (away * moved).sum(axis=1, keepdims=True) / far
        found = (away + moved - way * along) / far
        return np.asarray(found / np.maximum(1, np.linalg.norm(found, axis=1))[:, None])


def _fit(kind: Kind, user: User, theta: np.ndarray) -> _Slopes:
    """½Σ(θᵀq − a)² of Theorem 2, or −Σ ln σ(a·θᵀq) of Theorem 3."""
    q, a = user
    if kind == "linear":
        left = q @ theta - a
        return 0.5 * float(left @ left), q.T @ left, q.T @ q
    margin = a * (q @ theta)
    missed = expit(-margin)
    bend = (q * (missed * (1 - missed))[:, None]).T @ q
    return float(np.logaddexp(0, -margin).sum()), -(q.T @ (a * missed)), bend


def _ridge(nu: float, theta: np.ndarray) -> _Slopes:
    return nu * float(theta @ theta), 2 * nu * theta, 2 * nu * np.eye(len(theta))


def _pull(lam: float, delta: float, away: np.ndarray, way: np.ndarray) -> _Slopes:
    square, one = float(away @ away), np.eye(len(away))
    if delta == 0:
        return lam / 2 * square, lam * away, lam * one
    far = float(np.sqrt(delta**2 + square))
    unit = away / far
    both = np.outer(unit, way)
    bend = lam / far * (one - (both + both.T) / 2)
    return lam * square / (far + delta), lam * unit, bend


def minimum(
    kind: Kind,
    users: Sequence[User],
    distance: Distance,
    lam: float,
    nu: float,
    delta: float = 1.0,
) -> Minimum:
    """Σ_n [ν‖θ_n‖² + Σ ℓ(θ_n, x)] + λΣ_n R(ρ, θ_n) at its least (Eqs. 1 and 5).

    R is that of `regularizers/`. `l2` has no slope at θ_n = ρ: it is taken for
    `smooth_l2` with δ going to 1e-7, which moves the minimum by about as much.

    Raises:
        Refusal: there is not one minimum.
    """
    z = np.zeros((len(users) + 1, users[0].queries.shape[1]))
    way = np.zeros_like(z[1:])
    for at in {"l2sq": (0.0,), "smooth_l2": (delta,), "l2": _SHARPER}[distance]:
        z, way = _newton(_Problem(kind, users, lam, nu, at), z, way)
    return Minimum(z[0], z[1:])


def _newton(
    problem: _Problem, z: np.ndarray, way: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's steps, halved until the loss falls as much as it should.

    The direction w of every pull is followed as an unknown of its own (Chan, Golub and
    Mulet, 1999): where δ is small, Newton's method on the models alone jumps to and fro
    over θ_n = ρ, and this does not.
    """
    loss, g, h = problem.slopes(z, way)
    for _ in range(_STEPS):
        step = _solve(h, g)
        gain, length = -float((g * step).sum()), 1.0
        if gain <= 1e-15 * (1 + abs(loss)):
            return z + step, way
        new = problem.ways(z, step, way) if problem.delta else way
        while (after := problem.slopes(z + length * step, new))[0] > (
            loss - 0.1 * length * gain
        ):
            length /= 2
            if length < 1e-12:
                return z, way  # as exact as the numbers are
        z, way = z + length * step, new
        loss, g, h = after
    raise Refusal(f"no minimum was found in {_STEPS} steps; rescale the queries")


def _solve(h: np.ndarray, g: np.ndarray) -> np.ndarray:
    try:
        return -np.linalg.solve(h, g.ravel()).reshape(g.shape)
    except np.linalg.LinAlgError:
        raise Refusal(
            "these users' data do not say what the best models are; give more "
            "examples, or set nu above 0"
        ) from None
