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
    """Models that minimize the loss of a whole federation."""

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

    The loss of every user is ν‖θ‖² + Σ½(θᵀq − a)² + λ·½‖ρ − θ‖². The gradient on ρ is 0
    at θ† if the attacker's model is θ♠ = θ† + g/λ. The gradient on the attacker's model
    is 0 at θ♠ if its only example (q, a) fulfills
    2νθ♠ + (qᵀθ♠ − a)q + λ(θ♠ − θ†) = 0. Since λ(θ♠ − θ†) = g, a solution is, with
    r = g + 2νθ♠ and any c > 0,

        q = c·r,   a = qᵀθ♠ + 1/c,

    because then (qᵀθ♠ − a)q = −r. If ν > 0 or the pooled queries span R^d, the loss is
    strictly convex, so this stationary point is its only minimum.
    `docs/explanation/derivations/poison.md` has every step.

    Args:
        target: [d] target θ† of the shared model.
        pull: [d] g, the sum of honest gradients on ρ at ρ = θ† (`honest_pull`). A
            gradient attack that has reached its target sends the gradient −g.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user, also of the attacker.
        bias: whether the last parameter is an intercept. Then the query lacks this
            coordinate, and c = 1/r_last is the only choice.
        norm: norm of the query. With 0, c = 1 as in the paper: for N users the query
            has norm Θ(N), and the answer is Θ(N²). With a fixed norm, the answer is
            Θ(N).

    Returns:
        One example: query q and answer a.

    Departs: Appendix K prints (q, a) = (g, gᵀθ♠ − 1). The gradient of its loss at θ♠ is
    +g, but −g is needed, and ν is left out. So ρ* misses θ†, also for ν = 0. Here, the
    sign and the term 2νθ♠ are corrected. c is an addition.

    >>> single_example([1.0], [2.0], lam=2.0).x.tolist()
    [[2.0]]
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
    if size == 0:  # the honest users reach the target by themselves
        return Examples(np.zeros((1, len(g))), np.zeros(1))
    c = norm / size if norm else 1.0
    q = c * r
    return Examples(q[None], np.array([q @ model + 1 / c]))


def _with_intercept(r: np.ndarray, model: np.ndarray) -> Examples:
    """Return the example with query (q, 1), whose residual is the last entry of r."""
    if abs(r[-1]) <= 1e-12 * np.linalg.norm(r):
        raise Refusal(
            f"the honest users' pull on the intercept is {r[-1]:.3g}, but one example "
            "moves a model with an intercept only if this is not 0; use a model "
            "without an intercept (model.bias = false)"
        )
    q = r[:-1] / r[-1]
    return Examples(q[None], np.array([q @ model[:-1] + model[-1] + r[-1]]))


def spread(examples: Examples, *, norm: float = 1.0) -> Examples:
    """Replace an example by k² copies of (q/k, a/k) with the same loss (Section 5.3).

    The losses of the copies sum to that of (q, a): k²·½(θᵀq/k − a/k)² = ½(θᵀq − a)².
    For the example of `single_example`, whose query has norm Θ(N), they are Θ(N²)
    examples with answers of Θ(N). This needs users who sum the loss over their examples
    (not average it), and a model without an intercept.

    Args:
        examples: examples, each of which is replaced.
        norm: largest norm of a query.

    Returns:
        The copies of all examples.
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
    """Return g, the sum of honest users' gradients on ρ at ρ = θ† (Eq. 175).

    Each user's model is optimal for ρ = θ†: (S + λ)⁻¹(b + λθ†) with S = QᵀQ + 2ν and
    b = Qᵀa. Its gradient is λ(S + λ)⁻¹(Sθ† − b).

    Args:
        queries: [m_n, d] of each honest user.
        answers: [m_n] of each honest user.
        target: [d] target θ† of the shared model.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user.

    Returns:
        g, [d].

    Raises:
        Refusal: ν = 0 and the pooled queries do not span R^d, so that ρ* is not unique.
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
    Use it to check an attack: include the attacker, with its poisoned examples. If the
    minimum is not unique, the solution of smallest norm is returned.

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
        # QR reduces many examples to d + 1 rows, without the products of data that
        # would lose half the digits of large queries
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
    """Check every user's examples, and convert them to arrays."""
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
