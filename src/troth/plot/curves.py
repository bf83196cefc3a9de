"""How runs went, over their rounds."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from troth.dossier import Dossier
from troth.plot._style import Several, alike, dress, figure, given, legend, line, name
from troth.plot._style import share as scaled
from troth.types import Refusal


def curves(runs: Several) -> Figure:
    """Mean over benign clients at every evaluation: own models left, shared right.

    A run that goes on, or was stopped, is drawn as far as it came. The thin lines are
    the worst tenth of the clients.

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
    for i, run in enumerate(mine):
        for axes, kind in ((left, "personal"), (right, "shared")):
            x, mean, worst = _points(run, kind, metric)
            axes.plot(x, mean, label=name(run), **line(i))
            axes.plot(x, worst, **line(i) | {"lw": 0.8, "alpha": 0.7})
    dress(left, "clients' own models (thin: worst tenth)", "round", metric)
    dress(right, "the shared model", "round")
    scaled(left, metric)
    legend(left)
    return made


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
