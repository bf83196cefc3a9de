"""Print the tables of README.md and draw its picture, from results.

    python experiments/personalizers/tables.py            # tables, as Markdown
    python experiments/personalizers/tables.py --draw     # also the picture

A cell without results is a dash. A cell with fewer than three seeds says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import rankdata, spearmanr

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

import common
from choose import METHODS, chosen, label, problems, ready, trained

from troth.reproduce.store import Store

SEEDS = range(3)
NAMES = {"mnist": "MNIST by writer", "celeba": "CelebA", "fashion": "Fashion-MNIST"}
PAPER = {  # Ditto's Table 3: FEMNIST and CelebA, clean; the same with 50 % A1
    "global": (0.804, 0.911, 0.727, 0.538),
    "local": (0.628, 0.692, 0.627, 0.682),
    "plain finetuning": (0.815, 0.912, 0.734, 0.721),
    "L2SGD": (0.817, 0.899, 0.732, 0.725),
    "EWC": (0.810, 0.910, 0.756, 0.642),
    "SKL": (0.820, 0.915, 0.752, 0.708),
    "Per-FedAvg (HF)": (0.827, 0.907, 0.604, 0.756),
    "mapper": (0.792, 0.773, 0.726, 0.704),
    "APFL": (0.811, 0.911, 0.750, 0.710),
    "Ditto": (0.836, 0.914, 0.767, 0.721),
}
OURS = (("mnist", "clean"), ("celeba", "clean"), ("mnist", "A1 50%"))
OURS += (("celeba", "A1 50%"),)
"""What stands in for the columns of the paper's table, in its order."""
Summary = dict[str, dict[str, float]]


def found(figure: str, name: str) -> list[Summary]:
    """Return the summaries of a run, one per seed that has results."""
    every = (Store(ROOT).get(f"{figure}/{name}, seed {seed}") for seed in SEEDS)
    return [run["summary"] for run in every if run]


def runs(data: str, threat: str, method: str) -> list[Summary]:
    """Return a method's runs with the chosen options; none before all are chosen."""
    if not ready(data, threat):
        return []
    part = chosen(data, threat, method)
    return found(data, f"{label(method, part)}, {threat}")


def over(summaries: list[Summary], kind: str, key: str) -> list[float]:
    """Return one number of the summary, for each seed."""
    return [summary[kind][key] for summary in summaries]


def mean(summaries: list[Summary], kind: str, key: str = "accuracy_mean") -> float:
    """Return the mean over seeds."""
    return float(np.mean(over(summaries, kind, key)))


def half(summaries: list[Summary], kind: str) -> float:
    """Return half the range of the mean accuracy over seeds."""
    values = over(summaries, kind, "accuracy_mean")
    return (max(values) - min(values)) / 2


def accuracy(summaries: list[Summary], kind: str = "personal") -> str:
    """Format mean (standard deviation over clients) and half the range over seeds."""
    if not summaries:
        return "–"
    std, few = mean(summaries, kind, "accuracy_std"), len(summaries)
    said = f"{mean(summaries, kind):.3f} ({std:.2f})"
    said += f" ± {half(summaries, kind):.3f}" if few > 1 else ""
    return said if few == len(SEEDS) else f"{said}, {few} of {len(SEEDS)} seeds"


def beyond(summaries: list[Summary], others: list[Summary]) -> str:
    """Format the difference of mean accuracy to another method in the same seeds."""
    if len(summaries) != len(others) or not summaries:
        return "–"
    values = [over(each, "personal", "accuracy_mean") for each in (summaries, others)]
    less = np.subtract(*values)
    return f"{less.mean():+.3f} ± {np.ptp(less) / 2:.3f}"


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def standins() -> str:
    """Return Table 3: every method, clean and with half of the clients malicious."""
    where = [(data, threat) for data, threat in problems() if data != "fashion"]
    head = ["method", *(f"{NAMES[data]}, {threat}" for data, threat in where)]
    rows = ([m, *(accuracy(runs(*at, m)) for at in where)] for m in METHODS)
    return table(head, rows)


def orders() -> str:
    """Return the rank of each method of the paper's table, here and in the paper."""
    head = ["place, here / in the paper", "MNIST by writer / FEMNIST, clean"]
    head += ["CelebA, clean", "MNIST by writer / FEMNIST, A1 50%", "CelebA, A1 50%"]
    columns, last = [], ["rank correlation (Spearman)"]
    for k, where in enumerate(OURS):
        each = [runs(*where, method) for method in PAPER]
        if not all(each):
            columns.append(["–"] * len(PAPER))
            last.append("–")
            continue
        here = [-mean(one, "personal") for one in each]
        there = [-row[k] for row in PAPER.values()]
        places = zip(*(rankdata(v, "min") for v in (here, there)), strict=True)
        columns.append([f"{int(a)} / {int(b)}" for a, b in places])
        last.append(f"{spearmanr(here, there).statistic:.2f}")
    rows = [list(row) for row in zip(PAPER, *columns, strict=True)]
    return table(head, [*rows, last])


def replaced() -> str:
    """Return Fashion-MNIST, clean and under model replacement."""
    head = ["method", "clean", "A3 20%", "lost", "A3: − local", "worst tenth, A3"]
    head += ["shared, A3"]
    alone = runs("fashion", "A3 20%", "local")

    def row(method: str) -> list[str]:
        clean, hit = (runs("fashion", t, method) for t in ("clean", "A3 20%"))
        if not (clean and hit):
            return [method, accuracy(clean), accuracy(hit), *"––––"]
        cells = [accuracy(clean), accuracy(hit)]
        cells.append(f"{mean(clean, 'personal') - mean(hit, 'personal'):.3f}")
        cells.append(beyond(hit, alone))
        cells.append(f"{mean(hit, 'personal', 'accuracy_worst10'):.3f}")
        cells.append(f"{mean(hit, 'shared'):.3f}")
        return [method, *cells]

    return table(head, map(row, METHODS))


def tied() -> str:
    """Return the test accuracy of every option under model replacement, in seed 0."""
    head = ["method", "options: accuracy, A3 20%, seed 0"]

    def row(method: str) -> list[str]:
        files = {
            label("", part).strip(): trained("fashion", "A3 20%", method, part)
            for part in METHODS[method]
        }
        said = [f"{name}: {tested(file):.3f}" for name, file in files.items()]
        return [method, "; ".join(said)]

    many = (method for method, parts in METHODS.items() if len(parts) > 1)
    return table(head, map(row, many))


def tested(summary: Summary) -> float:
    """Return the mean test accuracy of a run."""
    return summary["personal"]["accuracy_mean"]


def grids() -> str:
    """Return validation accuracy of all options in seed 0, the chosen ones in bold."""
    where = list(problems())
    head = ["method and options", *(f"{NAMES[d]}, {threat}" for d, threat in where)]

    def cell(data: str, threat: str, method: str, part: dict[str, Any]) -> str:
        summary = trained(data, threat, method, part)
        if summary is None:
            return "–"
        said = f"{summary['valid']['personal']['accuracy_mean']:.3f}"
        best = ready(data, threat) and chosen(data, threat, method) == part
        return f"**{said}**" if best else said

    def row(method: str, part: dict[str, Any]) -> list[str]:
        return [label(method, part), *(cell(*at, method, part) for at in where)]

    return table(head, (row(m, part) for m, parts in METHODS.items() for part in parts))


def newcomers() -> str:
    """Return accuracy of writers who never took part, by number of examples."""
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


def asked() -> str:
    """Return accuracy of local training, by the number of rounds with the client."""
    edges = (0, 1, 3, 6, 9, 12, 20, 40, 10**9)
    head = ["rounds that asked a client", "MNIST by writer: clients", "accuracy"]
    head += ["Fashion-MNIST: clients", "accuracy"]
    seen = Store(ROOT).records()["asked"]

    def row(low: int, high: int) -> list[str]:
        name = f"{low} to {high - 1}" if high < 10**9 else f"{low} or more"
        cells = [name if high - low > 1 else str(low)]
        for data in ("mnist", "fashion"):
            rounds, each = (np.array(seen[data][key]) for key in ("asked", "accuracy"))
            here = (rounds >= low) & (rounds < high)
            cells += [str(here.sum()), f"{each[here].mean():.3f}" if here.any() else ""]
        return cells

    return table(head, (row(*pair) for pair in pairwise(edges)))


def robust() -> plt.Figure:
    """Draw Fashion-MNIST: clean against A3, and the accuracy of each option."""
    both = {m: [runs("fashion", t, m) for t in ("clean", "A3 20%")] for m in METHODS}
    there = [m for m, pair in both.items() if all(pair)]
    order = sorted(there, key=lambda m: mean(both[m][1], "personal"))
    place = np.arange(len(order))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.8), sharey=True)
    ends = np.array([[mean(runs_, "personal") for runs_ in both[m]] for m in order])
    left.hlines(place, *np.sort(ends, axis=1).T, color="0.7", lw=1)
    for k, (colour, mark, text) in enumerate(
        (("#0072B2", "o", "clean"), ("#D55E00", "D", "A3, 20 % hostile"))
    ):
        halves = [half(both[m][k], "personal") for m in order]
        style = {"fmt": mark, "color": colour, "label": text, "ms": 5, "capsize": 2}
        left.errorbar(ends[:, k], place, xerr=halves, **style)
    alone = mean(both["local"][1], "personal")
    left.axvline(alone, color="0.5", ls="--", lw=1, label="local under A3")
    left.set(xlim=(0.8, 0.93), title="chosen on validation data, three seeds")
    at = order.index("global")
    text = f"◂ {ends[at, 1]:.2f} under A3"
    left.annotate(text, (0.802, at + 0.2), color="#D55E00", size=8)
    _options(right, order)
    left.set_yticks(place, order, fontsize=9)
    for axes in (left, right):
        axes.set_xlabel("accuracy of benign clients")
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.title.set_fontsize(10)
    right.plot([], [], "D", color="#D55E00", mfc="white", label="value not chosen")
    style = {"frameon": False, "fontsize": 8, "loc": "lower center", "ncols": 4}
    figure.legend(**style)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    return figure


def _options(axes: plt.Axes, order: list[str]) -> None:
    """Draw a point for every option of a grid; the chosen one is full."""
    for at, method in enumerate(order):
        best = chosen("fashion", "A3 20%", method)
        for part in sorted(METHODS[method], key=lambda part: part == best):
            value = tested(trained("fashion", "A3 20%", method, part))
            fill = "#D55E00" if part == best else "white"
            axes.plot(value, at, "D", ms=5, color="#D55E00", mfc=fill)
    axes.set(xlim=(-0.03, 1), title="A3, every value of the grid, seed 0")


TABLES: dict[str, Callable[[], str]] = {
    "Table 3 on substitute data sets": standins,
    "Order of the methods": orders,
    "How often a client takes part": asked,
    "Fashion-MNIST under model replacement": replaced,
    "Every option under model replacement": tied,
    "Newcomers": newcomers,
    "Chosen options": grids,
}


def tables() -> str:
    """Return all tables, as the page has them."""
    return "\n\n".join(f"### {name}\n\n{made()}" for name, made in TABLES.items())


if __name__ == "__main__":
    common.page(__doc__, ROOT, tables, {"robust": robust})
