"""Draw the curves of the attack chain and print its tables, from the table of results.

python experiments/attack_chain/figures.py            # the tables, as Markdown
python experiments/attack_chain/figures.py --draw     # and the pictures
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

import common

from troth.reproduce.store import Store

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#777777"
PURPLE = "#CC79A7"
RED = "#D55E00"
FORMS = ("gradient", "data")
REGULARIZERS = ("l2sq", "l2", "smooth_l2")


def load(figure: str) -> dict[str, dict[str, Any]]:
    """Return all curves of a figure, by label."""
    return {one["label"]: one for one in Store(ROOT).find(f"{figure}/*")}


def row(label: str, found: dict[str, Any]) -> str:
    """Return the final values of a curve, as cells of a table."""
    share = found["distance"][-1] / found["distance"][0]
    cells = [f"{found['distance'][-1]:.3g} ({share:.1%})"]
    cells += [f"{found[name][-1]:.3f}" for name in ("accuracy", "aimed")]
    cells += [f"{found['own_accuracy'][-1]:.3f}"]
    return f"| {label} | " + " | ".join(cells) + " |"


def chain() -> str:
    """Return the table of Figs. 1, 2, 20, and 17 to 19."""
    lines = [
        "| | distance to target (of the start) | by true labels | by wanted labels | "
        "honest users' own |",
        "|---|---|---|---|---|",
    ]
    for figure in ("fig1", "fig2", "fig20", "network"):
        for label, found in load(figure).items():
            lines.append(row(f"{figure}: {label}", found))
    return "\n".join(lines)


def alone() -> str:
    """Return the table of Fig. 3: the honest user's own model."""
    lines = [
        "| pace | its distance to the target | by true labels | by wanted labels | "
        "seconds |",
        "|---|---|---|---|---|",
    ]
    for label, found in load("fig3").items():
        cells = [f"{found['own_distance'][0]:.3g} → {found['own_distance'][-1]:.3g}"]
        cells += [f"{found[f'own_{n}'][-1]:.3f}" for n in ("accuracy", "aimed")]
        cells += [f"{found['seconds']:.0f} ({found['device']})"]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def reach() -> str:
    """Return the tables of every personalizer with the mean, and of every rule."""
    found = load("reach")
    lines = ["| personalizer | shared model | clients' own |", "|---|---|---|"]
    for label, one in found.items():
        part, name = label.split(", ")
        if part == "personalizer":
            lines.append(f"| {name} | {_cell(one)} | {_own(one)} |")
    lines += ["", "| aggregator | shared model |", "|---|---|"]
    for label, one in found.items():
        part, name = label.split(", ")
        if part == "aggregator":
            lines.append(f"| {name} | {_cell(one)} |")
    return "\n".join(lines)


def _own(found: dict[str, Any]) -> str:
    """Return the accuracy of clients' own models by true and by wanted labels."""
    return f"{found['own_accuracy'][-1]:.2f} / {found['own_aimed'][-1]:.2f}"


def rules() -> str:
    """Return the table of the attack against every R and every rule."""
    found = load("table")
    names = list(dict.fromkeys(label.split(", ")[2] for label in found))
    lines = ["| rule | " + " | ".join(f"{f}, {r}" for f in FORMS for r in REGULARIZERS)]
    lines[0] += " |"
    lines.append("|---" * (1 + len(FORMS) * len(REGULARIZERS)) + "|")
    for rule in [name for name in names if name != "mean"]:
        cells = []
        for form in FORMS:
            for regularizer in REGULARIZERS:
                one = found.get(f"{form}, {regularizer}, {rule}")
                cells.append(_cell(one) if one else "")
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def averaging() -> str:
    """Return the table of the same attack on updates of federated averaging."""
    found = load("table")
    lines = ["| rule | shared | Ditto's own | local |", "|---|---|---|---|"]
    labels = [label for label in found if label.startswith("fedavg")]
    for rule in dict.fromkeys(label.split(", ")[2] for label in labels):
        cells = []
        for personalizer in ("none", "ditto", "local"):
            one = found.get(f"fedavg, {personalizer}, {rule}")
            kind = "" if personalizer == "none" else "own_"
            cells.append("" if one is None else _cell(one, kind))
        lines.append(f"| {rule} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


TABLE1 = {  # of the paper: E and Σ, of a linear model and of a network
    "idle": ("idle users' models", (0.52, 0.80, 0.55, 0.79)),
    "own": ("active user's model", (0.58, 0.80, 0.56, 0.79)),
    "shared": ("shared model", (0.55, 0.80, 0.58, 0.79)),
}
SUMS = [(model, fit) for model in ("linear", "MLP") for fit in ("mean", "sum")]
LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)


def sums() -> str:
    """Return Table 1, ours next to the paper's, and the ends of Figs. 4–13."""
    found = load("sums")
    lines = ["| λ = 1 | " + " | ".join(f"{m}, {f}" for m, f in SUMS) + " |"]
    lines.append("|---" * 5 + "|")
    for name, (said, theirs) in TABLE1.items():
        ours = [found[f"{m}, {f}, λ=1.0"][name][-1] for m, f in SUMS]
        cells = [f"{a:.2f} ({b:.2f})" for a, b in zip(ours, theirs, strict=True)]
        lines.append(f"| {said} | " + " | ".join(cells) + " |")
    lines += ["", lines[0].replace("λ = 1", "shared model, λ"), lines[1]]
    for lam in LAMBDAS:
        ours = [found[f"{m}, {f}, λ={lam}"]["shared"][-1] for m, f in SUMS]
        lines.append(f"| {lam:g} | " + " | ".join(f"{a:.2f}" for a in ours) + " |")
    lines += ["", "| linear, mean, λ = 1 | idle | active | shared |", "|---" * 4 + "|"]
    for label, one in load("draws").items():
        cells = [f"{one[name][-1]:.2f}" for name in TABLE1]
        lines.append(f"| {label.removeprefix('mean, ')} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(found: dict[str, Any], kind: str = "") -> str:
    """Return accuracy by true and by wanted labels, and the distance that is left."""
    share = found["distance"][-1] / found["distance"][0]
    true, aimed = (found[f"{kind}{n}"][-1] for n in ("accuracy", "aimed"))
    return f"{true:.2f} / {aimed:.2f} ({share:.0%})"


def curves(figure: str, name: str, labels: dict[str, str], colours: list[str]) -> None:
    """Draw accuracy and distance during training."""
    found = load(figure)
    canvas, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.2))
    for (label, said), colour in zip(labels.items(), colours, strict=True):
        if label not in found:
            continue
        one = found[label]
        left.plot(one["round"], one[name], color=colour, label=said)
        what = "own_distance" if name.startswith("own") else "distance"
        right.plot(one["round"], one[what], color=colour, label=said)
    left.set(xlabel="round", ylim=(0, 1))
    left.set_title(
        "accuracy by true labels" if name == "accuracy" else "accuracy by wanted labels"
    )
    right.set(xlabel="round")
    right.set_title("distance to the target")
    right.set_ylim(bottom=0)
    right.legend(frameon=False, fontsize=8)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    canvas.tight_layout()
    return canvas


def ten() -> plt.Figure:
    """Draw Figs. 4–13: one panel per network and λ; dashed lines are the mean."""
    found = load("sums")
    canvas, axes = plt.subplots(2, 5, figsize=(11, 4.4), sharex=True, sharey=True)
    whose = {"shared": BLUE, "idle": ORANGE, "own": GREEN}
    for line, model in zip(axes, ("linear", "MLP"), strict=True):
        for axis, lam in zip(line, LAMBDAS, strict=True):
            for fit, dash in (("sum", "-"), ("mean", "--")):
                one = found[f"{model}, {fit}, λ={lam}"]
                for name, colour in whose.items():
                    axis.plot(one["round"], one[name], dash, color=colour, lw=1.2)
            axis.set_title(f"{model}, λ = {lam:g}", fontsize=9)
            axis.set_ylim(0, 0.9)
            axis.spines[["top", "right"]].set_visible(False)
    said = {"shared": "shared", "idle": "idle", "own": "active"}
    handles = [plt.Line2D([], [], color=c, label=said[n]) for n, c in whose.items()]
    handles += [
        plt.Line2D([], [], color=GREY, ls=dash, label=fit)
        for fit, dash in (("sum", "-"), ("mean", "--"))
    ]
    axes[0, 0].legend(handles=handles, frameon=False, fontsize=7, loc="lower right")
    for axis in axes[1]:
        axis.set_xlabel("epoch", fontsize=8)
    canvas.tight_layout()
    return canvas


AUTHORS = {
    "l2sq, adam": "ℓ2², the authors' server",
    "l2sq, sgd": "ℓ2², gradient steps",
    "l2, adam": "ℓ2",
    "smooth_l2, adam": "smooth ℓ2",
}
FORM = {"gradient": "reports", "model": "a frozen model"}
POISON = {
    **FORM,
    "data, 2000, as the authors": "2,000 examples, starting at θ♠",
    "data, 2000, from the shared start": "the same, starting at w⁰",
    "data, 2000, with enough weight": "2,000 that count enough, from w⁰",
}
PACES = {"a part of the way": "0.3 of the way a round", "a tenth of the way": "0.1"}
BOX = {
    **FORM,
    "data clipped to [0, 1], 100000, as the authors": "100,000 clipped images, from θ♠",
    "data in [0, 1], 100000, as the authors": "100,000 images in [0, 1], from θ♠",
    "data in [0, 1], 2000, starting at θ♠": "2,000 images in [0, 1], from θ♠",
    "data in [0, 1], 2000": "the same, starting at w⁰",
}
NETWORK = {**FORM, "data, 100000": "100,000 embeddings"}
PICTURES: common.Pictures = {
    "fig1": lambda: curves("fig1", "accuracy", AUTHORS, [BLUE, GREEN, ORANGE, GREY]),
    "fig2": lambda: curves("fig2", "aimed", POISON, [BLUE, GREEN, ORANGE, GREY, RED]),
    "fig3": lambda: curves("fig3", "own_aimed", PACES, [BLUE, ORANGE]),
    "fig20": lambda: curves(
        "fig20", "aimed", BOX, [BLUE, GREEN, RED, PURPLE, ORANGE, GREY]
    ),
    "network": lambda: curves("network", "aimed", NETWORK, [BLUE, GREEN, ORANGE]),
    "sums": ten,
}


def tables() -> str:
    """Return all tables."""
    parts = (chain(), alone(), rules(), averaging(), reach(), sums())
    return "\n\n".join(parts)


if __name__ == "__main__":
    common.page(__doc__, ROOT, tables, PICTURES, dpi=110)
