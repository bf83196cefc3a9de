"""Draw certified accuracy over the radius, and print the tables, from results.

    python experiments/certificates/figures.py            # the tables, as Markdown
    python experiments/certificates/figures.py --draw     # also the pictures

Runs without a result are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

import adaptive
import common
import findings
import found
import machines
from found import (
    CHANGES,
    CLIENTS,
    FIGURES,
    LAMBDAS,
    RULES,
    Line,
    alone,
    left,
    load,
    mixed,
    together,
)

HUES = {"local": "#5a9367", "federated": "#e08e45", "personalized": "#3d7ea6"}
SHADES = dict(zip(LAMBDAS, ("#08306b", "#2171b5", "#6baed6", "#5a9367"), strict=True))
MARKS = dict(zip(RULES, "os", strict=True))
WHOSE = {"shared": "#e08e45", "finetune": "#3d7ea6", "ditto": "#8e5572"}


def three(
    figure: str, label: str, data: str, change: str, clients: int = 10
) -> dict[str, Line]:
    """Return the three models that every panel compares."""
    found = {
        "local": alone(data, change, clients),
        "federated": load(figure, label, "shared"),
        "personalized": load(figure, label),
    }
    return {name: line for name, line in found.items() if line is not None}


def panel(axes: Axes, lines: dict[str, Line], hues: dict[str, str], title: str) -> None:
    """Draw the mean over clients, with a band from the lowest to the highest."""
    for name, line in lines.items():
        curve, hue = line.curve, hues[name]
        axes.plot(curve["radii"], curve["mean"], color=hue, label=name, lw=1.8)
        band = curve["min"], curve["max"]
        axes.fill_between(curve["radii"], *band, color=hue, alpha=0.15, lw=0)
    dress(axes, lines, title)


def dress(axes: Axes, lines: dict[str, Line], title: str) -> None:
    """Set the title, limits and unit of a panel."""
    unit = next((line.run["certified"]["unit"] for line in lines.values()), "")
    axes.set(ylim=(0, 1), xlabel=f"radius ({unit})")
    axes.set_xlim(left=0)
    axes.set_title(title, size=9, loc="left")
    axes.grid(color="#e3e8ec", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def sheet(rows: int, columns: int) -> tuple[plt.Figure, np.ndarray]:
    """Return a figure with a grid of panels."""
    size = 3.1 * columns, 2.5 * rows + 0.3
    return plt.subplots(
        rows, columns, figsize=size, sharey=True, squeeze=False, layout="constrained"
    )


def legend(axes: Axes, **how: Any) -> None:
    """Draw a legend with every name once, if there are any names."""
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    if once:
        names = dict(frameon=False, fontsize=7, title_fontsize=7)
        axes.legend(once.values(), once.keys(), **names, **how)


def finished(figure: plt.Figure, every: np.ndarray) -> plt.Figure:
    """Put a legend into the panel with most lines, and label the axes at the left."""
    most = max(every.flat, key=lambda axes: len(axes.get_legend_handles_labels()[0]))
    legend(most, loc="lower left")
    for axes in every[:, 0]:
        axes.set_ylabel("certified accuracy")
    return figure


def clients() -> plt.Figure:
    """Draw Figures 1 and 6: local training is worse the fewer data a client has."""
    figure, every = sheet(2, len(CLIENTS))
    for row, change in zip(every, ("rotation", "translation"), strict=True):
        for axes, n in zip(row, CLIENTS, strict=True):
            label = f"{change}, {n} clients, federated"
            lines = three("mnist_clients", label, "mnist", change, n)
            panel(axes, lines, HUES, f"MNIST, {change}, {n} clients")
    return finished(figure, every)


def each_client() -> plt.Figure:
    """Draw Figures 8 and 9: the spread over clients."""
    figure, every = sheet(2, 2)
    for row, n in zip(every, (4, 10), strict=True):
        label = f"rotation, {n} clients, federated"
        lines = three("mnist_clients", label, "mnist", "rotation", n)
        for axes, name in zip(row, ("local", "personalized"), strict=True):
            if name in lines:
                a = lines[name].clients
                radii = lines[name].curve["radii"]
                axes.plot(radii, a.T, color=HUES[name], lw=1)
            dress(axes, lines, f"MNIST, rotation, {n} clients, {name}")
    every[0, 0].set_ylabel("certified accuracy")
    return figure


def nominal() -> plt.Figure:
    """Draw Figures 2, 4 and 7: only the personalizer trains for the change."""
    rows = [("mnist", 10), ("mnist", 100), ("cifar10", 10)]
    figure, every = sheet(len(rows), len(CHANGES))
    for row, (data, n) in zip(every, rows, strict=True):
        for axes, change in zip(row, CHANGES, strict=True):
            where, label = f"{data}_nominal", change
            if n == 100:
                where, label = f"{data}_clients", f"{change}, 100 clients, nominal"
            lines = three(where, label, data, change, n)
            title = f"{findings.SETS[data]}, {n}: nominal → {change}"
            panel(axes, lines, HUES, title)
    return finished(figure, every)


def other() -> plt.Figure:
    """Draw Figure 3 (affine, then another change) and CIFAR-10 of Figure 1."""
    figure, every = sheet(1, 3)
    for axes, change in zip(every[0], ("rotation", "translation"), strict=False):
        lines = three("mnist_affine", change, "mnist", change)
        panel(axes, lines, HUES, f"MNIST, affine → {change}, 10 clients")
    lines = three("cifar10_federated", "rotation", "cifar10", "rotation")
    panel(every[0, 2], lines, HUES, "CIFAR-10, rotation, 10 clients")
    return finished(figure, every)


def mixture() -> plt.Figure:
    """Draw Figures 5 and 10: curves by λ, and the average certified radius."""
    rows = [*(("mnist", change) for change in CHANGES), ("cifar10", "rotation")]
    figure, every = plt.subplots(
        len(rows), 2, figsize=(6.6, 2.5 * len(rows)), layout="constrained"
    )
    for (left_, right), (data, change) in zip(every, rows, strict=True):
        lines = mixed(data, change)
        panel(left_, lines, SHADES, f"{findings.SETS[data]}, {change}")
        left_.set_ylabel("certified accuracy")
        areas = [line.curve["acr"] for line in lines.values()]
        right.plot([float(lam) for lam in lines], areas, "o-", color="#2171b5")
        everyone = together(data, change)
        if everyone is not None:
            level = everyone.curve["acr"]
            right.axhline(level, ls="--", color=HUES["federated"], label="federated")
        right.set_title("average certified radius", size=9, loc="left")
        right.margins(y=0.15)
        right.set(xlabel="λ")
        right.set_ylim(bottom=0)
        right.grid(color="#e3e8ec", lw=0.6)
        right.spines[["top", "right"]].set_visible(False)
    legend(every[0, 0], title="λ")
    legend(every[0, 1])
    return figure


def hostile() -> plt.Figure:
    """Draw radius against accuracy under poisoning, as shares of those without.

    Below the diagonal, poisoning has cost more radius than accuracy. A1 is hollow, A3
    filled.
    """
    figure, every = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
    for axes, change in zip(every, ("noise", "rotation"), strict=True):
        for threat, rule, name, accuracy, radius in left(change):
            style = {"marker": MARKS[rule], "color": WHOSE[name], "ms": 7}
            if threat == "A1":
                style |= {"mfc": "none", "ms": 10}
            label = f"{name}, {rule}, {threat}"
            axes.plot(accuracy, radius, ls="", **style, label=label)
        axes.plot([0, 1.05], [0, 1.05], color="#999999", lw=0.8, zorder=0)
        axes.set(xlim=(0, 1.1), ylim=(0, 1.1), title=f"MNIST, {change}")
        axes.set(xlabel="accuracy, of that without an adversary")
        axes.grid(color="#e3e8ec", lw=0.6)
    every[0].set_ylabel("average certified radius, likewise")
    legend(every[0])
    return figure


HEAD = ("run", "model", "accuracy", "at 0", "at the middle", "its std", "ACR")
HEAD += ("ACR of the right", "abstains", "samples")


def down(radius: float | None) -> str:
    """Round a radius down, so that it is never larger than the proven one."""
    return "–" if radius is None else f"{np.floor(1000 * radius) / 1000:.3f}"


def table(figure: str) -> str:
    """Return a table with one row per run and model."""
    rows = []
    for run in found.STORE.find(f"{figure}/*, seed 0"):
        for model in run["certified"]["models"]:
            line = Line(run, model)
            c = line.curve
            middle = len(c["radii"]) // 2
            shares = [line.accuracy, c["mean"][0], c["mean"][middle], c["std"][middle]]
            words = [f"{share:.3f}" for share in shares]
            words += [down(c["acr"]), down(c["acr_right"]), f"{c['abstained']:.3f}"]
            rows.append([run["label"], model, *words, f"{c['used']:,.0f}"])
    return common.markdown(HEAD, rows) if rows else ""


PICTURES: common.Pictures = {
    "clients": clients,
    "each_client": each_client,
    "nominal": nominal,
    "other": other,
    "mixture": mixture,
    "hostile": hostile,
}


def tables() -> str:
    """Return all tables, as the page has them."""
    made = {"Findings": findings.table(), "Malicious clients": findings.poisoned()}
    made |= {"Readings of the mixture": findings.readings()}
    made |= {"Mixtures with the authors' settings": findings.settings()}
    made |= {"Adaptive samples": adaptive.table(), "Two machines": machines.table()}
    made |= {figure: table(figure) for figure in FIGURES}
    return "\n\n".join(f"### {name}\n\n{text}" for name, text in made.items() if text)


if __name__ == "__main__":
    common.page(__doc__, ROOT, tables, PICTURES)
