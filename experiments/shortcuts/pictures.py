"""Print the tables of the page beside this, from results, and draw the figures.

python experiments/shortcuts/pictures.py            # tables, as Markdown
python experiments/shortcuts/pictures.py --draw     # and the pictures
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

import common
from reading import curves, load, mean_curve, moment, over
from tables import PARTS, arms, tables
from tune import HALVES, PARTED

COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
ABOVE = {"loc": "upper center", "ncols": 2, "frameon": False, "fontsize": 8}


def draw4() -> plt.Figure:
    """Accuracies of central and federated training."""
    figure, every = plt.subplots(1, 2, figsize=(7.6, 3.2), sharey=True)
    for axes, problem in zip(every, HALVES, strict=True):
        every_arm = arms(problem).items()
        found = {arm: over(runs, "shared") for arm, runs in every_arm if runs}
        place = np.arange(len(found))
        for k, label in enumerate(("biased test data", "conflicting")):
            means = [values[:, k].mean() for values in found.values()]
            half = [values[:, k].std() for values in found.values()]
            style = {"color": COLOURS[k], "label": label, "yerr": half}
            axes.bar(place + 0.4 * k - 0.2, means, 0.38, **style)
        axes.set_xticks(place, [arm.replace(", ", "\n") for arm in found], fontsize=8)
        axes.set(title=problem, ylim=(0, 1))
    every[0].set_ylabel("accuracy")
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.legend(*every[0].get_legend_handles_labels(), **ABOVE)
    return figure


def draw5() -> plt.Figure:
    """Accuracies along fine-tuning, and its first batches."""
    figure, every = plt.subplots(2, 3, figsize=(11, 5.6), sharey="row")
    for row, part in zip(every, ("finetune, early", "finetune"), strict=True):
        for axes, problem in zip(row, PARTED, strict=True):
            for table in curves(problem, part):
                for name, colour in (("accuracy", 0), ("conflicting_accuracy", 1)):
                    line = mean_curve(table, name)
                    axes.plot(table["steps"], line, color=COLOURS[colour], alpha=0.8)
            axes.set(title=problem, xlabel="batches of fine-tuning")
        row[0].set_ylabel("accuracy")
    for label, colour in (("biased test data", 0), ("conflicting", 1)):
        every[0, 0].plot([], [], color=COLOURS[colour], label=label)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.legend(*every[0, 0].get_legend_handles_labels(), **ABOVE)
    return figure


def draw6() -> plt.Figure:
    """Disparity against transferability: along the way, and across clients."""
    figure, every = plt.subplots(2, 2, figsize=(7.6, 6.4))
    for column, problem in enumerate(HALVES):
        for k, table in enumerate(curves(problem, "finetune, early")):
            x, y = mean_curve(table, "change"), mean_curve(table, "disparity")
            every[0, column].plot(x, y, "o-", ms=3, color=COLOURS[k])
        for k, table in enumerate(curves(problem, "finetune")):
            at = {"s": 9, "color": COLOURS[k]}
            points = moment(table, 1.0, "change", "disparity")
            every[1, column].scatter(*points, **at)
        words = "transferability lost, mean, first 40 batches"
        every[0, column].set(title=problem, xlabel=words)
        every[1, column].set_xlabel("transferability lost, a client at the end")
    for axes in every[:, 0]:
        axes.set_ylabel("disparity")
    figure.tight_layout()
    return figure


def draw7(problem: str) -> plt.Figure:
    """Loss disparity and accuracy on x_adv with each part of the method."""
    figure, every = plt.subplots(1, 4, figsize=(13, 3.2), sharey=True)
    for letter, axes, part in zip("abcd", every, PARTS, strict=True):
        other = axes.twinx()
        other.set_ylim(0, 1)
        for table in curves(problem, part):
            gap = mean_curve(table, "loss_disparity")
            axes.plot(table["steps"], gap, color=COLOURS[1], alpha=0.8)
            line = 1 - mean_curve(table, "adv_accuracy")
            other.plot(table["steps"], line, color=COLOURS[0], alpha=0.8)
        axes.set(title=f"({letter}) {part}", xlabel="batches")
    every[0].set_ylabel("loss disparity", color=COLOURS[1])
    other.set_ylabel("transferability", color=COLOURS[0])
    figure.tight_layout()
    return figure


def draw8() -> plt.Figure:
    """Disparity against the share of conflicting examples."""
    figure, axes = plt.subplots(figsize=(4.6, 3.4))
    rows = load("fig8")
    methods = list(dict.fromkeys(label.partition(", ")[0] for label in rows))
    for method, colour in zip(methods, COLOURS, strict=False):
        mine = {float(k.partition(", ")[2]): v for k, v in rows.items() if method in k}
        gaps = [over(mine[x])[:, 0] - over(mine[x])[:, 1] for x in sorted(mine)]
        means, half = [g.mean() for g in gaps], [g.std() for g in gaps]
        axes.errorbar(sorted(mine), means, half, color=colour, label=method, capsize=2)
    axes.set(xlabel="share of conflicting examples", ylabel="disparity")
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


PICTURES: common.Pictures = {
    "fig4": draw4,
    "fig5": draw5,
    "fig6": draw6,
    "fig8": draw8,
    "fig7": lambda: draw7("mnist"),
}


if __name__ == "__main__":
    common.page(__doc__, ROOT, tables, PICTURES, dpi=130)
