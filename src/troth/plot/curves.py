"""How runs went, over their rounds."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.plot._style import (
    SHARED,
    Several,
    alike,
    dress,
    figure,
    given,
    legend,
    line,
    name,
    place,
)
from troth.plot._style import share as scaled
from troth.runs.inspect import Dossier
from troth.types import Refusal


def curves(runs: Several) -> Figure:
    """Mean over benign clients at every evaluation: own models left, shared right.

    Shared models that are the same are one line. A run that goes on, or was stopped, is
    drawn as far as it came. The thin lines are the worst tenth of the clients.

    Args:
        runs: one or several; those that are judged as the first one is.
    """
    mine, metric = alike([run for run in given(runs) if run.evaluated])
    if not mine:
        raise Refusal(
            "none of the runs has an evaluation yet; wait for its first one "
            "(evaluate.every)"
        )
    made = figure(9, 3.6)
    left, right = made.subplots(1, 2, sharex=True, sharey=True)
    for run in mine:
        _draw(left, run, "personal", metric, place(run))
    apart = _apart(mine, metric)
    for at, run in apart.items():
        _draw(right, run, "shared", metric, at)
    dress(left, "clients' own models (thin: worst tenth)", "round", metric)
    same = ", the same in all runs" if len(apart) == 1 < len(mine) else ""
    dress(right, f"the shared model{same}", "round")
    scaled(left, metric)
    legend(left)
    return made


def _draw(axes: Axes, run: Dossier, kind: str, metric: str, at: int) -> None:
    x, mean, worst = _points(run, kind, metric)
    axes.plot(x, mean, label=name(run), **line(at))
    axes.plot(x, worst, **line(at) | {"lw": 0.8, "alpha": 0.7})


def _apart(runs: list[Dossier], metric: str) -> dict[int, Dossier]:
    """Place → a run, of those whose shared models are not the same."""
    found: dict[str, list[Dossier]] = {}
    for run in runs:
        found.setdefault(str(_points(run, "shared", metric)), []).append(run)
    plain = [run for run in runs if run.part("personalizer") == "none"]
    if len(found) == 1 and not plain:
        return {SHARED: runs[0]}
    return {
        place(next((run for run in alike if run in plain), alike[0])): alike[0]
        for alike in found.values()
    }


def _points(run: Dossier, kind: str, metric: str) -> tuple[list[int], Any, Any]:
    """Rounds, means and worst tenths; nothing is drawn where there is no number."""
    rounds = [line["round"] + 1 for line in run.evaluated]
    tables = [line["evaluation"].get(kind) or {} for line in run.evaluated]
    both = [
        [v if isinstance(v, int | float) else math.nan for v in values]
        for values in (
            [t.get(f"{metric}_{what}") for t in tables] for what in ("mean", "worst10")
        )
    ]
    return rounds, both[0], both[1]
