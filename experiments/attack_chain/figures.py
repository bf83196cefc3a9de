"""Draw the curves of the attack chain and print its tables, from `results/`.

python experiments/attack_chain/figures.py            # the tables, as Markdown
python experiments/attack_chain/figures.py --draw     # and the pictures
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parent
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#777777"
FORMS = ("gradient", "data")
REGULARIZERS = ("l2sq", "l2", "smooth_l2")


def load(figure: str) -> dict[str, dict[str, Any]]:
    """All curves of a figure, by label."""
    files = sorted((ROOT / "results" / figure).glob("*.json"))
    found = [json.loads(file.read_text()) for file in files]
    return {one["label"]: one for one in found}


def row(label: str, found: dict[str, Any]) -> str:
    """Where a curve ends."""
    share = found["distance"][-1] / found["distance"][0]
    cells = [f"{found['distance'][-1]:.3g} ({share:.1%})"]
    cells += [f"{found[name][-1]:.3f}" for name in ("accuracy", "aimed")]
    cells += [f"{found['own_accuracy'][-1]:.3f}"]
    return f"| {label} | " + " | ".join(cells) + " |"


def chain() -> str:
    """Figs. 1, 2, 3 and 20."""
    lines = [
        "| | distance to target (of the start) | by true labels | by wanted labels | "
        "honest users' own |",
        "|---|---|---|---|---|",
    ]
    for figure in ("fig1", "fig2", "fig20", "fig3"):
        for label, found in load(figure).items():
            lines.append(row(f"{figure}: {label}", found))
    return "\n".join(lines)


def rules() -> str:
    """The attack against every R and every rule: ρ by wanted labels, distance."""
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
    """The same attack on updates of federated averaging."""
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


def _cell(found: dict[str, Any], kind: str = "") -> str:
    """Accuracy by true and by wanted labels, and the distance left."""
    share = found["distance"][-1] / found["distance"][0]
    true, aimed = (found[f"{kind}{n}"][-1] for n in ("accuracy", "aimed"))
    return f"{true:.2f} / {aimed:.2f} ({share:.0%})"


def curves(figure: str, name: str, labels: dict[str, str], colours: list[str]) -> None:
    """Accuracy and distance along training."""
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
    canvas.savefig(ROOT / f"{figure}.png", dpi=110)
    plt.close(canvas)


def draw() -> None:
    """Every picture."""
    first = {
        "l2sq, adam": "ℓ2², the authors' server",
        "l2sq, sgd": "ℓ2², gradient steps",
        "l2, adam": "ℓ2",
        "smooth_l2, adam": "smooth ℓ2",
    }
    curves("fig1", "accuracy", first, [BLUE, GREEN, ORANGE, GREY])
    second = {
        "gradient": "reports",
        "model": "a frozen model",
        "data, 2000, as the authors": "2,000 examples, starting at θ♠",
        "data, 2000, from the shared start": "the same, starting at w⁰",
        "data, 2000, with enough weight": "2,000 that count enough, from w⁰",
    }
    curves("fig2", "aimed", second, [BLUE, GREEN, ORANGE, GREY, "#D55E00"])
    curves("fig3", "own_aimed", {"a part of the way": "the honest user's own"}, [BLUE])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true")
    if parser.parse_args().draw:
        draw()
    for part in (chain(), rules(), averaging()):
        print(part, end="\n\n")


if __name__ == "__main__":
    main()
