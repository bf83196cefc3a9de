"""Panels of lines, of points and of bars, on one sheet with one legend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from troth.reproduce import looks

THEORY, SIMULATED = ", by theory", ", simulated"
"""End the labels of a line and of the points that belong to it: of one colour."""
_SHORT = 32  # characters of titles of which four stand side by side
_TICKS = (0, 1, 3, 10, 30, 100, 300, 1000)


class Line(NamedTuple):
    """What a label has in a panel."""

    x: np.ndarray
    y: np.ndarray

    @property
    def level(self) -> bool:
        """Whether it is one number, whatever x."""
        return len(self.x) == 0


class Panel(NamedTuple):
    """A quantity against another."""

    title: str
    along: str
    lines: Mapping[str, Line]
    scale: Literal["linear", "symlog"] = "linear"  # of x
    at: Mapping[str, float] = MappingProxyType({})  # places on x that have a name
    marked: bool = False  # whether the points of lines are


class Head(NamedTuple):
    """What stands around the panels."""

    title: str
    under: Sequence[str] = ()
    foot: str = ""


def lines(head: Head, panels: Sequence[Panel]) -> Figure:
    """A panel a quantity, a line a label, which looks the same in all panels."""
    wide = max(len(line) for panel in panels for line in panel.title.split("\n"))
    row = 4 if wide <= _SHORT else 3
    figure, axes = looks.sheet(head.title, len(panels), head.under, head.foot, row=row)
    places = _places(label for panel in panels for label in panel.lines)
    upright = _places(name for panel in panels for name in panel.at)
    handles: dict[str, Artist] = {}
    for axis, panel in zip(axes, panels, strict=True):
        for label, line in panel.lines.items():
            look = _look(label, line, panel.marked, places[_base(label)])
            handles[label] = _plot(axis, line, look)
        for name, x in panel.at.items():
            look = looks.line(len(places) + upright[name]) | {"lw": 1.0}
            handles[name] = axis.axvline(x, **look)
        looks.dress(axis, panel.title, panel.along)
        if panel.scale == "symlog":
            _symlog(axis, panel)
    looks.legend(figure, handles)
    return figure


def _places(labels: Iterable[str]) -> dict[str, int]:
    """Label → its place among all, by which it looks."""
    return {name: k for k, name in enumerate(dict.fromkeys(map(_base, labels)))}


def _base(label: str) -> str:
    return label.removesuffix(SIMULATED).removesuffix(THEORY)


def _look(label: str, line: Line, marked: bool, k: int) -> dict[str, Any]:
    """As a line, marked or not; as points where it is simulated, or but one."""
    if label.endswith(SIMULATED) or len(line.x) == 1:
        return looks.mark(k) | {"ms": 4}
    mark = {"marker": looks.mark(k)["marker"], "ms": 4}
    return looks.line(k) | {"lw": 1.4} | (mark if marked and not line.level else {})


def _plot(axis: Axes, line: Line, look: dict[str, Any]) -> Artist:
    if line.level:
        return axis.axhline(float(line.y[0]), **look)
    (found,) = axis.plot(line.x, line.y, **look)
    return found


def _symlog(axis: Axes, panel: Panel) -> None:
    """Zero is a place on this axis, and what lies near it is not crowded."""
    most = max(float(line.x[-1]) for line in panel.lines.values() if len(line.x))
    small = 1 if most < 500 else 10  # below it the axis is linear
    axis.set_xscale("symlog", linthresh=small, linscale=0.5)
    axis.set_xlim(-0.15 * small, 1.2 * most)
    ticks = [tick for tick in _TICKS if tick == 0 or small <= tick <= most]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


Points = Mapping[str, tuple[float, float]]
"""Label → accuracy and variance."""


def scatter(head: Head, panels: Mapping[str, tuple[Points, Points]]) -> Figure:
    """Accuracies against variances: filled the shared model's, hollow own models'."""
    figure, axes = looks.sheet(head.title, len(panels), head.under, head.foot)
    places = _places(label for both in panels.values() for label in both[0])
    for axis, (title, (shared, own)) in zip(axes, panels.items(), strict=True):
        for points, hollow in ((shared, False), (own, True)):
            for label, at in points.items():
                axis.plot(*at, **looks.mark(places[label], hollow))
        looks.dress(axis, title, "accuracy of benign clients", "variance over clients")
    handles = {label: Line2D([], [], **looks.mark(k)) for label, k in places.items()}
    solid = {"marker": "o", "linestyle": "none"}
    meanings = [
        looks.meaning("filled: shared models", **solid),
        looks.meaning("hollow: own models", mfc="none", **solid),
    ]
    looks.legend(figure, handles, meanings)
    return figure


def bars(head: Head, rows: Sequence[tuple[str, Mapping[str, float]]]) -> Figure:
    """A bar a label, a panel a number."""
    names = list(dict.fromkeys(name for _, numbers in rows for name in numbers))
    figure, axes = looks.sheet(head.title, len(names), head.under, head.foot)
    spots = range(len(rows))
    for k, (axis, name) in enumerate(zip(axes, names, strict=True)):
        values = [numbers.get(name, np.nan) for _, numbers in rows]
        axis.barh(spots, values, color=looks.hue(0))
        looks.dress(axis, name)
        axis.set_axisbelow(True)
        axis.set_yticks(spots, [label for label, _ in rows] if not k else [])
        axis.invert_yaxis()
    return figure
