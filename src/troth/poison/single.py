"""Turn a model attack into one example of a linear regression.

Each user n has queries q (inputs), answers a (targets) and a local model θ_n, which is
coupled with the shared model ρ. The paper is Farhadkhani et al. (2022), *An Equivalence
Between Data Poisoning and Byzantine Gradient Attacks*.

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

    The loss of a user is ν‖θ‖² + Σ½(θᵀq − a)² + λ·½‖ρ − θ‖², with the sum over the
    user's examples (q, a). The gradient of the total loss in ρ is 0 at θ† if the
    attacker's model is θ♠ = θ† + g/λ. The gradient in the attacker's model is 0 at θ♠
    if its only example (q, a) fulfills 2νθ♠ + (qᵀθ♠ − a)q + λ(θ♠ − θ†) = 0. The last
    term is g. Let r = g + 2νθ♠. For any c > 0, a solution is

        q = c·r,   a = qᵀθ♠ + 1/c,

    because then (qᵀθ♠ − a)q = −r. If ν > 0 or the queries of all users span R^d, the
    loss is strictly convex, so this stationary point is its only minimum.
    `docs/explanation/derivations/poison.md` has every step.

    Args:
        target: [d] target θ† of the shared model.
        pull: [d] g, the sum of the honest users' gradients in ρ at ρ = θ†
            (`honest_pull`). A gradient attack that has reached its target sends −g.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user, also of the attacker.
        bias: whether the last parameter is an intercept. If so, the last entry of the
            query is 1 and is left out, so c is 1 divided by the last entry of r.
        norm: norm of the query; 0: c = 1 as in the paper. With c = 1 and N users, the
            query has norm Θ(N), and the answer is Θ(N²). With a fixed norm, the answer
            is Θ(N).

    Returns:
        One example: query q and answer a.

    Departs: Appendix K prints (q, a) = (g, gᵀθ♠ − 1). The gradient of this example's
    loss at θ♠ is +g, but −g is needed, and the term 2νθ♠ is missing. So the optimal ρ
    is not θ†, not even for ν = 0. Both errors are corrected here. The factor c is an
    addition.

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
    if size == 0:  # the optimal ρ is θ† without an attack
        return Examples(np.zeros((1, len(g))), np.zeros(1))
    c = norm / size if norm else 1.0
    q = c * r
    return Examples(q[None], np.array([q @ model + 1 / c]))


def _with_intercept(r: np.ndarray, model: np.ndarray) -> Examples:
    """Return the example (q, a) for a model whose last parameter is an intercept.

    With the query (q, 1), the residual is the negative of the last entry of r. Raise
    Refusal if this entry is 0.
    """
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
    The query of `single_example` has norm Θ(N) for N users. It is replaced by Θ(N²)
    copies with answers of Θ(N). The loss must be summed over examples, not averaged,
    and the model must have no intercept.

    Args:
        examples: examples, each of which is replaced by copies.
        norm: largest norm of a query; it determines k.

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
    """Return g, the sum of the honest users' gradients in ρ at ρ = θ† (Eq. 175).

    Let Q and a be a user's queries and answers, S = QᵀQ + 2νI and b = Qᵀa. The user's
    optimal model for ρ = θ† is (S + λI)⁻¹(b + λθ†). Then the gradient of the user's
    loss in ρ is λ(S + λI)⁻¹(Sθ† − b).

    Args:
        queries: [m_n, d] queries of each honest user n.
        answers: [m_n] answers of each honest user.
        target: [d] target θ† of the shared model.
        lam: λ of `l2sq`; the paper's λ is half of it.
        nu: ν ≥ 0, weight decay of every user.

    Returns:
        g, [d].

    Raises:
        Refusal: ν = 0 and the queries of all honest users do not span R^d, so the
            optimal ρ is not unique.
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
    To check an attack, include the attacker as a user with its poisoned examples. If
    the minimum is not unique, the solution with the smallest norm is returned.

    Args:
        queries: [m_n, d] queries of each user n.
        answers: [m_n] answers of each user.
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
        # QR reduces many examples to d + 1 rows; products QᵀQ would lose half of the
        # digits if queries are large
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
    """Convert every user's examples to arrays; raise Refusal if they do not fit."""
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
