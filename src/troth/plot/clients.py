"""Who is served how well."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.dossier import Dossier
from troth.plot._style import (
    Several,
    dress,
    figure,
    finished,
    legend,
    line,
    many,
    mark,
    name,
)
from troth.plot._style import share as scaled

_POINTS = 300  # of a sorted line


def clients(runs: Several) -> Figure:
    """Benign clients by their accuracy: sorted run by run, and client by client.

    Left each model's own order. Right the order of the run with the best mean: with
    each of its clients the same client's value by the shared and the local model.

    Args:
        runs: one or several; one with personalizer `local`, of the same clients, is
            what the others are compared with.
    """
    mine, metric = finished(runs, "clients")
    made = figure(9, 3.8)
    left, right = made.subplots(1, 2, sharey=True)
    for i, run in enumerate(mine):
        values = np.sort(_values(run, metric))
        _sorted(left, values, i, name(run))
    if all(run.part("personalizer") != "none" for run in mine):
        shared = np.sort(_values(mine[0], f"shared_{metric}"))
        _sorted(left, shared, len(mine), "shared model")
    best = max(mine, key=lambda run: _worth(run, metric))
    _beside(right, best, mine, metric)
    dress(left, "each model's clients, sorted", "share of benign clients", metric)
    dress(right, f"client by client, sorted by {name(best)}", "client")
    scaled(left, metric)
    legend(left, loc="best")
    legend(right, loc="best")
    return made


def _values(run: Dossier, column: str) -> np.ndarray:
    values = run.column(column)[run.judged]
    return np.asarray(values[~np.isnan(values)])


def _sorted(axes: Axes, values: np.ndarray, i: int, label: str) -> None:
    """A line through the sorted values; of very many, through some of them."""
    if len(values):
        at = np.unique(np.linspace(0, len(values) - 1, _POINTS).astype(int))
        share = (at + 1) / len(values)
        axes.plot(share, values[at], label=label, drawstyle="steps-pre", **line(i))


def _worth(run: Dossier, metric: str) -> float:
    mean = run.mean()
    return -np.inf if np.isnan(mean) else mean if metric == "accuracy" else -mean


def _beside(axes: Axes, first: Dossier, mine: list[Dossier], metric: str) -> None:
    own = first.column(metric)
    who = np.flatnonzero(first.judged & ~np.isnan(own))
    who = who[np.argsort(own[who], kind="stable")]
    x, points = np.arange(len(who)), many(len(who))
    local = [r for r in mine if r.part("personalizer") == "local" and r is not first]
    local = [r for r in local if len(r.column(metric)) == len(own)]
    if local:
        values = local[0].column(metric)[who]
        axes.plot(x, values, label="local", **mark(2) | points)
    if first.part("personalizer") != "none":
        values = first.column(f"shared_{metric}")[who]
        axes.plot(x, values, label="shared model", **mark(1, hollow=True) | points)
    axes.plot(x, own[who], label=name(first), **line(0))
