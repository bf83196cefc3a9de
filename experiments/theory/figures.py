"""Draw Figs. 1 and 2 of the Ditto paper: lines by theory, marks by simulation.

python experiments/theory/figures.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from check import FIGURE_1, best
from numpy.polynomial import Polynomial
from simulation import Case, quartic, tally

from troth import seeding, theory
from troth.reproduce.store import Store

ROOT = Path(__file__).parent
BLUE, ORANGE, GREEN, PINK, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00"
FINE = np.r_[np.linspace(0, 1, 40), np.geomspace(1, 200, 100)]
GRID = np.r_[np.arange(0, 3, 0.2), np.arange(3, 10, 0.5), np.arange(10, 201, 10)]
TRIALS_1, TRIALS_2 = 20_000, 5_000


def figure_1() -> dict[str, Any]:
    """Draw mean error and its spread over clients against λ; clean and adversarial."""
    plot, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True, layout="constrained")
    titles = ["clean: K = 8", "adversarial: K = 16, of which 8 with τ$_a$ = 0.5"]
    kept: dict[str, Any] = {"lam": GRID.tolist(), "trials": TRIALS_1}
    kept |= {"fine": FINE.tolist(), "panels": []}
    for i, (case, title) in enumerate(zip(FIGURE_1, titles, strict=True)):
        found = _curves(case, i)
        told = {"title": title, "case": case._asdict(), **found}
        kept["panels"].append(told | {"theory": _theory(case), "best": best(case)})
        if case.K_a:
            kept["panels"][-1]["fairest"] = theory.fairest_lam(*case.numbers)
        _errors(axes[0, i], case, found)
        _spreads(axes[1, i], case, found)
        axes[0, i].set_title(title)
        axes[1, i].set_xlabel("λ")
    axes[0, 0].set_ylabel("test error ‖w$_k$ − v$_k$‖² of benign clients")
    axes[1, 0].set_ylabel("its standard deviation over clients")
    plot.savefig(ROOT / "fig1.png", dpi=130)
    return kept


def _curves(case: Case, index: int) -> dict[str, list[float]]:
    """Return simulated mean and standard deviations, on the authors' grid of λ."""
    random = seeding.generator(0, "theory.figure1", index)
    found = tally(case, TRIALS_1, random, best(case))
    a = np.array([case.pull(lam) for lam in GRID])
    each = {
        "error": Polynomial(found.mean)(a),
        "std_within": np.sqrt(quartic(found.within)(a)),
        "std_pooled": np.sqrt(quartic(found.pooled)(a)),
    }
    return {name: values.tolist() for name, values in each.items()}


def _theory(case: Case) -> dict[str, list[float]]:
    """Return the same by the closed forms, on the fine grid."""
    each = {
        "error": theory.error(FINE, *case.numbers),
        "std_within": np.sqrt(theory.variance_within(FINE, *case.numbers)),
        "std_pooled": np.sqrt(theory.variance_pooled(FINE, *case.numbers)),
    }
    return {name: np.asarray(values).tolist() for name, values in each.items()}


def _errors(axis: plt.Axes, case: Case, found: dict[str, list[float]]) -> None:
    error, std = np.array(found["error"]), np.array(found["std_within"])
    band = std / np.sqrt(8)  # as the authors draw it
    axis.fill_between(GRID, error - band, error + band, color=BLUE, alpha=0.15, lw=0)
    axis.plot(FINE, theory.error(FINE, *case.numbers), color=BLUE, label="theory")
    axis.plot(GRID, error, "o", color=BLUE, ms=4, label="simulated; band: std / √8")
    _mark(axis, best(case), RED, "λ* = {:.3f}, Theorem " + ("7" if case.K_a else "5"))
    _scale(axis)


def _spreads(axis: plt.Axes, case: Case, found: dict[str, list[float]]) -> None:
    lines: list[tuple[str, str, str, Callable[..., np.ndarray]]] = [
        ("within", "within a federation", ORANGE, theory.variance_within),
        ("pooled", "pooled over federations", GREEN, theory.variance_pooled),
    ]
    for name, label, colour, formula in lines:
        curve = np.sqrt(formula(FINE, *case.numbers))
        axis.plot(FINE, curve, color=colour, label=label)
        axis.plot(GRID, found[f"std_{name}"], "s", color=colour, ms=4)
    claim = "8" if case.K_a else "6"
    _mark(axis, best(case), RED, "least by Theorem " + claim + ": λ = {:.3f}")
    if case.K_a:
        fairest = theory.fairest_lam(*case.numbers)
        _mark(axis, fairest, PINK, "least within a federation: λ = {:.3f}", "--")
    _scale(axis)


def _mark(axis: plt.Axes, lam: float, colour: str, text: str, style: str = "-") -> None:
    axis.axvline(lam, color=colour, lw=1.2, ls=style, label=text.format(lam))


def _scale(axis: plt.Axes) -> None:
    axis.set_xscale("symlog", linthresh=1, linscale=0.6)
    ticks = [0, 0.5, 1, 2, 5, 10, 50, 200]
    axis.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axis.minorticks_off()
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)


PANELS = {
    "clean: K = 20, n = 20, σ = 1": (20, 20, 1.0, 0, 0.0),
    "adversarial as in the paper:\nK = 10, 3 with τ$_a$ = 0.1": (10, 10, 0.5, 3, 0.1),
    "adversarial by Definition 3:\nK = 10, 3 with τ$_a$ = 1": (10, 10, 0.5, 3, 1.0),
}


def figure_2() -> dict[str, Any]:
    """Draw the error of local, shared and Ditto models, and λ*, against 1/τ."""
    plot, axes = plt.subplots(
        2,
        3,
        figsize=(12, 6.5),
        sharex=True,
        sharey="row",
        layout="constrained",
        height_ratios=[2, 1],
    )
    tau = 1 / np.arange(2, 12.5, 0.5)
    kept: dict[str, Any] = {"tau": tau.tolist(), "trials": TRIALS_2, "panels": []}
    for i, (title, (K, n, sigma, K_a, tau_a)) in enumerate(PANELS.items()):
        cases = [Case(title, K, n, sigma, float(t), K_a, tau_a) for t in tau]
        found = _relatedness(axes[0, i], cases, i)
        lams = [best(case) for case in cases]
        kept["panels"].append({"title": title, **found, "best": lams})
        axes[0, i].set_title(title, fontsize=10)
        axes[1, i].plot(1 / tau, lams, color=BLUE)
        axes[1, i].set_xlabel("relatedness of clients, 1/τ")
        axes[1, i].grid(alpha=0.25)
    axes[0, 0].set_ylabel("test error ‖w$_k$ − v$_k$‖² of benign clients")
    axes[1, 0].set_ylabel("λ* by theory")
    axes[0, 1].text(
        10.05, axes[0, 1].get_ylim()[0], " τ$_a$ > τ", fontsize=8, va="bottom"
    )
    axes[0, 1].axvline(10, color="grey", lw=0.8, ls=":")
    plot.savefig(ROOT / "fig2.png", dpi=130)
    return kept


def _relatedness(axis: plt.Axes, cases: list[Case], panel: int) -> dict[str, Any]:
    """Draw three models: lines by theory, marks by simulation."""
    kinds = [("local", GREEN, "o"), ("shared", ORANGE, "s"), ("Ditto, λ*", BLUE, "D")]
    kept: dict[str, Any] = {name: [] for name, _, _ in kinds}
    kept["theory"] = {}
    for j, case in enumerate(cases):
        random = seeding.generator(0, "theory.figure2", 100 * panel + j)
        curve = Polynomial(tally(case, TRIALS_2, random, best(case)).mean)
        for (name, _, _), a in zip(kinds, (0, 1, case.pull(best(case))), strict=True):
            kept[name].append(float(curve(a)))
    x = [1 / case.tau for case in cases]
    for name, colour, mark in kinds:
        lams = [{"local": 0.0, "shared": np.inf}.get(name, best(c)) for c in cases]
        pairs = zip(lams, cases, strict=True)
        line = [float(theory.error(lam, *case.numbers)) for lam, case in pairs]
        kept["theory"][name] = line
        axis.plot(x, line, color=colour)
        axis.plot(x, kept[name], mark, color=colour, ms=4, label=name)
    axis.set_yscale("log")
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8, frameon=False)
    return kept


def main() -> None:
    """Draw both figures, and print the numbers in them."""
    found = {"figure 1": figure_1(), "figure 2": figure_2()}
    Store(ROOT).put("figures", found)


if __name__ == "__main__":
    main()
