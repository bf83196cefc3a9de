"""Draw figures with several panels of lines, points or bars, and one legend."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Colors of Okabe and Ito, which color-blind readers can distinguish."""
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1)), (0, (5, 1, 1, 1)))
_WIDE = 165  # number of characters that fit in the width of the figure
_ROW = 4  # largest number of panels in a single row


def hue(k: int) -> str:
    """Return the color of label number k."""
    return COLORS[k % len(COLORS)]


def mark(k: int, hollow: bool = False) -> dict[str, Any]:
    """Return the marker of label number k; the first 56 labels have different ones."""
    turn, place = divmod(k, len(COLORS))
    found: dict[str, Any] = {"color": hue(k), "ms": 5, "linestyle": "none"}
    found["marker"] = _MARKS[(place + turn) % len(_MARKS)]
    return found | ({"mfc": "none", "ms": 6} if hollow else {})


def dashed(k: int) -> dict[str, Any]:
    """Return the line style of label number k; the first 28 have different ones."""
    turn, place = divmod(k, len(COLORS))
    return {"color": hue(k), "linestyle": _DASHES[(place + turn) % len(_DASHES)]}


def sheet(
    title: str, many: int, under: Sequence[str] = (), foot: str = "", **more: Any
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure with panels in one or two rows.

    Args:
        title: Title of the figure.
        many: Number of panels.
        under: Lines below the title.
        foot: Note below the panels.
        **more: `row`, the largest number of panels in a single row, and options of
            `Figure.subplots`.

    Returns:
        The figure and the axes of its panels.
    """
    rows = 1 if many <= more.pop("row", _ROW) else 2
    size = (11.5, 4.4 if rows == 1 else 7.2)
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    lines = [part for text in under for part in textwrap.wrap(text, _WIDE)]
    figure.suptitle("\n".join([title, *lines]), fontsize=9)
    if foot:
        wrapped = textwrap.wrap(f"Note: {foot}.", _WIDE)
        figure.supxlabel("\n".join(wrapped), fontsize=7)
    columns = max(1, math.ceil(many / rows))
    axes: Any = figure.subplots(rows, columns, squeeze=False, **more)
    every = [*axes.flat]
    for axis in every[max(1, many) :]:
        axis.remove()
    return figure, every[:many]


def dress(axis: Axes, title: str, x: str = "", y: str = "") -> None:
    """Set the titles of a panel and its axes, and draw a light grid."""
    axis.set_title(title, fontsize=8)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.3)


def legend(
    figure: Figure, handles: Mapping[str, Artist], more: Mapping[str, Artist]
) -> None:
    """Add one legend for all panels, on their right."""
    named = {**handles, **more}
    if named:
        look: dict[str, Any] = {"fontsize": 7, "frameon": False}
        figure.legend([*named.values()], [*named], loc="outside right upper", **look)


def meanings(filled: str, hollow: str) -> dict[str, Artist]:
    """Return legend entries for filled and hollow markers.

    Args:
        filled: Meaning of filled markers; "": no entry.
        hollow: Meaning of hollow markers; "": no entry.
    """
    look: dict[str, Any] = {"color": "#5b6873", "marker": "o", "linestyle": "none"}
    kinds = {f"filled: {filled}": look, f"hollow: {hollow}": {**look, "mfc": "none"}}
    return {k: Line2D([], [], **v) for k, v in kinds.items() if not k.endswith(": ")}


THEORY, SIMULATED, THEIRS = ", by theory", ", simulated", ", the paper's"
"""Endings of labels. Labels that differ only in these endings have the same color."""
_SHORT = 32  # up to this number of characters, four titles fit in a row
_TICKS = (0, 1, 3, 10, 30, 100, 300, 1000)


class Line(NamedTuple):
    """A line in a panel: points, or one number that is the same for all x."""

    x: np.ndarray  # empty for one number
    y: np.ndarray

    @property
    def level(self) -> bool:
        """Whether the line is one number for all x."""
        return len(self.x) == 0


class Panel(NamedTuple):
    """A panel with lines."""

    title: str
    along: str  # name of the x axis
    lines: Mapping[str, Line]  # label → line
    scale: Literal["linear", "symlog"] = "linear"  # scale of the x axis
    at: Mapping[str, float] = MappingProxyType({})  # label → x of a vertical line
    marked: bool = False  # whether lines have markers


class Head(NamedTuple):
    """The texts around the panels."""

    title: str
    under: Sequence[str] = ()  # lines below the title
    foot: str = ""  # note below the panels


def lines(
    head: Head,
    panels: Sequence[Panel],
    more: Mapping[str, Artist] = MappingProxyType({}),
    y: str = "",
) -> Figure:
    """Draw panels with lines. A label has the same style in all panels.

    Args:
        head: Texts around the panels.
        panels: The panels.
        more: Further entries of the legend.
        y: Name of a y axis that is the same for all panels; "": the axes differ.
    """
    wide = max(len(line) for panel in panels for line in panel.title.split("\n"))
    fit: dict[str, Any] = {"row": 4 if wide <= _SHORT else 3, "sharey": bool(y)}
    figure, axes = sheet(head.title, len(panels), head.under, head.foot, **fit)
    places = _places(label for panel in panels for label in panel.lines)
    upright = _places(name for panel in panels for name in panel.at)
    handles: dict[str, Artist] = {}
    for axis, panel in zip(axes, panels, strict=True):
        for label, line in panel.lines.items():
            drawn = _plot(axis, line, _look(label, line, panel, places[_base(label)]))
            if label.endswith(THEIRS):
                handles.setdefault(_base(label), drawn)
            else:
                handles[label] = drawn
        for name, x in panel.at.items():
            look = dashed(len(places) + upright[name]) | {"lw": 1.0}
            handles[name] = axis.axvline(x, **look)
        dress(axis, panel.title, panel.along, "" if axis is not axes[0] else y)
        if panel.scale == "symlog":
            _symlog(axis, panel)
    legend(figure, handles, more)
    return figure


def _places(labels: Iterable[str]) -> dict[str, int]:
    """Return label (without ending) → number, which determines its style."""
    return {name: k for k, name in enumerate(dict.fromkeys(map(_base, labels)))}


def _base(label: str) -> str:
    return label.removesuffix(SIMULATED).removesuffix(THEORY).removesuffix(THEIRS)


def _look(label: str, own: Line, panel: Panel, k: int) -> dict[str, Any]:
    """Return the style of label number k.

    Simulated values and single points have markers, and other lines are drawn.
    """
    if label.endswith(THEIRS):
        return mark(k, hollow=True) | {"linestyle": ":"}
    if label.endswith(SIMULATED) or len(own.x) == 1:
        return mark(k) | {"ms": 4}
    marked = panel.marked and not own.level
    more = {"marker": mark(k)["marker"], "ms": 4} if marked else {}
    return dashed(k) | {"lw": 1.4} | more


def _plot(axis: Axes, line: Line, look: dict[str, Any]) -> Artist:
    if line.level:
        return axis.axhline(float(line.y[0]), **look)
    return axis.plot(line.x, line.y, **look)[0]


def _symlog(axis: Axes, panel: Panel) -> None:
    """Set a logarithmic x axis that is linear near 0."""
    most = max(float(line.x[-1]) for line in panel.lines.values() if len(line.x))
    small = 1 if most < 500 else 10  # below this value, the axis is linear
    axis.set_xscale("symlog", linthresh=small, linscale=0.5)
    axis.set_xlim(-0.15 * small, 1.2 * most)
    ticks = [tick for tick in _TICKS if tick == 0 or small <= tick <= most]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


Points = Mapping[str, tuple[float, float]]
"""Label → accuracy and variance over clients."""


def scatter(
    head: Head, panels: Mapping[str, tuple[Points, Points]], filled: str, hollow: str
) -> Figure:
    """Draw variance against accuracy, with a thin line between two points of a label.

    Args:
        head: Texts around the panels.
        panels: Title → points with filled markers, and points with hollow markers.
        filled: Meaning of filled markers.
        hollow: Meaning of hollow markers.
    """
    figure, axes = sheet(head.title, len(panels), head.under, head.foot)
    shared, own = ([pair[k] for pair in panels.values()] for k in range(2))
    places = _places(label for points in (*shared, *own) for label in points)
    for axis, (title, pair) in zip(axes, panels.items(), strict=True):
        for label, k in places.items():
            here = [(one[label], j) for j, one in enumerate(pair) if label in one]
            for at, j in here:
                axis.plot(*at, **mark(k, hollow=bool(j)))
            if len(here) == 2:
                x, y = zip(*(at for at, _ in here), strict=True)
                axis.plot(x, y, color=hue(k), lw=0.6, alpha=0.6, zorder=1)
        dress(axis, title, "accuracy of benign clients", "variance over clients")
    handles = {label: Line2D([], [], **mark(k)) for label, k in places.items()}
    more = meanings(filled if any(shared) else "", hollow if any(own) else "")
    legend(figure, handles, more)
    return figure


def bars(head: Head, rows: Sequence[tuple[str, Mapping[str, float]]]) -> Figure:
    """Draw one panel per number, with one bar per label."""
    names = list(dict.fromkeys(name for _, numbers in rows for name in numbers))
    figure, axes = sheet(head.title, len(names), head.under, head.foot)
    spots = range(len(rows))
    for k, (axis, name) in enumerate(zip(axes, names, strict=True)):
        values = [numbers.get(name, np.nan) for _, numbers in rows]
        axis.barh(spots, values, color=hue(0))
        dress(axis, name)
        axis.set_axisbelow(True)
        axis.set_yticks(spots, [label for label, _ in rows] if not k else [])
        axis.invert_yaxis()
    return figure
