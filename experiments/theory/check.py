"""Compare Ditto's theorems with simulated federations: the record `monte_carlo`.

python experiments/theory/check.py              # the tables of README.md
python experiments/theory/check.py --simulate   # 120,000 federations per setting
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from simulation import Case, Tally, least, quartic, tally

from troth import seeding, theory
from troth.reproduce.store import Store

STORE = Store(Path(__file__).parent)
TRIALS, BATCHES = 120_000, 20
FIGURE_1 = [
    Case("Fig. 1", 8, 30, 0.8, 0.1),
    Case("Fig. 1", 16, 30, 0.8, 0.1, 8, 0.5),
]


def settings() -> list[Case]:
    """Return Fig. 1's two settings and five random ones, clean and with adversaries."""
    random, found = seeding.generator(0, "theory.settings"), list(FIGURE_1)
    for i, d in enumerate([1, 1, 2, 3, 5]):
        K, n = int(random.integers(4, 25)), int(random.integers(max(6, d), 41))
        sigma, tau = random.uniform(0.3, 2.0), random.uniform(0.1, 0.6)
        K_a = int(random.integers(1, K // 2 + 1))
        tau_a = tau * random.uniform(2, 6)
        beta = n * random.uniform(0.5, 2) if d > 1 else None
        shape = {"d": d, "beta": beta}
        for hostile, far in ((0, 0.0), (K_a, tau_a)):
            case = Case(f"random {i + 1}", K, n, sigma, tau, hostile, far, **shape)
            found.append(case)
    return found


def best(case: Case) -> float:
    """Return λ* of Theorem 1 or 5, or λ_a* of Theorem 3 or 7."""
    points = case.beta is None
    if case.K_a == 0:
        clean = theory.best_lam_points if points else theory.best_lam_regression
        return clean(case.n, case.sigma, case.tau)
    if points:
        return theory.best_lam_points_attacked(*case.numbers)
    return theory.best_lam_regression_attacked(*case.numbers)


def check(case: Case, index: int) -> dict[str, Any]:
    """Return where mean and variance of the error are least, and their values."""
    lam = best(case)
    random = seeding.generator(0, "theory.trials", index)
    batches = [tally(case, TRIALS // BATCHES, random, lam) for _ in range(BATCHES)]
    whole = Tally(
        *(np.mean([b[i] for b in batches], axis=0) for i in range(2)),
        _pooled(batches),
        np.concatenate([b.at for b in batches]),
    )
    curves = {"within": quartic(whole.within), "pooled": quartic(whole.pooled)}
    each = {
        "mean": [case.lam(b.best) for b in batches],
        "within": [case.lam(least(quartic(b.within))) for b in batches],
        "pooled": [case.lam(least(quartic(b.pooled))) for b in batches],
    }
    found = {"mean": case.lam(whole.best)}
    found |= {name: case.lam(least(curve)) for name, curve in curves.items()}
    a, given = case.pull(lam), (lam, *case.numbers)
    expected = {
        "within": float(theory.variance_within(*given, **case.shape)),
        "pooled": float(theory.variance_pooled(*given, **case.shape)),
    }
    return {
        "case": case._asdict(),
        "trials": TRIALS,
        "lam_theory": lam,
        "lam_fairest_theory": theory.fairest_lam(*case.numbers, **case.shape),
        "lam_found": found,
        "lam_found_se": {k: np.std(v) / BATCHES**0.5 for k, v in each.items()},
        "error_theory": theory.least_error(*case.numbers, **case.shape),
        "error_found": float(whole.at.mean()),
        "error_se": float(whole.at.std() / TRIALS**0.5),
        "variance_theory": expected,
        "variance_found": {k: float(curve(a)) for k, curve in curves.items()},
    }


def _pooled(batches: list[Tally]) -> np.ndarray:
    """Return the covariance over all batches: within them, and of their means."""
    inner = np.mean([b.pooled for b in batches], axis=0)
    means = np.array([b.mean for b in batches])
    return np.asarray(inner + np.cov(means.T, ddof=0))


def tables(rows: list[dict[str, Any]]) -> str:
    """Return Markdown: the mean error, then the variance over clients."""
    lines = [
        "| setting | K | K_a | n | d | λ* by theory | least mean error at | "
        "error at λ*, theory | simulated | off by (s.e.) |",
        "|" + "---|" * 10,
    ]
    for row in rows:
        case, found = row["case"], row["lam_found"]["mean"]
        off = (row["error_found"] - row["error_theory"]) / row["error_se"]
        lines.append(
            f"| {case['name']} | {case['K']} | {case['K_a']} | {case['n']} | "
            f"{case['d']} | {row['lam_theory']:.4f} | {found:.4f} ± "
            f"{row['lam_found_se']['mean']:.4f} | {row['error_theory']:.6f} | "
            f"{row['error_found']:.6f} | {off:+.1f} |"
        )
    lines += [
        "",
        "| setting | K | K_a | Theorem 2, 4, 6 or 8 | least pooled variance at | "
        "least within a federation at | by our formula |",
        "|" + "---|" * 7,
    ]
    for row in rows:
        case, found, off = row["case"], row["lam_found"], row["lam_found_se"]
        lines.append(
            f"| {case['name']} | {case['K']} | {case['K_a']} | {row['lam_theory']:.4f}"
            f" | {found['pooled']:.4f} ± {off['pooled']:.4f} | {found['within']:.4f}"
            f" ± {off['within']:.4f} | {row['lam_fairest_theory']:.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Simulate if --simulate is given, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", action="store_true")
    if parser.parse_args().simulate:
        rows = [check(case, i) for i, case in enumerate(settings())]
        STORE.put("monte_carlo", {"rows": rows})
    print(tables(STORE.records()["monte_carlo"]["rows"]))


if __name__ == "__main__":
    main()
