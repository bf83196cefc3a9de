"""Figures of cells: ours, and the paper's points where it prints numbers."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from troth import files as folder
from troth.reproduce import panels, tables
from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged
from troth.reproduce.panels import THEIRS, Head, Line, Panel

_THREAT = re.compile(r"(A\d) (\d+)%")
_NAMES = ("ours", "the paper's")


def draw(entry: Entry, judged: Sequence[Judged]) -> Figure:
    """Draw lines against the share of attackers, or means against variances."""
    head = Head(f"{entry.name}: {entry.title}", [*trained(judged)], entry.note)
    if entry.form == "scatter":
        columns = dict.fromkeys(one.cell.column for one in judged)
        parts = {c: [one for one in judged if one.cell.column == c] for c in columns}
        points = {_titled(name, mine): _points(mine) for name, mine in parts.items()}
        return panels.scatter(head, points, *_NAMES)
    every = [
        Panel(
            _titled(name, [one for _, one in points]),
            "attackers, %" if name else "cell",
            dict(_lines(points)),
            marked=True,
        )
        for name, points in _panels(judged).items()
    ]
    known = any(one.seeds for one in judged), any(one.theirs for one in judged)
    names = (name if any_ else "" for name, any_ in zip(_NAMES, known, strict=True))
    more = panels.meanings(*names)
    return panels.lines(head, every, more, "accuracy of benign clients")


def save(figure: Figure, stem: Path) -> list[Path]:
    """As PNG and as SVG, each whole or not at all; the same figure, the same bytes."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    made = []
    with mpl.rc_context({"svg.hashsalt": "troth"}):
        for file, facts in zip(files, ("Software", "Date"), strict=True):
            made.append(io.BytesIO())
            form = file.suffix[1:]
            figure.savefig(made[-1], format=form, metadata={facts: None})
            figure.set_layout_engine("none")  # both have the layout of the first
    for file, content in zip(files, made, strict=True):
        with folder.whole(file) as opened:
            opened.write(content.getvalue())
    return files


def trained(judged: Sequence[Judged]) -> Iterator[str]:
    """On what, part by part: the paper's data, and ours, which may stand in."""
    for mine in tables.parts(judged):
        yield tables.title(mine, "the paper prints no points; ")


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


def _lines(points: Sequence[tuple[float, Judged]]) -> Iterator[tuple[str, Line]]:
    """Lines of a panel: ours and the paper's, row by row."""
    for row in dict.fromkeys(one.cell.row for _, one in points):
        own = [(x, one) for x, one in points if one.cell.row == row]
        mine = sorted(own, key=lambda point: point[0])
        ours = [(x, one.mean) for x, one in mine if one.seeds]
        theirs = [(x, one.theirs.mean) for x, one in mine if one.theirs]
        for label, line in ((row, ours), (row + THEIRS, theirs)):
            if line:
                yield label, Line(*np.array(line).T)


def _titled(name: str, judged: Sequence[Judged]) -> str:
    """A panel by the paper's name of it, and whether ours are of other data."""
    kinds = {one.cell.federation.kind for one in judged}
    return name if kinds <= {"original"} else f"{name} (ours: other data, see above)"


def _points(judged: Sequence[Judged]) -> tuple[panels.Points, panels.Points]:
    """Mean and variance of each row: ours, and the paper's."""
    ours = {o.cell.row: (o.mean, o.std**2) for o in judged if o.seeds}
    theirs = {
        one.cell.row: (one.theirs.mean, one.theirs.std**2)
        for one in judged
        if one.theirs and one.theirs.std is not None
    }
    return ours, theirs
