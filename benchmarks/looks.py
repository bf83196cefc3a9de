"""When to check the votes: mean samples of several plans, and of three other methods.

python benchmarks/looks.py

Ten radii evenly over [0, 3σ], α = .001, tiles of 1,000, over 4,000 simulated inputs
whose Φ⁻¹(p_A) is drawn from three laws, compared with 100,000 fixed samples of each.
Prints the table of docs/explanation/derivations/certify.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special, stats

from troth.certificates import bounds, stopping

N, MORE, TILE, ALPHA, INPUTS = 100_000, 110_000, 1000, 0.001, 4000
RADII = np.linspace(0, 3, 10)
P = stats.norm.cdf(RADII)
NEAR = np.array([0.03, 0.1, 0.33, 40.0])  # alternatives of a bet, in σ beyond a radius


def laws(random: np.random.Generator) -> dict[str, np.ndarray]:
    """Φ⁻¹(p_A) of the inputs."""
    u, low, even = random.random(INPUTS), *random.random((2, INPUTS))
    above = 3.5 + random.exponential(0.7, INPUTS)
    mixed = np.where(u < 0.15, np.log(low) / 2, np.where(u < 0.65, 3.5 * even, above))
    normal = np.where(u < 0.2, -1.0, random.normal(1.5, 1, INPUTS))
    high = random.normal(2.6, 1.05, INPUTS)  # about a CNN on MNIST, σ = .5
    return {"mixed": mixed, "normal": normal, "digits": high}


class Union(stopping.Plan):
    """The same checks, whose error probabilities are added up (union bound)."""

    def lower(self, votes: np.ndarray, k: int) -> np.ndarray:
        """Return the bound of Clopper and Pearson at the level of the check."""
        share = (1 - stopping._LAST) / (len(self.n) - 1)
        share = stopping._LAST if k == len(self.n) - 1 else share
        return bounds.lower(votes, self.n[k], share * self.alpha)


def planned(
    votes: np.ndarray,
    growth: float,
    last: float,
    n: int = N,
    kind: type[stopping.Plan] = stopping.Plan,
) -> stopping.Bounded:
    """Run the library's own code, with another plan."""
    before = stopping._GROWTH, stopping._LAST
    stopping._GROWTH, stopping._LAST = growth, last
    asked = tuple((stats.norm.cdf(np.maximum(RADII, 1e-6)) + 1e-12).tolist())
    plan = kind(*stopping.plan.__wrapped__(n, ALPHA, TILE, True, asked))
    question = stopping.Question(radii=tuple(RADII.tolist()))
    found = stopping.bound(drawn(votes), INPUTS, plan, question, radius)
    stopping._GROWTH, stopping._LAST = before
    return found


def radius(p: np.ndarray) -> np.ndarray:
    """Radii in units of σ."""
    return bounds.radius(p, 1.0, "normal")


def drawn(votes: np.ndarray) -> Callable[[np.ndarray, int, int], np.ndarray]:
    """Votes [m, tiles + 1], summed up, as a source of samples."""

    def draw(on: np.ndarray, first: int, last: int) -> np.ndarray:
        return np.asarray(votes[on, last // TILE] - votes[on, first // TILE])

    return draw


def certified(p: np.ndarray) -> np.ndarray:
    """[m, radii]."""
    return np.asarray((radius(p)[:, None] >= RADII) & (p > 0.5)[:, None])


Wealth = Callable[[np.ndarray, int], np.ndarray]
"""Votes [m, 1] of so many samples → log of a martingale under each p_j, [m, radii]."""


def bets(s: np.ndarray, n: int) -> np.ndarray:
    """A mixture of likelihood ratios against each p_j, of equal weight."""
    q = stats.norm.cdf(RADII + NEAR[:, None])[:, None]  # [alternatives, 1, radii]
    parts = special.xlogy(s, q) + special.xlog1py(n - s, -q)
    mixed = special.logsumexp(parts, axis=0) - np.log(len(NEAR))
    return np.asarray(mixed - s * np.log(P) - (n - s) * np.log1p(-P))


def mixture(s: np.ndarray, n: int) -> np.ndarray:
    """A mixture over all p, Beta(½, ½); it counts only where the share exceeds p_j."""
    mixed = special.betaln(s + 0.5, n - s + 0.5) - special.betaln(0.5, 0.5)
    wealth = mixed - s * np.log(P) - (n - s) * np.log1p(-P)
    return np.where(s / n > P, wealth, -np.inf)


def rejected(votes: np.ndarray, wealth: Wealth) -> tuple[np.ndarray, np.ndarray]:
    """What a martingale proves that is looked at after every tile (Ville), and when.

    A radius is given up as the library does: where the last look would hardly prove it.
    """
    yes, used = np.zeros((INPUTS, len(P)), bool), np.zeros(INPUTS)
    on = np.ones(INPUTS, bool)
    none = np.zeros(0)
    for t in range(1, N // TILE + 1):
        n, s = t * TILE, votes[:, t : t + 1].astype(float)
        yes[on] |= wealth(s[on], n) >= -np.log(ALPHA)
        used[on] = n
        now = stopping.Plan(np.array([n, N]), ALPHA, none, none)
        far = radius(stopping.reach(votes[:, t], 0, now))
        on &= ~(yes | (np.maximum(RADII, 1e-300) > far[:, None])).all(axis=1)
    return np.cumprod(yes, axis=1).astype(bool), used


def main() -> None:
    """Print the table."""
    random = np.random.default_rng(0)
    for name, z in laws(random).items():
        each = random.binomial(TILE, stats.norm.cdf(z)[:, None], (INPUTS, MORE // TILE))
        votes = np.concatenate(
            [np.zeros((INPUTS, 1), int), each.cumsum(axis=1)], axis=1
        )
        fixed = certified(bounds.lower(votes[:, N // TILE], N, ALPHA)).mean(axis=0)

        def tell(what: str, yes: np.ndarray, used: np.ndarray) -> None:
            off = np.abs(yes.mean(axis=0) - fixed).max()  # noqa: B023
            print(f"{name:7} {what:28} {used.mean():8,.0f} {off:.4f}")  # noqa: B023

        for growth, last, n in (
            *((1.1, 0.1, N), (1.1, 0.2, N), (1.1, 0.35, N), (1.1, 0.35, MORE)),
            *((1.1, 0.5, N), (1.05, 0.35, N), (1.2, 0.35, N), (1.5, 0.35, N)),
        ):
            found = planned(votes, growth, last, n)
            what = f"× {growth}, last {last}, {n:,}"
            tell(what, certified(found.p), found.used)
        found = planned(votes, 1.2, 0.5, N, Union)
        tell("union bound, × 1.2, last 0.5", certified(found.p), found.used)
        tell("betting", *rejected(votes, bets))
        tell("mixture", *rejected(votes, mixture))


if __name__ == "__main__":
    main()
