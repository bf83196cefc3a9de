r"""How fast a user of the coupled federation gets the model that it prefers.

References: farhadkhani2022equivalence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from troth import seeding
from troth.theory._coupled import Distance, Kind, User, minimum
from troth.types import Refusal

_DRAWS = 200_000  # queries that stand for their distribution


class Users(NamedTuple):
    """The federation that a curve is about, and what couples it."""

    honest: int = 1  # users who give more and more examples
    others: int = 4  # users whose data stay, and who prefer the opposite
    fixed: int = 100  # examples of each of these
    d: int = 3  # parameters
    length: float = 2.0  # ‖θ†‖ of every user
    noise: float = 1.0  # σ of the answers of linear regression
    lam: float = 10.0  # λ
    nu: float = 0.1  # ν
    delta: float = 1.0  # of smooth_l2


class Curve(NamedTuple):
    """Distances of what was learnt from what is preferred."""

    examples: np.ndarray  # [k] of each honest user
    distance: np.ndarray  # [k, trials] max_h ‖θ*_h − θ†_h‖


def pac_curve(
    kind: Kind,
    distance: Distance,
    examples: Sequence[int],
    *,
    users: Users = Users(),  # noqa: B008
    trials: int = 20,
    seed: int = 0,
) -> Curve:
    """Local PAC* learning (Definition 1) as a curve: max_h ‖θ*_h − θ†_h‖ over examples.

    Theorems 2 (linear) and 3 (logistic): whatever the other users' data, the distance
    goes to 0 in probability as honest users give more examples. Queries are uniform in
    [−1, 1]^d; answers are qᵀθ† + N(0, σ²), or 1 with probability σ(qᵀθ†) and else −1.
    The whole problem of Eqs. 1 and 5 is solved for every point, with the other users'
    data drawn once. They prefer what is opposite to the mean of the honest ones.

    The others and ν pull with a bounded force (`l2`, `smooth_l2`: at most λ) or one
    that stays bounded (`l2sq`) against a fit that curves like the number of examples I:
    a bias of about 1/I. Answers that are drawn leave an error of about 1/√I, which is
    what remains (`pac_constant`). The proof (Definition 3) has I^{α − 1} with α < 1.

    Args:
        kind: which regression.
        distance: R, as in `regularizers/`: `l2sq` is ½‖ρ − θ‖², so that the paper's λ
            is `lam`/2.
        examples: of each honest user, a point each; 0 leaves it to the others.
        users: how many, what they prefer and how they are coupled.
        trials: draws of the honest users' data; each has its points from one draw.
        seed: of all draws.
    """
    _check(kind, distance, examples, users, trials)
    at, most = users, max(examples)
    random = seeding.generator(seed, "pac")
    drawn = random.normal(size=(at.honest, at.d))
    theta = at.length * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    away = -theta.mean(axis=0)
    away *= at.length / np.linalg.norm(away)
    fixed = [_draw(kind, away, at.fixed, at, random) for _ in range(at.others)]
    found = np.zeros((len(examples), trials))
    for t in range(trials):
        random = seeding.generator(seed, "pac.trial", t)
        honest = [_draw(kind, each, most, at, random) for each in theta]
        for i, m in enumerate(examples):
            held = [User(u.queries[:m], u.answers[:m]) for u in honest] + fixed
            best = minimum(kind, held, distance, at.lam, at.nu, at.delta)
            apart = np.linalg.norm(best.theta[: at.honest] - theta, axis=1)
            found[i, t] = apart.max()
    return Curve(np.asarray(examples), found)


def pac_constant(kind: Kind, theta: np.ndarray, noise: float = 1.0) -> float:
    """The c of √E‖θ* − θ†‖² ≈ c/√I, for one honest user with many examples I.

    Not in the paper: the central limit theorem. c² is the trace of the inverse of what
    an example tells: E[qqᵀ]/σ² = 1/(3σ²) of linear regression, E[σ'(qᵀθ†)qqᵀ] of
    logistic regression (by 200,000 draws), with the queries of `pac_curve`.

    Args:
        kind: which regression.
        theta: θ† [d].
        noise: σ of the answers of linear regression; 0 gives 0.
    """
    theta = np.asarray(theta, np.float64)
    if kind == "linear":
        return noise * math.sqrt(3 * len(theta))
    q = seeding.generator(0, "pac.constant").uniform(-1, 1, (_DRAWS, len(theta)))
    share = expit(q @ theta)
    told = (q * (share * (1 - share))[:, None]).T @ q / _DRAWS
    return math.sqrt(float(np.trace(np.linalg.inv(told))))


def _draw(
    kind: Kind, theta: np.ndarray, m: int, at: Users, random: np.random.Generator
) -> User:
    """An honest data set of m examples."""
    q = random.uniform(-1, 1, (m, at.d))
    if kind == "linear":
        return User(q, q @ theta + at.noise * random.normal(size=m))
    return User(q, np.where(random.uniform(size=m) < expit(q @ theta), 1.0, -1.0))


def _check(
    kind: str, distance: str, examples: Sequence[int], at: Users, trials: int
) -> None:
    for name, value, known in (
        ("kind", kind, ("linear", "logistic")),
        ("distance", distance, ("l2sq", "l2", "smooth_l2")),
    ):
        if value not in known:
            raise Refusal(f"{name} = {value!r} is not one of {', '.join(known)}")
    if trials < 1 or len(examples) == 0 or min(examples) < 0:
        raise Refusal(
            f"examples = {list(examples)} and trials = {trials} must be at least one "
            "number of at least 0, and at least 1"
        )
    if min(at.honest, at.d) < 1 or min(at.others, at.fixed) < 0:
        raise Refusal(
            f"honest = {at.honest} and d = {at.d} must be at least 1, others = "
            f"{at.others} and fixed = {at.fixed} at least 0"
        )
    positive = (at.length, at.lam, at.delta)
    others = (at.noise, at.nu)
    if not all(0 < v < math.inf for v in positive) or not all(
        0 <= v < math.inf for v in others
    ):
        raise Refusal(
            f"length = {at.length}, lam = {at.lam} and delta = {at.delta} must be "
            f"above 0, noise = {at.noise} and nu = {at.nu} at least 0, all finite"
        )
