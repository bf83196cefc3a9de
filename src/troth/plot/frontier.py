"""Accurate, and for all alike: methods beside each other."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from troth.plot._style import INK, SOFT, Several, dress, figure, finished, mark, name

_NAMED = 20  # runs that have their name beside them


def frontier(runs: Several) -> Figure:
    """Mean against standard deviation over benign clients, a point a run.

    Up is more accurate, left is more alike; for errors down and left are better. The
    hollow points are the shared models of the same runs.

    Args:
        runs: one or several.
    """
    mine, metric = finished(runs, "means over clients")
    made = figure(6.4, 4.2)
    axes = made.subplots()
    for i, run in enumerate(mine):
        x, y = run.mean(what="std"), run.mean()
        if run.part("personalizer") != "none":
            there = run.mean("shared", "std"), run.mean("shared")
            axes.plot(*([v] for v in there), **mark(i, hollow=True))
            axes.plot([x, there[0]], [y, there[1]], color=SOFT, lw=0.6, zorder=1)
        axes.plot([x], [y], **mark(i) | {"markersize": 7})
        if i < _NAMED:
            place: Any = {"textcoords": "offset points", "xytext": (7, -3)}
            axes.annotate(name(run), (x, y), size=8.5, color=INK, **place)
    axes.margins(0.18, 0.12)
    what = "own models filled, shared models hollow"
    dress(axes, what, f"standard deviation of {metric}", f"mean {metric}")
    return made
