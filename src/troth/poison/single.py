"""Turn a model attack into one example of a linear regression.

References: farhadkhani2022equivalence.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from troth.poison._given import (
    Examples,
    above_zero,
    array,
    at_least_zero,
    same_size,
    strength,
)
from troth.types import Refusal


class Optimum(NamedTuple):
    """The models that minimize the loss of a whole federation."""

    rho: np.ndarray  # [d] the shared model
    theta: np.ndarray  # [N, d] the users' local models


def single_example(
    target: ArrayLike | Tensor,
    pull: ArrayLike | Tensor,
    *,
    lam: float,
    nu: float = 0.0,
    bias: bool = False,
    norm: float = 0.0,
) -> Examples:
    """Return the one example that moves the optimal ρ to θ† (Theorem 5, Appendix K).

    The loss of every user is ν‖θ‖² + Σ½(θᵀq − a)² + λ·½‖ρ − θ‖². Its gradient with
    respect to ρ is 0 at ρ = θ† if the attacker's model is θ♠ = θ† + g/λ. The gradient
    with respect to the attacker's model is 0 at θ♠ if its example (q, a) fulfills 2νθ♠
    + (qᵀθ♠ − a)q + λ(θ♠ − θ†) = 0. Because λ(θ♠ − θ†) = g, this means (qᵀθ♠ − a)q = −r
    with r = g + 2νθ♠. A solution, for any c > 0, is

        q = c·r,   a = qᵀθ♠ + 1/c.

    The loss is strictly convex if ν > 0 or the pooled queries span R^d. Then this
    stationary point is its only minimum. Every step is in
    `docs/explanation/derivations/poison.md`.

    Args:
        target: [d] target θ† of the shared model.
        pull: [d] g, the sum of the honest users' gradients with respect to ρ at ρ = θ†
            (`honest_pull`). It is −g∞ of a gradient attack that has reached its target.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user, also of the attacker.
        bias: Whether the last parameter is an intercept. Then the query has no such
            coordinate, and c = 1/r_last is the only choice.
        norm: Norm of the query. 0 takes the norm of r (c = 1), as in the paper: it is
            Θ(N), with an answer of Θ(N²). With a fixed norm, the answer is Θ(N).

    Departs: Appendix K prints (q, a) = (g, gᵀθ♠ − 1). With it, the gradient at θ♠ is +g
    instead of −g, and ν is missing: ρ* then misses θ†, also for ν = 0. Here the sign is
    corrected and the term 2νθ♠ is added. The factor c is not in the paper.
    """
    goal, g = array("target", target, 1), array("pull", pull, 1)
    same_size("target", goal, "the honest pull", len(g))
    strength(lam)
    at_least_zero("nu", nu)
    at_least_zero("norm", norm)
    model = goal + g / lam
    r = g + 2 * nu * model
    size = float(np.linalg.norm(r))
    if bias:
        return _with_intercept(r, model)
    if size == 0:  # the honest users alone already reach the target
        return Examples(np.zeros((1, len(g))), np.zeros(1))
    c = norm / size if norm else 1.0
    q = c * r
    return Examples(q[None], np.array([q @ model + 1 / c]))


def _with_intercept(r: np.ndarray, model: np.ndarray) -> Examples:
    """Return the query as (q, 1); the residual is then the intercept's entry of r."""
    if abs(r[-1]) <= 1e-12 * np.linalg.norm(r):
        raise Refusal(
            f"the honest users' pull on the intercept is {r[-1]:.3g}, but one example "
            "moves a model with an intercept only if this is not 0; use a model "
            "without an intercept (model.bias = false)"
        )
    q = r[:-1] / r[-1]
    return Examples(q[None], np.array([q @ model[:-1] + model[-1] + r[-1]]))


def spread(examples: Examples, *, norm: float = 1.0) -> Examples:
    """Replace an example (q, a) by k² copies of (q/k, a/k), with equal loss (Sec. 5.3).

    The losses of the copies add up to the loss of (q, a): k²·½(θᵀq/k − a/k)² = ½(θᵀq −
    a)². The q of `single_example` has norm Θ(N), so Θ(N²) copies have answers of Θ(N).
    This holds if a user's loss is a sum over examples, not a mean, and for models
    without an intercept.

    Args:
        examples: Examples to replace, each by itself.
        norm: Largest allowed norm of a query. A single copy is used if q is not longer.
    """
    above_zero("norm", norm, "queries of norm 0 have no effect")
    parts = np.ceil(np.linalg.norm(examples.x, axis=1) / norm).clip(min=1)
    copies = (parts**2).astype(np.int64)
    x = np.repeat(examples.x / parts[:, None], copies, axis=0)
    return Examples(x, np.repeat(examples.y / parts, copies))


def honest_pull(
    queries: Sequence[ArrayLike],
    answers: Sequence[ArrayLike],
    target: ArrayLike | Tensor,
    *,
    lam: float,
    nu: float = 0.0,
) -> np.ndarray:
    """Return g, the sum of honest gradients with respect to ρ, at ρ = θ† (Eq. 175).

    Every user's model is optimal for ρ = θ†. It is (S + λ)⁻¹(b + λθ†), and its gradient
    is λ(S + λ)⁻¹(Sθ† − b), with S = QᵀQ + 2ν and b = Qᵀa.

    Args:
        queries: [m_n, d] of each honest user.
        answers: [m_n] of each honest user.
        target: [d] target θ† of the shared model.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user.

    Returns:
        g, [d].

    Raises:
        Refusal: ν = 0 and the pooled queries do not span R^d. Then ρ* is not unique.
    """
    goal = array("target", target, 1)
    users = _users(queries, answers, lam, nu)
    d = users[0].x.shape[1]
    same_size("target", goal, "the honest users' model", d)
    curved = np.array([user.x.T @ user.x for user in users]) + 2 * nu * np.eye(d)
    slopes = np.array([user.x.T @ user.y for user in users])
    rank = np.linalg.matrix_rank(curved.sum(axis=0), hermitian=True)
    if rank < d:
        raise Refusal(
            f"the pooled honest queries have rank {rank} of {d}, and with nu = 0 the "
            "shared model is not unique; set nu above 0 or give more data"
        )
    off = curved @ goal - slopes
    lifted = curved + lam * np.eye(d)
    each = np.linalg.solve(lifted, off[..., None])[..., 0]
    return np.asarray(lam * each.sum(axis=0))


def coupled_optimum(
    queries: Sequence[ArrayLike],
    answers: Sequence[ArrayLike],
    *,
    lam: float,
    nu: float = 0.0,
) -> Optimum:
    """Minimize Σ_n [ν‖θ_n‖² + Σ½(θ_nᵀq − a)² + λ·½‖ρ − θ_n‖²] (Eqs. 1 and 5).

    This is one linear least-squares problem in (ρ, θ_1 … θ_N), with (N + 1)·d unknowns.
    It is used to check what an attack achieves. The users include the attacker, with
    its poisoned examples. If there are several minima, the one of least norm is
    returned.

    Args:
        queries: [m_n, d] of each user.
        answers: [m_n] of each user.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user.

    Returns:
        The shared model and all users' models.
    """
    users = _users(queries, answers, lam, nu)
    n, d = len(users), users[0].x.shape[1]
    pull, decay = math.sqrt(lam) * np.eye(d), math.sqrt(2 * nu) * np.eye(d)
    rows, sides = [], []
    for k, user in enumerate(users):
        # A triangular factor turns many examples into d + 1 rows. Products of data with
        # themselves would lose half of the digits of a large query.
        fit = np.linalg.qr(np.column_stack([user.x, user.y])).R
        block = np.zeros((len(fit) + 2 * d, n + 1, d))
        block[:, k + 1] = np.vstack([fit[:, :-1], decay, -pull])
        block[len(fit) + d :, 0] = pull
        rows.append(block.reshape(len(block), -1))
        sides.append(np.concatenate([fit[:, -1], np.zeros(2 * d)]))
    whole, turned = np.vstack(rows), np.concatenate(sides)
    found = np.linalg.lstsq(whole, turned, rcond=None)[0].reshape(n + 1, d)
    return Optimum(found[0], found[1:])


def _users(
    queries: Sequence[ArrayLike], answers: Sequence[ArrayLike], lam: float, nu: float
) -> list[Examples]:
    """Return the checked queries and answers of every user."""
    strength(lam)
    at_least_zero("nu", nu)
    if not len(queries) or len(queries) != len(answers):
        raise Refusal(
            f"there are queries of {len(queries)} users and answers of {len(answers)}; "
            "give both, of the same users, for at least one user"
        )
    users: list[Examples] = []
    for k, (query, answer) in enumerate(zip(queries, answers, strict=True)):
        q = array(f"the queries of user {k}", query, 2)
        a = array(f"the answers of user {k}", answer, 1)
        if len(q) != len(a):
            raise Refusal(
                f"user {k} has {len(q)} queries and {len(a)} answers; give one answer "
                "per query"
            )
        users.append(Examples(q, a))
        same_size(f"a query of user {k}", q, "one of user 0", users[0].x.shape[1])
    return users
