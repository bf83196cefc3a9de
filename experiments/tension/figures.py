"""Draw the figures and print the tables of README.md, from results.

python experiments/tension/figures.py            # tables, as Markdown
python experiments/tension/figures.py --draw     # also the pictures
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

import common

from troth.reproduce.store import Store

Rows = dict[tuple[str, str], list[dict]]  # (rule, threat) → a run a seed
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"]
MARKS = "osD^vP"
NAMES = {"shared": "shared model", "personal": "Ditto beside it"}


def load(figure: str) -> Rows:
    """Return all runs of a figure, in the order of its rules."""
    found: Rows = defaultdict(list)
    for run in Store(ROOT).find(f"{figure}/*"):
        rule, _, threat = run["label"].rpartition(", ")
        found[rule, threat].append(run)
    return found


def mean(runs: list[dict], kind: str, key: str) -> float:
    """Return the mean of a number of the summary over seeds."""
    return float(np.mean([run["summary"][kind][key] for run in runs]))


def spread(runs: list[dict], kind: str, key: str) -> float:
    """Return half the range over seeds."""
    values = [run["summary"][kind][key] for run in runs]
    return (max(values) - min(values)) / 2


def parts(rows: Rows, place: int) -> list[str]:
    """Return the distinct rules (0) or threats (1), the mean and the smallest first."""
    order = {"mean": "0"}
    return sorted({key[place] for key in rows}, key=lambda k: order.get(k, k))


def table(
    rows: Rows, columns: dict[str, tuple[str, str, str]], first: str = "defence"
) -> str:
    """Return Markdown with one row per rule; columns are (threat, kind, number)."""
    lines = [f"| {first} | " + " | ".join(columns) + " |"]
    lines.append("|" + "---|" * (len(columns) + 1))
    for rule in parts(rows, 0):
        cells = []
        for threat, kind, key in columns.values():
            runs = rows[rule, threat]
            half = f" ± {spread(runs, kind, key):.3f}" if len(runs) > 1 else ""
            cells.append(f"{mean(runs, kind, key):.3f}{half}")
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def columns(threats: list[str], keys: dict[str, tuple[str, str]]) -> dict:
    """Return every threat with every number."""
    return {
        f"{threat}: {name}" if len(threats) > 1 else name: (threat, *key)
        for threat in threats
        for name, key in keys.items()
    }


BOTH = {"shared": ("shared", "accuracy_mean"), "Ditto": ("personal", "accuracy_mean")}
EVEN = {"shared": ("shared", "accuracy_mean"), "std": ("shared", "accuracy_std")}
EVEN |= {"Ditto": ("personal", "accuracy_mean"), "std ": ("personal", "accuracy_std")}
GOALS = {
    "success on shared": ("shared", "attack_success_mean"),
    "on Ditto": ("personal", "attack_success_mean"),
}


def term(rows: Rows) -> plt.Figure:
    """Draw (a): accuracy of benign clients against the share of malicious clients."""
    figure, axes = plt.subplots(figsize=(5, 3.6))
    threats = sorted(parts(rows, 1), key=lambda t: int(t[:-1]))
    at = [int(t[:-1]) for t in threats]
    for rule, colour, mark in zip(parts(rows, 0), COLOURS, MARKS, strict=False):
        means = [mean(rows[rule, t], "shared", "accuracy_mean") for t in threats]
        half = [spread(rows[rule, t], "shared", "accuracy_mean") for t in threats]
        label = rule.replace("term t", "TERM, t")
        axes.errorbar(
            at, means, half, color=colour, marker=mark, label=label, capsize=2
        )
    own = [mean(rows["mean", t], "personal", "accuracy_mean") for t in threats]
    axes.plot(at, own, "k--", marker="*", markersize=9, label="Ditto beside the mean")
    axes.set(xlabel="hostile clients (%), labels poisoned (A1)", xticks=at)
    axes.set(ylabel="accuracy of benign clients", ylim=(0.4, 1))
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    figure.tight_layout()
    return figure


def defences(rows: Rows) -> plt.Figure:
    """Draw (b): accuracy against its spread over clients, under A1."""
    figure, every = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, sharex=True)
    for axes, threat in zip(every, ("20%", "80%"), strict=True):
        for kind in ("shared", "personal"):
            at = {
                rule: (
                    mean(rows[rule, threat], kind, "accuracy_std"),
                    mean(rows[rule, threat], kind, "accuracy_mean"),
                )
                for rule in parts(rows, 0)
            }
            for rule, point in at.items():
                mark, colour = _style(rule, kind)
                axes.plot(*point, mark, color=colour, ms=10 if mark == "*" else 6)
            if kind == "shared":
                _names(axes, at)
        axes.set_title(f"{threat} hostile (A1)", fontsize=10)
        axes.set(xlabel="standard deviation over benign clients", xlim=(0.01, 0.27))
    every[0].set_ylabel("accuracy of benign clients")
    for label, rule, kind in (
        ("shared model, robust rule", "median", "shared"),
        ("shared model, TERM", "term", "shared"),
        ("Ditto beside each of them", "median", "personal"),
    ):
        mark, colour = _style(rule, kind)
        figure.axes[0].plot([], [], mark, color=colour, label=label)
    figure.legend(frameon=False, fontsize=8, loc="lower center", ncols=3)
    figure.subplots_adjust(bottom=0.19, left=0.07, right=0.99, top=0.93, wspace=0.04)
    return figure


def _style(rule: str, kind: str) -> tuple[str, str]:
    if kind == "personal":
        return "*", COLOURS[4]
    return ("s", COLOURS[2]) if rule.startswith("term") else ("o", COLOURS[0])


def _names(axes: plt.Axes, at: dict[str, tuple[float, float]]) -> None:
    """Draw a column of names on the right, each with a line to its point."""
    order = sorted(at, key=lambda rule: at[rule][1])
    for place, rule in zip(np.linspace(0.03, 0.97, len(order)), order, strict=True):
        line = {"arrowstyle": "-", "color": "0.75", "lw": 0.6, "relpos": (0, 0.5)}
        to = {"xycoords": "data", "textcoords": "axes fraction", "va": "center"}
        axes.annotate(rule, at[rule], (0.76, place), size=7, arrowprops=line, **to)


def bars(rows: Rows, threats: list[str], key: str, label: str) -> plt.Figure:
    """Draw one panel per threat: shared and Ditto for every defense."""
    size = (2.2 + 2.6 * len(threats), 5)
    figure, every = plt.subplots(1, len(threats), figsize=size, sharey=True)
    rules = parts(rows, 0)[::-1]
    place = np.arange(len(rules))
    for axes, threat in zip(np.atleast_1d(every), threats, strict=True):
        for kind, shift, colour in (("shared", 0.2, 0), ("personal", -0.2, 1)):
            values = [mean(rows[rule, threat], kind, key) for rule in rules]
            half = [spread(rows[rule, threat], kind, key) for rule in rules]
            style = {"color": COLOURS[colour], "label": NAMES[kind], "xerr": half}
            axes.barh(place + shift, values, 0.38, **style)
        axes.set_title(threat, fontsize=10)
        axes.set(xlabel=label, xlim=(0, 1.02))
    first = np.atleast_1d(every)[0]
    first.set_yticks(place, rules, fontsize=8)
    handles = first.get_legend_handles_labels()
    figure.legend(*handles, frameon=False, fontsize=8, loc="lower center", ncols=2)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def attacks(rows: Rows) -> plt.Figure:
    """Draw (c): A1, A2, A3 against each defense."""
    return bars(rows, ["A1", "A2", "A3"], "accuracy_mean", "accuracy, benign clients")


def backdoor(rows: Rows) -> plt.Figure:
    """Draw (d): the success rate of the trigger."""
    return bars(rows, ["backdoor"], "attack_success_mean", "attack success")


DRAW: common.Pictures = {
    draw.__name__: lambda draw=draw: draw(load(draw.__name__))
    for draw in (term, defences, attacks, backdoor)
}


def over(runs: list[dict], others: list[dict], kind: str) -> str:
    """Format the difference of Ditto's mean accuracy to another in the same seeds."""
    found = sorted(runs, key=lambda run: run["seed"])
    beside = sorted(others, key=lambda run: run["seed"])
    less = [
        a["summary"]["personal"]["accuracy_mean"] - b["summary"][kind]["accuracy_mean"]
        for a, b in zip(found, beside, strict=True)
    ]
    return f"{np.mean(less):+.3f} ± {(max(less) - min(less)) / 2:.3f}"


def modularity(rows: Rows) -> str:
    """Return (e): every rule alone, Ditto with it, and the gain of each."""
    lams = [threat.removeprefix("A3 λ=") for threat in parts(rows, 1)]
    head = ["rule", "alone"]
    head += [
        f"λ={lam}: {what}"
        for lam in lams
        for what in ("Ditto + rule", "− Ditto", "− rule")
    ]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for rule in parts(rows, 0):
        alone = rows[rule, f"A3 λ={lams[0]}"]
        half = spread(alone, "shared", "accuracy_mean")
        cells = [rule, f"{mean(alone, 'shared', 'accuracy_mean'):.3f} ± {half:.3f}"]
        for lam in lams:
            runs, ditto = rows[rule, f"A3 λ={lam}"], rows["mean", f"A3 λ={lam}"]
            cells.append(f"{mean(runs, 'personal', 'accuracy_mean'):.3f}")
            cells += [over(runs, ditto, "personal"), over(runs, runs, "shared")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables() -> str:
    """Return all tables, as the page has them."""
    shares = ["0%", "20%", "50%", "80%"]
    even = {"0%: std": ("0%", "shared", "accuracy_std")}
    made = {
        "term": table(load("term"), even | columns(shares, BOTH), "rule"),
        "clean": table(load("clean"), columns(["0%"], EVEN)),
        "defences": table(load("defences"), columns(["20%", "80%"], EVEN)),
        "attacks": table(load("attacks"), columns(["A1", "A2", "A3"], BOTH)),
        "backdoor": table(load("backdoor"), columns(["backdoor"], {**GOALS, **BOTH})),
        "modularity": modularity(load("modularity")),
    }
    return "\n\n".join(f"### {name}\n\n{text}" for name, text in made.items())


if __name__ == "__main__":
    common.page(__doc__, ROOT, tables, DRAW)
