"""Whose own model relies on what the shared one does not."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.plot._style import (
    INK,
    SOFT,
    Several,
    dress,
    figure,
    given,
    hue,
    legend,
    many,
    mark,
)
from troth.runs.inspect import Audit
from troth.types import Refusal

_FIRST = 3  # colours that no model of a small report has
_MOST = 80  # clients that are drawn one by one
_ORDER = "client, the largest change first"
_VERDICTS = {1.0: "above the limit", 0.0: "not above it"}


def audit(run: Several) -> Figure:
    """The change of every client with its interval, the largest first.

    Where conflicting examples are known, right of it the disparity that they show.

    Args:
        run: one that `troth audit` went through; of several the first such one.
    """
    every = given(run)
    found = next((each.audit for each in every if each.audit), None)
    if found is None:
        raise Refusal(
            f"none of the runs is audited; do it by: troth audit {every[0].path}"
        )
    known = "disparity" in found.table
    made = figure(9 if known else 6.4, 3.8)
    panels = made.subplots(1, 2 if known else 1, squeeze=False)[0]
    _changes(panels[0], found)
    if known:
        _disparities(panels[1], found)
    return made


def _limit(found: Audit) -> float:
    return float(found.settings.get("limit", 0.1))


def _changes(axes: Axes, found: Audit) -> None:
    t = found.table
    order = np.argsort(-np.nan_to_num(t["change"], nan=-2.0), kind="stable")
    n, order = len(order), order[:_MOST]
    for i, (verdict, words) in enumerate((*_VERDICTS.items(), (np.nan, "open"))):
        suspect = t["suspect"][order]
        mine = np.isnan(suspect) if np.isnan(verdict) else suspect == verdict
        x, of = np.flatnonzero(mine), order[mine]
        if len(x):
            look = _FIRST + i
            axes.vlines(x, t["change_low"][of], t["change_high"][of], color=hue(look))
            axes.plot(x, t["change"][of], label=words, **mark(look, hollow=i > 0))
    axes.axhline(_limit(found), color=INK, lw=1, ls=":")
    some = f"{n} clients" if n == len(order) else f"{len(order)} of {n} clients"
    dress(axes, f"{some}; bars: 95 % intervals, dotted: the limit", _ORDER, "change")
    step = max(1, len(order) // 12)
    names = [f"{int(k)}" for k in t["client"][order][::step]]
    axes.set_xticks(np.arange(len(order))[::step], names)
    legend(axes)


def _disparities(axes: Axes, found: Audit) -> None:
    t = found.table
    points = mark(_FIRST) | many(len(t["change"]))
    axes.plot(t["change"], t["disparity"], **points)
    axes.axvline(_limit(found), color=SOFT, lw=1, ls=":")
    axes.axhline(_limit(found), color=SOFT, lw=1, ls=":")
    dress(axes, "what conflicting test data say", "change", "disparity")
