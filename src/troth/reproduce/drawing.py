"""Figures: ours, and the paper's points where it prints numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_THREAT = re.compile(r"(A\d) (\d+)%")


def draw(entry: Entry, judged: Sequence[Judged]) -> Figure:
    """Lines against the share of attackers, or means against variances."""
    figure = Figure(figsize=(11, 4.2), dpi=130, layout="constrained")
    figure.suptitle(f"{entry.name}: {entry.title}", fontsize=10)
    if entry.form == "scatter":
        _scatter(figure, judged)
    else:
        _lines(figure, judged)
    return figure


def save(figure: Figure, stem: Path) -> list[Path]:
    """As PNG and as SVG; the same figure gives the same bytes."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    figure.savefig(files[0], metadata={"Software": None})
    figure.savefig(files[1], metadata={"Date": None})
    return files


def _panels(judged: Sequence[Judged]) -> dict[str, list[tuple[float, Judged]]]:
    """Panel → its points: an attack and the share of attackers; clean is in each."""
    found: dict[str, list[tuple[float, Judged]]] = {}
    several = len({one.cell.part for one in judged}) > 1
    for one in judged:
        threat = _THREAT.fullmatch(one.cell.column)
        if threat:
            name = f"{one.cell.part}, {threat[1]}" if several else threat[1]
            found.setdefault(name, []).append((float(threat[2]), one))
    for one in judged:
        if one.cell.column == "clean":
            for name, points in found.items():
                if not several or name.startswith(f"{one.cell.part},"):
                    points.append((0.0, one))
    return found or {"": [(float(k), one) for k, one in enumerate(judged)]}


def _lines(figure: Figure, judged: Sequence[Judged]) -> None:
    panels = _panels(judged)
    axes: Any = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    rows = list(dict.fromkeys(one.cell.row for one in judged))
    for axis, (name, points) in zip(axes, panels.items(), strict=True):
        for k, row in enumerate(rows):
            colour = COLOURS[k % len(COLOURS)]
            own = [(x, one) for x, one in points if one.cell.row == row]
            mine = sorted(own, key=lambda point: point[0])
            ran = [(x, one.mean) for x, one in mine if one.seeds]
            axis.plot(*_split(ran), "o-", color=colour, ms=4, label=row)
            known = [(x, one.theirs.mean) for x, one in mine if one.theirs]
            axis.plot(*_split(known), "s:", color=colour, ms=6, mfc="none")
        axis.set_title(name, fontsize=9)
        axis.set_xlabel("attackers, %" if name else "cell")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy of benign clients")
    axes[-1].legend(fontsize=7, title="ours; hollow: the paper's")


def _split(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _scatter(figure: Figure, judged: Sequence[Judged]) -> None:
    columns = list(dict.fromkeys(one.cell.column for one in judged))
    axes: Any = figure.subplots(1, len(columns), squeeze=False)[0]
    rows = list(dict.fromkeys(one.cell.row for one in judged))
    for axis, column in zip(axes, columns, strict=True):
        for one in (one for one in judged if one.cell.column == column):
            colour = COLOURS[rows.index(one.cell.row) % len(COLOURS)]
            if one.seeds:
                axis.plot(one.mean, one.std**2, "o", color=colour, ms=5)
                axis.annotate(one.cell.row, (one.mean, one.std**2), fontsize=6)
            if one.theirs and one.theirs.std is not None:
                at = one.theirs.mean, one.theirs.std**2
                axis.plot(*at, "s", color=colour, ms=6, mfc="none")
        axis.set_title(f"{column}; hollow: the paper's", fontsize=9)
        axis.set_xlabel("accuracy of benign clients")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("variance over clients")
