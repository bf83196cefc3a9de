"""Print the tables of the page beside this, and draw its picture, from `results/`.

    python experiments/personalizers/tables.py            # tables, as Markdown
    python experiments/personalizers/tables.py --draw     # and the picture

A cell whose runs are not there yet is a dash; one with fewer seeds than three says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent
sys.path.append(str(ROOT))

from choose import METHODS, chosen, label, problems, ready, trained  # noqa: E402

SEEDS = range(3)
NAMES = {"mnist": "MNIST by writer", "celeba": "CelebA", "fashion": "Fashion-MNIST"}
Summary = dict[str, dict[str, float]]


def found(figure: str, name: str) -> list[Summary]:
    """The summaries of a run, one a seed that is there."""
    files = (ROOT / "results" / figure / f"{name}, seed {seed}.json" for seed in SEEDS)
    return [json.loads(file.read_text())["summary"] for file in files if file.exists()]


def runs(data: str, threat: str, method: str) -> list[Summary]:
    """Those of a method with the options that were chosen; none before all are."""
    if not ready(data, threat):
        return []
    part = chosen(data, threat, method)
    return found(data, f"{label(method, part)}, {threat}")


def over(summaries: list[Summary], kind: str, key: str) -> list[float]:
    """A number of the summary, one a seed."""
    return [summary[kind][key] for summary in summaries]


def mean(summaries: list[Summary], kind: str, key: str = "accuracy_mean") -> float:
    """Over seeds."""
    return float(np.mean(over(summaries, kind, key)))


def half(summaries: list[Summary], kind: str) -> float:
    """Half the range of the mean accuracy over seeds."""
    values = over(summaries, kind, "accuracy_mean")
    return (max(values) - min(values)) / 2


def accuracy(summaries: list[Summary], kind: str = "personal") -> str:
    """Mean (standard deviation over clients), and half the range over seeds."""
    if not summaries:
        return "–"
    std = mean(summaries, kind, "accuracy_std")
    said = f"{mean(summaries, kind):.3f} ({std:.2f}) ± {half(summaries, kind):.3f}"
    few = len(summaries)
    return said if few == len(SEEDS) else f"{said}, {few} seed{'s' * (few > 1)}"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def standins() -> str:
    """Table 3's shape: every method, clean and with half of the clients hostile."""
    where = [(data, threat) for data, threat in problems() if data != "fashion"]
    head = ["method", *(f"{NAMES[data]}, {threat}" for data, threat in where)]
    rows = ([m, *(accuracy(runs(*at, m)) for at in where)] for m in METHODS)
    return table(head, rows)


def replaced() -> str:
    """Fashion-MNIST, clean and under model replacement."""
    head = ["method", "clean", "A3 20%", "lost", "worst tenth, A3"]
    head += ["shared, clean", "shared, A3"]

    def row(method: str) -> list[str]:
        clean, hit = (runs("fashion", t, method) for t in ("clean", "A3 20%"))
        if not (clean and hit):
            return [method, accuracy(clean), accuracy(hit), *"––––"]
        cells = [accuracy(clean), accuracy(hit)]
        cells.append(f"{mean(clean, 'personal') - mean(hit, 'personal'):.3f}")
        cells.append(f"{mean(hit, 'personal', 'accuracy_worst10'):.3f}")
        cells += [f"{mean(each, 'shared'):.3f}" for each in (clean, hit)]
        return [method, *cells]

    return table(head, map(row, METHODS))


def grids() -> str:
    """What was chosen from: validation accuracy in seed 0, the chosen one in bold."""
    where = list(problems())
    head = ["method and options", *(f"{NAMES[d]}, {threat}" for d, threat in where)]

    def cell(data: str, threat: str, method: str, part: dict[str, Any]) -> str:
        file = trained(data, threat, method, part)
        if not file.exists():
            return "–"
        summary: Summary = json.loads(file.read_text())["summary"]
        said = f"{summary['valid']['personal']['accuracy_mean']:.3f}"
        best = ready(data, threat) and chosen(data, threat, method) == part
        return f"**{said}**" if best else said

    def row(method: str, part: dict[str, Any]) -> list[str]:
        return [label(method, part), *(cell(*at, method, part) for at in where)]

    return table(head, (row(m, part) for m, parts in METHODS.items() for part in parts))


def newcomers() -> str:
    """Writers who never took part, by how many examples they train on."""
    head = ["method", *(f"{many} examples" for many in ("5", "20", "all"))]
    head += ["w, no training", "members"]

    def row(method: str) -> list[str]:
        each = [found("newcomers", f"{method}, {many}") for many in head[1:4]]
        cells = [accuracy(one, "newcomers") for one in each]
        last = each[-1]
        for kind in ("newcomers_shared", "personal"):
            cells.append(f"{mean(last, kind):.3f}" if last else "–")
        return [method, *cells]

    return table(head, map(row, METHODS))


def robust() -> plt.Figure:
    """Every method on Fashion-MNIST: clean, under A3, and the w that it trained."""
    hit = {m: runs("fashion", "A3 20%", m) for m in METHODS}
    clean = {m: runs("fashion", "clean", m) for m in METHODS}
    there = [m for m in METHODS if hit[m] and clean[m]]
    order = sorted(there, key=lambda m: mean(hit[m], "personal"))
    place = np.arange(len(order))
    figure, axes = plt.subplots(figsize=(6.4, 4.6))
    for colour, mark, text, rows, kind in (
        ("#999999", "x", "its shared model, A3 20 %", hit, "shared"),
        ("#0072B2", "o", "clean", clean, "personal"),
        ("#D55E00", "D", "A3 20 %", hit, "personal"),
    ):
        means = [mean(rows[m], kind) for m in order]
        halves = [half(rows[m], kind) for m in order]
        style = {"fmt": mark, "color": colour, "label": text, "ms": 5, "capsize": 2}
        axes.errorbar(means, place, xerr=halves, **style)
    axes.set_yticks(place, order, fontsize=9)
    axes.set(xlabel="accuracy of benign clients", xlim=(0, 1))
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="lower center", ncols=3)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


TABLES: dict[str, Callable[[], str]] = {
    "Table 3 on stand-ins": standins,
    "Fashion-MNIST under model replacement": replaced,
    "Newcomers": newcomers,
    "What was chosen": grids,
}


def tables() -> str:
    """All of them, as the page has them."""
    return "\n\n".join(f"### {name}\n\n{made()}" for name, made in TABLES.items())


def main() -> None:
    """Tables to the screen; the picture to a file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draw", action="store_true")
    if parser.parse_args().draw:
        robust().savefig(ROOT / "robust.png", dpi=150)
    print(tables())


if __name__ == "__main__":
    main()
