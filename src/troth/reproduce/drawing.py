"""Figures of cells: ours, and the paper's points where it prints numbers."""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from troth import files as folder
from troth.reproduce import panels, tables
from troth.reproduce.entry import Entry
from troth.reproduce.judging import Judged

_THREAT = re.compile(r"(A\d) (\d+)%")


def draw(entry: Entry, judged: Sequence[Judged]) -> Figure:
    """Lines against the share of attackers, or means against variances."""
    return (_scatter if entry.form == "scatter" else _lines)(entry, judged)


def save(figure: Figure, stem: Path) -> list[Path]:
    """As PNG and as SVG, each whole or not at all; the same figure, the same bytes."""
    files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    made = []
    with mpl.rc_context({"svg.hashsalt": "troth"}):
        for file, facts in zip(files, ("Software", "Date"), strict=True):
            made.append(io.BytesIO())
            form = file.suffix[1:]
            figure.savefig(made[-1], format=form, metadata={facts: None})
    for file, content in zip(files, made, strict=True):
        with folder.whole(file) as opened:
            opened.write(content.getvalue())
    return files


def trained(judged: Sequence[Judged]) -> Iterator[str]:
    """On what, part by part: the paper's data, and ours, which may stand in."""
    for mine in tables.parts(judged):
        yield tables.title(mine, "the paper prints no points; ")


def _sheet(
    entry: Entry, judged: Sequence[Judged], many: int, share: bool
) -> tuple[Figure, list[Axes]]:
    title = f"{entry.name}: {entry.title}"
    note, more = entry.note, {"sharey": share}
    return panels.sheet(title, many, [*trained(judged)], note, **more)


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


def _lines(entry: Entry, judged: Sequence[Judged]) -> Figure:
    found, handles = _panels(judged), dict[str, Artist]()
    figure, axes = _sheet(entry, judged, len(found), True)
    rows = list(dict.fromkeys(one.cell.row for one in judged))
    for axis, (name, points) in zip(axes, found.items(), strict=True):
        for k, row in enumerate(rows):
            own = [(x, one) for x, one in points if one.cell.row == row]
            mine = sorted(own, key=lambda point: point[0])
            ran = [(x, one.mean) for x, one in mine if one.seeds]
            solid = panels.mark(k) | {"linestyle": "-"}
            (handles[row],) = axis.plot(*_split(ran), **solid, label=row)
            known = [(x, one.theirs.mean) for x, one in mine if one.theirs]
            axis.plot(
                *_split(known), **panels.mark(k, hollow=True) | {"linestyle": ":"}
            )
        titled = _titled(name, [one for _, one in points])
        panels.dress(axis, titled, "attackers, %" if name else "cell")
        if axis.get_subplotspec().is_first_col():  # type: ignore[union-attr]
            axis.set_ylabel("accuracy of benign clients", fontsize=8)
    panels.legend(figure, handles, _meanings(judged, {"linestyle": "-"}, ":"))
    return figure


def _titled(name: str, judged: Sequence[Judged]) -> str:
    """A panel by the paper's name of it, and whether ours are of other data."""
    kinds = {one.cell.federation.kind for one in judged}
    return name if kinds <= {"original"} else f"{name} (ours: other data, see above)"


def _split(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _meanings(
    judged: Sequence[Judged], ours: dict[str, str], dots: str
) -> list[tuple[str, Artist]]:
    """What filled and hollow marks are; only of what there is."""
    found = []
    if any(one.seeds for one in judged):
        found.append(panels.meaning("filled: ours", marker="o", ms=5, **ours))
    if any(one.theirs for one in judged):
        look = {"marker": "o", "mfc": "none", "ms": 6, "linestyle": dots}
        found.append(panels.meaning("hollow: the paper's", **look))
    return found


def _scatter(entry: Entry, judged: Sequence[Judged]) -> Figure:
    """A method has a colour and a mark; a thin line joins ours with the paper's."""
    columns = list(dict.fromkeys(one.cell.column for one in judged))
    figure, axes = _sheet(entry, judged, len(columns), False)
    rows = list(dict.fromkeys(one.cell.row for one in judged))
    for axis, column in zip(axes, columns, strict=True):
        mine = [one for one in judged if one.cell.column == column]
        for one in mine:
            _pair(axis, one, rows.index(one.cell.row))
        panels.dress(axis, _titled(column, mine), "accuracy of benign clients")
    axes[0].set_ylabel("variance over clients", fontsize=8)
    handles = {row: Line2D([], [], **panels.mark(k)) for k, row in enumerate(rows)}
    panels.legend(figure, handles, _meanings(judged, {"linestyle": "none"}, "none"))
    return figure


def _pair(axis: Axes, one: Judged, k: int) -> None:
    """Ours and the paper's of one method."""
    at = []
    if one.seeds:
        at.append((one.mean, one.std**2))
        axis.plot(*at[-1], **panels.mark(k))
    if one.theirs and one.theirs.std is not None:
        at.append((one.theirs.mean, one.theirs.std**2))
        axis.plot(*at[-1], **panels.mark(k, hollow=True))
    if len(at) == 2:
        axis.plot(*_split(at), color=panels.hue(k), lw=0.6, alpha=0.6, zorder=1)
