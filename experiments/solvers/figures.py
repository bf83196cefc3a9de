"""Draw Figures 7–9 of the Ditto paper and print the table, from results.

python experiments/solvers/figures.py            # the table, as Markdown
python experiments/solvers/figures.py --draw     # also the pictures
"""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

import common

from troth.reproduce.store import Store

LAMS = ("0.1", "1.0")
COLOURS = {"0.1": "#0072B2", "1.0": "#E69F00"}
LAST = 400  # rounds of a whole run
FULL = 5000  # at full scale


def load(figure: str) -> dict[str, list[dict]]:
    """Return all runs of a figure by label, one run per seed."""
    found = defaultdict(list)
    for run in Store(ROOT).find(f"{figure}/*"):
        found[run["label"]].append(run)
    return found


def final(runs: list[dict], kind: str = "personal") -> tuple[float, float]:
    """Return benign clients' accuracy by size: mean over seeds, half the range."""
    values = [run["summary"][kind]["accuracy_weighted"] for run in runs]
    return float(np.mean(values)), (max(values) - min(values)) / 2


def along(runs: list[dict], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a curve: rounds, mean over seeds, half the range."""
    each = np.array([run["curve"][name] for run in runs])
    half = (each.max(0) - each.min(0)) / 2
    return np.array(runs[0]["curve"]["round"]), each.mean(0), half


def stops(lam: str) -> dict[int, list[dict]]:
    """Return runs that were stopped early and tuned, by round, and the whole run."""
    found = {
        int(label.split(" at ")[1].split()[0]): runs
        for label, runs in load("stopped").items()
        if f"λ={lam} " in label
    }
    found[LAST] = load("two_stage")[f"two-stage λ={lam}, epochs=20"]
    return dict(sorted(found.items()))


def table() -> str:
    """Return the table of final accuracies."""
    joint, two = load("joint"), load("two_stage")
    lines = ["| | λ = 0.1 | λ = 1 |", "|---|---|---|"]

    def row(name: str, cells: list[tuple[float, float]]) -> None:
        text = " | ".join(f"{mean:.3f} ± {half:.3f}" for mean, half in cells)
        lines.append(f"| {name} | {text} |")

    row("shared model", [final(joint[f"joint λ={lam}"], "shared") for lam in LAMS])
    row("joint", [final(joint[f"joint λ={lam}"]) for lam in LAMS])
    for epochs in (1, 5, 20, 50):
        label = f"epochs={epochs}"
        each = [final(two[f"two-stage λ={lam}, {label}"]) for lam in LAMS]
        row(f"two-stage, {epochs} epochs", each)
    fmtl = load("fmtl")  # Figure 4 of FMTL
    for name, label in (
        ("joint, moving anchor", "joint λ={}, moving anchor"),
        ("two-stage, 30 epochs", "two-stage λ={}, epochs=30"),
        ("fine-tuning, 30 epochs", "fine-tuning, epochs=30"),
    ):
        row(name, [final(fmtl[label.format(lam)]) for lam in LAMS])
    for rounds in stops(LAMS[0]):
        each = [final(stops(lam)[rounds]) for lam in LAMS]
        row(f"stopped at {rounds} rounds, then 20 epochs", each)
    return "\n".join([*lines, "", *full()])


def full() -> list[str]:
    """Return the table of final accuracies at full scale, with those of every seed."""
    joint, tuned = load("full_joint"), load("full_two_stage")
    names = [name.rpartition("=") for name in tuned if name.startswith("fine")]
    epochs = sorted(int(last) for _, _, last in names)
    shared = load("full_shared")["shared"]
    rows = {"shared model": [("shared", shared)] * len(LAMS)}
    rows["joint"] = [("personal", joint[f"joint λ={lam}"]) for lam in LAMS]
    for name, label in (
        ("two-stage", "two-stage λ={}, epochs={}"),
        ("fine-tuning", "fine-tuning, epochs={1}"),
    ):
        for many in epochs:
            each = [("personal", tuned[label.format(lam, many)]) for lam in LAMS]
            rows[f"{name}, {many} epochs"] = each
    lines = ["| at full scale | λ = 0.1 | λ = 1 |", "|---|---|---|"]
    for name, cells in rows.items():
        text = [
            ", ".join(f"{final([run], of)[0]:.3f}" for run in runs)
            for of, runs in cells
        ]
        lines.append(f"| {name} | {' | '.join(text)} |")
    return lines


def figure7(scale: str = "", last: int = LAST) -> plt.Figure:
    """Draw joint against two-stage: accuracy by round, and the end of tuning.

    Args:
        scale: "" or "full_".
        last: Number of rounds.
    """
    figure, every = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axes, lam in zip(every, LAMS, strict=True):
        joint = load(f"{scale}joint")[f"joint λ={lam}"]
        for name, label, colour in (
            ("personal_weighted", "Ditto, joint", "#0072B2"),
            ("shared_weighted", "shared model", "#999999"),
        ):
            at, mean, half = along(joint, name)
            axes.plot(at, mean, color=colour, label=label)
            axes.fill_between(at, mean - half, mean + half, color=colour, alpha=0.2)
        tuned = load(f"{scale}two_stage")
        for name, mark, colour in (
            (f"two-stage λ={lam}", "D", "#D55E00"),
            ("fine-tuning", "s", "#009E73"),
        ):
            ends = [final(runs) for label, runs in tuned.items() if name in label]
            if ends:
                best, half = max(ends)
                label = f"{name.split(' ')[0]}, best number of epochs"
                axes.errorbar(
                    [last], [best], [half], fmt=mark, color=colour, label=label
                )
        axes.set(xlabel="round", title=f"λ = {lam}")
    every[0].set(ylabel="accuracy of benign clients", ylim=(0, 1))
    every[1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    return figure


def figure8() -> plt.Figure:
    """Draw runs that were stopped early and then tuned; none is better than joint."""
    figure, axes = plt.subplots(figsize=(5.4, 3.6))
    for lam in LAMS:
        found = stops(lam)
        ends = np.array([final(runs) for runs in found.values()])
        colour = COLOURS[lam]
        label = f"stopped there, then tuned, λ = {lam}"
        axes.errorbar(list(found), *ends.T, marker="o", color=colour, label=label)
        level, _ = final(load("joint")[f"joint λ={lam}"])
        axes.axhline(level, ls="--", color=colour, label=f"joint, λ = {lam}")
    axes.set(xlabel="round at which the shared model is taken", xscale="log")
    axes.set(ylabel="accuracy of benign clients")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def figure9() -> plt.Figure:
    """Draw what a server could use to stop: training loss and validation accuracy."""
    figure, every = plt.subplots(1, 2, figsize=(9, 3.4))
    found = stops(LAMS[0])
    for axes, score, label in zip(
        every,
        ("train_loss", "valid_accuracy"),
        ("training loss, all clients", "validation accuracy, all clients"),
        strict=True,
    ):
        seen = np.array(
            [[run["pooled"][score] for run in runs] for runs in found.values()]
        )
        for values in seen.T:
            axes.plot(list(found), values, marker="o", ms=4, color="#0072B2", alpha=0.6)
        axes.set(xlabel="round", ylabel=label, xscale="log")
        after = axes.twinx()
        ends = [final(runs)[0] for runs in found.values()]
        after.plot(list(found), ends, "--", color="#D55E00", label="tuned from there")
        after.set_ylim(0.75, 0.95)
        after.tick_params(colors="#D55E00")
    after.legend(frameon=False, fontsize=8, loc="lower left")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    PICTURES = {
        "fig7": figure7,
        "fig7_full": partial(figure7, "full_", FULL),
        "fig8": figure8,
        "fig9": figure9,
    }
    common.page(__doc__, ROOT, table, PICTURES)
