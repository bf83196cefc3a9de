"""Accurate, and for all alike: methods beside each other."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from troth.plot._style import (
    INK,
    SHARED,
    SOFT,
    Several,
    dress,
    figure,
    finished,
    mark,
    name,
    place,
)

_NAMED = 20  # runs that have their name beside them


def frontier(runs: Several) -> Figure:
    """Mean against standard deviation over benign clients, a point a run.

    Up is more accurate, left is more alike; for errors down and left are better. The
    hollow points are the shared models of the same runs, where no run is that model.

    Args:
        runs: one or several.
    """
    mine, metric = finished(runs, "means over clients")
    made = figure(6.4, 4.2)
    axes = made.subplots()
    plain = [run for run in mine if run.part("personalizer") == "none"]
    there = {(run.mean("shared", "std"), run.mean("shared")) for run in plain}
    for i, run in enumerate(mine):
        x, y = run.mean(what="std"), run.mean()
        if run.part("personalizer") != "none":
            shared = run.mean("shared", "std"), run.mean("shared")
            if shared not in there:  # else it is a point of its own
                axes.plot(*([v] for v in shared), **mark(SHARED, hollow=True))
            there.add(shared)
            axes.plot([x, shared[0]], [y, shared[1]], color=SOFT, lw=0.6, zorder=1)
        axes.plot([x], [y], **mark(place(run)) | {"markersize": 7})
        if i < _NAMED:
            beside: Any = {"textcoords": "offset points", "xytext": (7, -3)}
            axes.annotate(name(run), (x, y), size=8.5, color=INK, **beside)
    axes.margins(0.18, 0.12)
    what = "own models filled, the shared model of the same run hollow"
    dress(axes, what, f"standard deviation of {metric}", f"mean {metric}")
    return made
