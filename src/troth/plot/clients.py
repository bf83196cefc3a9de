"""Who is served how well."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.plot._style import (
    SHARED,
    Several,
    dress,
    figure,
    finished,
    legend,
    line,
    many,
    mark,
    name,
    place,
)
from troth.plot._style import share as scaled
from troth.runs.inspect import Dossier

_POINTS = 300  # of a sorted line


def clients(runs: Several) -> Figure:
    """Benign clients by their accuracy: sorted run by run, and client by client.

    Left each model's own order. Right the order of the run with the best mean: with
    each of its clients the same client's value by the shared and the local model. A
    model has one colour in both.

    Args:
        runs: one or several; one with personalizer `local`, of the same clients, is
            what the others are compared with.
    """
    mine, metric = finished(runs, "clients")
    made = figure(9, 3.8)
    left, right = made.subplots(1, 2, sharey=True)
    for run in mine:
        values = np.sort(_values(run, metric))
        _sorted(left, values, place(run), name(run))
    if all(run.part("personalizer") != "none" for run in mine):
        shared = np.sort(_values(mine[0], f"shared_{metric}"))
        _sorted(left, shared, SHARED, "shared model")
    best = max(mine, key=lambda run: _worth(run, metric))
    n = _beside(right, best, mine, metric)
    dress(left, "each model's clients, sorted", "share of benign clients", metric)
    order = f"position among {n} benign clients, worst first"
    dress(right, f"the same clients, all in the order of {name(best)}", order)
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


def _beside(axes: Axes, first: Dossier, mine: list[Dossier], metric: str) -> int:
    """Draw one run's clients and what else they have; says how many they are."""
    own = first.column(metric)
    who = np.flatnonzero(first.judged & ~np.isnan(own))
    worth = own if metric == "accuracy" else -own
    who = who[np.argsort(worth[who], kind="stable")]
    x, points = np.arange(len(who)), many(len(who))
    local = [r for r in mine if r.part("personalizer") == "local" and r is not first]
    local = [r for r in local if len(r.column(metric)) == len(own)]
    if local:
        values = local[0].column(metric)[who]
        look = mark(place(local[0]))
        axes.plot(x, values, label=name(local[0]), **look | points)
    if first.part("personalizer") != "none":
        shared = first.column(f"shared_{metric}")
        at, label = _shared(shared, mine, metric)
        look = mark(at, hollow=True)
        axes.plot(x, shared[who], label=label, **look | points)
    axes.plot(x, own[who], label=name(first), **line(place(first)))
    return len(who)


def _shared(values: np.ndarray, mine: list[Dossier], metric: str) -> tuple[int, str]:
    """The place and the name of a shared model: those of the run that is it."""
    for run in mine:
        same = np.array_equal(run.column(f"shared_{metric}"), values, equal_nan=True)
        if run.part("personalizer") == "none" and same:
            return place(run), name(run)
    return SHARED, "shared model"
