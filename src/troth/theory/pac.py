r"""Simulate how fast a user of a coupled federation learns its preferred model.

Each user n has queries q (inputs), answers a (targets) and a local model θ_n. The
distance R(ρ, θ_n) to a global model ρ couples the local models. Equations and theorems
are those of Farhadkhani et al. (2022), *An Equivalence Between Data Poisoning and
Byzantine Gradient Attacks*.

References: farhadkhani2022equivalence.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import expit

from troth import seeding
from troth.types import Refusal

Kind = Literal["linear", "logistic"]
Distance = Literal["l2sq", "l2", "smooth_l2"]

_STEPS = 200  # largest number of Newton steps
_SHARPER = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)  # δ, to approach l2


class User(NamedTuple):
    """The data of one user."""

    queries: np.ndarray  # [m, d]; m may be 0
    answers: np.ndarray  # [m] numbers, or −1 and 1


class Minimum(NamedTuple):
    """The models that minimize the loss of the whole federation."""

    rho: np.ndarray  # [d] the global model
    theta: np.ndarray  # [n, d] the users' models


_Slopes = tuple[float, np.ndarray, np.ndarray]  # loss, gradient, Hessian


class _Problem(NamedTuple):
    kind: Kind
    users: Sequence[User]
    lam: float
    nu: float
    delta: float  # δ of smooth_l2; 0: l2sq

    def slopes(self, z: np.ndarray, way: np.ndarray) -> _Slopes:
        """Return loss, gradient and Hessian [(n + 1)d, (n + 1)d] at z = (ρ, θ_1, …).

        `way` holds the direction of the pull between ρ and every θ_n (see `_newton`).
        """
        n, d = len(self.users), z.shape[1]
        g, h = np.zeros_like(z), np.zeros((n + 1, d, n + 1, d))
        loss = 0.0
        for k, user in enumerate(self.users, start=1):
            fit, ridge = _fit(self.kind, user, z[k]), self.nu * float(z[k] @ z[k])
            pull = _pull(self.lam, self.delta, z[k] - z[0], way[k - 1])
            loss += fit[0] + ridge + pull[0]
            g[k] = fit[1] + 2 * self.nu * z[k] + pull[1]
            g[0] -= pull[1]
            h[k, :, k] = fit[2] + 2 * self.nu * np.eye(d) + pull[2]
            h[0, :, 0] += pull[2]
            h[0, :, k] = h[k, :, 0] = -pull[2]
        return loss, g, h.reshape((n + 1) * d, (n + 1) * d)

    def ways(self, z: np.ndarray, step: np.ndarray, way: np.ndarray) -> np.ndarray:
        """Return the directions of all pulls after a step, to first order.

        A direction is u/√(δ² + ‖u‖²) with u = θ_n − ρ.
        """
        away, moved = z[1:] - z[0], step[1:] - step[0]
        far = np.sqrt(self.delta**2 + (away**2).sum(axis=1, keepdims=True))
        along = (away * moved).sum(axis=1, keepdims=True) / far
        new = (away + moved - way * along) / far
        return np.asarray(new / np.maximum(1, np.linalg.norm(new, axis=1))[:, None])


def _fit(kind: Kind, user: User, theta: np.ndarray) -> _Slopes:
    """Return loss, gradient and Hessian of a user's data.

    The loss is ½Σ(θᵀq − a)² (linear, Theorem 2) or −Σ ln σ(a·θᵀq) (logistic,
    Theorem 3).
    """
    q, a = user
    if kind == "linear":
        left = q @ theta - a
        return 0.5 * float(left @ left), q.T @ left, q.T @ q
    margin = a * (q @ theta)
    missed = expit(-margin)
    bend = (q * (missed * (1 - missed))[:, None]).T @ q
    return float(np.logaddexp(0, -margin).sum()), -(q.T @ (a * missed)), bend


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
    """Minimize Σ_n [ν‖θ_n‖² + Σ ℓ(θ_n, x)] + λΣ_n R(ρ, θ_n) (Eqs. 1 and 5).

    R is one of the regularizers `l2sq`, `l2` and `smooth_l2`. `l2` has no gradient at
    θ_n = ρ. So it is replaced by `smooth_l2`, with δ decreasing to 1e-7. This changes
    the minimum by about 1e-7.

    Args:
        kind: linear or logistic regression.
        users: the data of every user.
        distance: R; `l2sq` is ½‖ρ − θ_n‖².
        lam: λ, strength of the coupling.
        nu: ν, strength of the ℓ2 penalty.
        delta: δ of `smooth_l2`.

    Returns:
        The global model ρ and the users' models θ_n.

    Raises:
        Refusal: there is no unique minimum, or it was not found.
    """
    z = np.zeros((len(users) + 1, users[0].queries.shape[1]))
    way = np.zeros_like(z[1:])
    for at in {"l2sq": (0.0,), "smooth_l2": (delta,), "l2": _SHARPER}[distance]:
        z, way = _newton(_Problem(kind, users, lam, nu, at), z, way)
    return Minimum(z[0], z[1:])


def _newton(
    problem: _Problem, z: np.ndarray, way: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Minimize by Newton's method; halve a step until the loss decreases enough."""
    # The direction of every pull is a separate unknown (Chan, Golub and Mulet, 1999).
    # Otherwise, with small δ, Newton's steps would jump over θ_n = ρ.
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
                return z, way  # rounding errors prevent a better solution
        z, way = z + length * step, new
        loss, g, h = after
    raise Refusal(f"no minimum was found in {_STEPS} steps; rescale the queries")


def _solve(h: np.ndarray, g: np.ndarray) -> np.ndarray:
    try:
        return -np.linalg.solve(h, g.ravel()).reshape(g.shape)
    except np.linalg.LinAlgError:
        raise Refusal(
            "the data of these users have no unique best models; give more examples, "
            "or set nu above 0"
        ) from None


_DRAWS = 200_000  # number of random queries that estimate an expectation


class Users(NamedTuple):
    """The federation of `pac_curve`: its users and how they are coupled."""

    honest: int = 1  # number of honest users, whose number of examples varies
    others: int = 4  # number of other users, who prefer the opposite model
    fixed: int = 100  # number of examples of each of the other users
    d: int = 3  # number of parameters
    length: float = 2.0  # norm ‖θ†‖ of every user's preferred model
    noise: float = 1.0  # σ of the answers of linear regression
    lam: float = 10.0  # λ, strength of the coupling
    nu: float = 0.1  # ν, strength of the ℓ2 penalty
    delta: float = 1.0  # δ of smooth_l2


class Curve(NamedTuple):
    """Distances between the learned and the preferred models of honest users."""

    examples: np.ndarray  # [k] number of examples of each honest user
    distance: np.ndarray  # [k, trials] largest distance over honest users


def pac_curve(
    kind: Kind,
    distance: Distance,
    examples: Sequence[int],
    *,
    users: Users = Users(),  # noqa: B008
    trials: int = 20,
    seed: int = 0,
) -> Curve:
    """Simulate how near honest users' learned models come to their preferred models.

    An honest user h prefers a model θ†_h and learns a model θ*_h. The result is
    max_h ‖θ*_h − θ†_h‖ for several numbers of examples. By Theorems 2 (linear) and 3
    (logistic), it goes to 0 in probability as honest users have more examples, whatever
    the other users' data are. The paper calls this local PAC* learning (Definition 1).

    Queries q are uniform in [−1, 1]^d. Linear answers are qᵀθ† plus noise N(0, σ²).
    Logistic answers are 1 with probability 1/(1 + exp(−qᵀθ†)), and otherwise −1. The
    loss of the whole federation (Eqs. 1 and 5) is minimized for every point. The other
    users' data are drawn once. Their preferred model is opposite to the mean of the
    honest users' ones.

    Two forces pull θ*_h away from the user's data: the coupling (with `l2` and
    `smooth_l2` at most λ), and the penalty ν. They stay bounded as the number of
    examples I grows, but the curvature of the data's loss grows like I. So they cause a
    bias of about 1/I. The random answers cause an error of about 1/√I, which dominates
    (`pac_constant`). The paper's proof (Definition 3) has I^{α − 1} with α < 1.

    Args:
        kind: linear or logistic regression.
        distance: the regularizer R of the same name. `l2sq` is ½‖ρ − θ‖², so the
            paper's λ is half of `users.lam`.
        examples: numbers of examples of each honest user; each gives one point of the
            curve. With 0, only the coupling determines the user's model.
        users: the federation.
        trials: number of random data sets of the honest users. The points of a trial
            use the first examples of the same data set.
        seed: seed of all random numbers.

    Returns:
        The distance for every number of examples and every trial.

    Example:
        >>> curve = pac_curve("linear", "l2sq", [10, 1000], trials=3)
        >>> few, many = curve.distance.mean(axis=1)
        >>> bool(many < few)
        True
    """
    _check(kind, distance, examples, users, trials)
    at, most = users, max(examples)
    random = seeding.generator(seed, "pac")
    drawn = random.normal(size=(at.honest, at.d))
    theta = at.length * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    away = -theta.mean(axis=0)
    away *= at.length / np.linalg.norm(away)
    fixed = [_data(kind, away, at.fixed, at, random) for _ in range(at.others)]
    apart = np.zeros((len(examples), trials))
    for t in range(trials):
        random = seeding.generator(seed, "pac.trial", t)
        honest = [_data(kind, each, most, at, random) for each in theta]
        for i, m in enumerate(examples):
            held = [User(u.queries[:m], u.answers[:m]) for u in honest] + fixed
            best = minimum(kind, held, distance, at.lam, at.nu, at.delta)
            each = np.linalg.norm(best.theta[: at.honest] - theta, axis=1)
            apart[i, t] = each.max()
    return Curve(np.asarray(examples), apart)


def pac_constant(kind: Kind, theta: np.ndarray, noise: float = 1.0) -> float:
    """Return the constant c of the error √E‖θ* − θ†‖² ≈ c/√I of an honest user.

    The approximation holds for a large number of examples I. It follows from the
    central limit theorem and is not in the paper. c² is the trace of the inverse Fisher
    information of one example, with the queries of `pac_curve`. For linear regression,
    the information is E[qqᵀ]/σ², which is the identity divided by 3σ². For logistic
    regression, it is E[s(1 − s)qqᵀ] with s = 1/(1 + exp(−qᵀθ†)), and is estimated from
    200,000 random queries.

    Args:
        kind: linear or logistic regression.
        theta: [d] preferred model θ†.
        noise: σ of the answers of linear regression; 0 gives 0.

    Returns:
        c > 0; 0 without noise.

    Example:
        >>> round(pac_constant("linear", np.array([1.0, 1.0, 0.0]), noise=2.0), 2)
        6.0
    """
    theta = np.asarray(theta, np.float64)
    if kind == "linear":
        return noise * math.sqrt(3 * len(theta))
    q = seeding.generator(0, "pac.constant").uniform(-1, 1, (_DRAWS, len(theta)))
    share = expit(q @ theta)
    information = (q * (share * (1 - share))[:, None]).T @ q / _DRAWS
    return math.sqrt(float(np.trace(np.linalg.inv(information))))


def _data(
    kind: Kind, theta: np.ndarray, m: int, at: Users, random: np.random.Generator
) -> User:
    """Draw m examples of a user who prefers the model `theta`."""
    q = random.uniform(-1, 1, (m, at.d))
    if kind == "linear":
        return User(q, q @ theta + at.noise * random.normal(size=m))
    return User(q, np.where(random.uniform(size=m) < expit(q @ theta), 1.0, -1.0))


def _check(
    kind: str, distance: str, examples: Sequence[int], at: Users, trials: int
) -> None:
    for name, word, known in (
        ("kind", kind, get_args(Kind)),
        ("distance", distance, get_args(Distance)),
    ):
        if word not in known:
            raise Refusal(f"{name} = {word!r} is not one of {', '.join(known)}")
    least = {"honest": 1, "d": 1, "trials": 1, "others": 0, "fixed": 0}
    least |= {"noise": 0, "nu": 0}
    if not len(examples) or min(examples) < 0:
        raise Refusal(f"examples = {list(examples)} must be numbers of at least 0")
    for name, value in (at._asdict() | {"trials": trials}).items():
        if name in least and not least[name] <= value < math.inf:
            raise Refusal(f"{name} = {value} must be finite and at least {least[name]}")
        if name not in least and not 0 < value < math.inf:
            raise Refusal(f"{name} = {value} must be finite and above 0")
