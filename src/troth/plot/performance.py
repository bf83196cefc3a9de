"""How well clients are served: over rounds, client by client, and run beside run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from troth.plot import _style as style
from troth.plot._style import INK, SHARED, SOFT, Several, dress, name, place
from troth.runs import compare
from troth.runs.inspect import Dossier
from troth.types import Refusal

_SORTED = 300  # points of a sorted line
_NAMED = 20  # runs that have their name beside them
_PAIRS = 20
_WIDE = 60  # characters of two names


def curves(runs: Several) -> Figure:
    """Mean over benign clients at every evaluation: own models left, shared right.

    Shared models that are the same are one line. A run that goes on, or was stopped, is
    drawn as far as it came. The thin lines are the worst tenth of the clients.

    Args:
        runs: one or several; those that are judged as the first one is.
    """
    mine, metric = style.alike([run for run in style.given(runs) if run.evaluated])
    if not mine:
        raise Refusal(
            "none of the runs has an evaluation yet; wait for its first one "
            "(evaluate.every)"
        )
    made = style.figure(9, 3.6)
    left, right = made.subplots(1, 2, sharex=True, sharey=True)
    for run in mine:
        _curve(left, run, "personal", metric, place(run))
    apart = _apart(mine, metric)
    for at, run in apart.items():
        _curve(right, run, "shared", metric, at)
    dress(left, "clients' own models (thin: worst tenth)", "round", metric)
    same = ", the same in all runs" if len(apart) == 1 < len(mine) else ""
    dress(right, f"the shared model{same}", "round")
    style.share(left, metric)
    style.legend(left)
    return made


def _curve(axes: Axes, run: Dossier, kind: str, metric: str, at: int) -> None:
    x, mean, worst = _points(run, kind, metric)
    axes.plot(x, mean, label=name(run), **style.line(at))
    axes.plot(x, worst, **style.line(at) | {"lw": 0.8, "alpha": 0.7})


def _apart(runs: list[Dossier], metric: str) -> dict[int, Dossier]:
    """Place → a run, of those whose shared models are not the same."""
    found: dict[str, list[Dossier]] = {}
    for run in runs:
        found.setdefault(str(_points(run, "shared", metric)), []).append(run)
    plain = [run for run in runs if _plain(run)]
    if len(found) == 1 and not plain:
        return {SHARED: runs[0]}
    return {
        place(next((run for run in alike if run in plain), alike[0])): alike[0]
        for alike in found.values()
    }


def _plain(run: Dossier) -> bool:
    """Whether the shared model is all that it trains."""
    return run.part("personalizer") == "none"


def _points(run: Dossier, kind: str, metric: str) -> tuple[list[int], Any, Any]:
    """Rounds, means and worst tenths; nothing is drawn where there is no number."""
    rounds = [line["round"] + 1 for line in run.evaluated]
    tables = [line["evaluation"].get(kind) or {} for line in run.evaluated]
    mean, worst = (
        [v if isinstance(v, int | float) else math.nan for v in values]
        for values in (
            [t.get(f"{metric}_{what}") for t in tables] for what in ("mean", "worst10")
        )
    )
    return rounds, mean, worst


def clients(runs: Several) -> Figure:
    """Benign clients by their accuracy: sorted run by run, and client by client.

    Left each model's own order. Right the order of the run with the best mean: with
    each of its clients the same client's value by the shared and the local model. A
    model has one colour in both.

    Args:
        runs: one or several; one with personalizer `local`, of the same clients, is
            what the others are compared with.
    """
    mine, metric = style.finished(runs, "clients")
    made = style.figure(9, 3.8)
    left, right = made.subplots(1, 2, sharey=True)
    for run in mine:
        _sorted(left, run, metric, place(run), name(run))
    if not any(_plain(run) for run in mine):
        _sorted(left, mine[0], f"shared_{metric}", SHARED, "shared model")
    sign = 1 if metric == "accuracy" else -1
    best = max(mine, key=lambda run: np.nan_to_num(sign * run.mean(), nan=-np.inf))
    n = _beside(right, best, mine, metric)
    dress(left, "each model's clients, sorted", "share of benign clients", metric)
    order = f"position among {n} benign clients, worst first"
    dress(right, f"the same clients, all in the order of {name(best)}", order)
    style.share(left, metric)
    style.legend(left, loc="best")
    style.legend(right, loc="best")
    return made


def _sorted(axes: Axes, run: Dossier, column: str, i: int, label: str) -> None:
    """A line through the sorted values; of very many, through some of them."""
    values = run.column(column)[run.judged]
    values = np.sort(values[~np.isnan(values)])
    if len(values):
        at = np.unique(np.linspace(0, len(values) - 1, _SORTED).astype(int))
        looks = style.line(i) | {"drawstyle": "steps-pre"}
        axes.plot((at + 1) / len(values), values[at], label=label, **looks)


def _beside(axes: Axes, first: Dossier, mine: list[Dossier], metric: str) -> int:
    """Draw one run's clients and what else they have; return how many they are."""
    own = first.column(metric)
    who = np.flatnonzero(first.judged & ~np.isnan(own))
    worth = own if metric == "accuracy" else -own
    who = who[np.argsort(worth[who], kind="stable")]
    x, points = np.arange(len(who)), style.many(len(who))
    local = [r for r in mine if r.part("personalizer") == "local" and r is not first]
    local = [r for r in local if len(r.column(metric)) == len(own)]
    if local:
        values = local[0].column(metric)[who]
        look = style.mark(place(local[0])) | points
        axes.plot(x, values, label=name(local[0]), **look)
    if not _plain(first):
        shared = first.column(f"shared_{metric}")
        at, label = _shared(shared, mine, metric)
        look = style.mark(at, hollow=True) | points
        axes.plot(x, shared[who], label=label, **look)
    axes.plot(x, own[who], label=name(first), **style.line(place(first)))
    return len(who)


def _shared(values: np.ndarray, mine: list[Dossier], metric: str) -> tuple[int, str]:
    """The place and the name of a shared model: those of the run that is it."""
    for run in mine:
        same = np.array_equal(run.column(f"shared_{metric}"), values, equal_nan=True)
        if _plain(run) and same:
            return place(run), name(run)
    return SHARED, "shared model"


def frontier(runs: Several) -> Figure:
    """Mean against standard deviation over benign clients, one point per run.

    Up is more accurate, left is more alike; for errors down and left are better. The
    hollow points are the shared models of the same runs, where no run is that model.
    """
    mine, metric = style.finished(runs, "means over clients")
    made = style.figure(6.4, 4.2)
    axes = made.subplots()
    there = {
        (run.mean("shared", "std"), run.mean("shared")) for run in mine if _plain(run)
    }
    for i, run in enumerate(mine):
        x, y = run.mean(what="std"), run.mean()
        if not _plain(run):
            shared = run.mean("shared", "std"), run.mean("shared")
            if shared not in there:  # else it is a point of its own
                axes.plot(*([v] for v in shared), **style.mark(SHARED, hollow=True))
            there.add(shared)
            axes.plot([x, shared[0]], [y, shared[1]], color=SOFT, lw=0.6, zorder=1)
        axes.plot([x], [y], **style.mark(place(run)) | {"markersize": 7})
        if i < _NAMED:
            beside: Any = {"textcoords": "offset points", "xytext": (7, -3)}
            axes.annotate(name(run), (x, y), size=8.5, color=INK, **beside)
    axes.margins(0.18, 0.12)
    what = "own models filled, the shared model of the same run hollow"
    dress(axes, what, f"standard deviation of {metric}", f"mean {metric}")
    return made


def pairs(runs: Several) -> Figure:
    """The mean difference of every pair that differs in one setting, and its interval.

    Where that is the personalizer, each stands beside training alone too.

    Args:
        runs: two or more.
    """
    mine, _ = style.finished(runs, "comparisons")
    known = [(run.run, run.label) for run in mine if run.run is not None]
    found = compare.compare([r for r, _ in known], [label for _, label in known])
    return drawn([each for each in found if each["kind"] == "paired"])


def drawn(found: Sequence[Mapping[str, Any]]) -> Figure:
    """The same of comparisons that were made already."""
    if not found:
        raise Refusal(
            "no two of the runs differ in one setting alone, with the same seed and "
            "the same clients; give two that do"
        )
    shown = found[:_PAIRS]
    made = style.figure(7.5, 1.1 + 0.32 * len(shown))
    axes = made.subplots()
    point: Any = {"marker": "o", "color": INK, "markersize": 6}
    for i, pair in enumerate(shown):
        low, high = pair["low"], pair["high"]
        if not math.isnan(low):
            axes.plot([low, high], [i, i], color=INK, lw=2)
        axes.plot([pair["mean_difference"]], [i], **point)
    axes.axvline(0, color=INK, lw=1, ls=":")
    axes.set_yticks(range(len(shown)), [name(p["label"], _WIDE) for p in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.margins(x=0.08)
    metric = shown[0]["metric"]
    dress(axes, "mean over clients, 95 % interval", f"difference in {metric}")
    return made
