"""Certified accuracy over the radius."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.plot._style import (
    LOCAL,
    SHARED,
    Several,
    dress,
    figure,
    given,
    legend,
    line,
    name,
    place,
)
from troth.runs.inspect import Certified, Dossier
from troth.types import Refusal


def certified(runs: Several) -> Figure:
    """A panel a run and setting: the mean over clients, and a band from least to most.

    Between two radii no more is claimed than at the larger one.

    Args:
        runs: one or several that `troth certify` went through.
    """
    every = given(runs)
    found = [(run, each) for run in every for each in run.certified]
    if not found:
        raise Refusal(
            "none of the runs has certificates; make them by: troth "
            f"certify {every[0].path}"
        )
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    made = figure(4.5 * columns + 0.4, 3.6 * rows)
    panels = made.subplots(rows, columns, squeeze=False).flatten()
    for axes, (run, each) in zip(panels, found, strict=False):
        _panel(axes, run, each)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return made


def _panel(axes: Axes, run: Dossier, each: Certified) -> None:
    s = each.settings
    looks = {"personal": (place(run), name(run)), "shared": (SHARED, "shared model")}
    looks["local"] = (LOCAL, "local")
    models = [m for m in looks if m in each.curves]
    for model in models:
        at, label = looks[model]
        curve, style = each.curves[model], line(at)
        a = curve.accuracy
        step: Any = {"drawstyle": "steps-pre", "label": label}
        axes.plot(curve.radii, a.mean(axis=0), **style, **step)
        band = {"step": "pre", "color": style["color"], "alpha": 0.15, "lw": 0}
        axes.fill_between(curve.radii, a.min(axis=0), a.max(axis=0), **band)
    n = max(len(each.curves[model].clients) for model in models)
    title = f"{s['transform']}, σ = {s['sigma']}, α = {s['alpha']}, {n} clients"
    dress(axes, title, f"radius ({each.unit})", "certified accuracy")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(left=0)
    legend(axes)
