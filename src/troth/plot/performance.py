"""Draw the performance of runs: over rounds, of each client, and in comparisons."""

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

_SORTED = 300  # largest number of points in a sorted line
_NAMED = 20  # largest number of runs with a label
_PAIRS = 20  # largest number of pairs of runs
_WIDE = 60  # largest number of characters in the label of a pair


def curves(runs: Several) -> Figure:
    """Draw the mean accuracy or error over benign clients at every evaluation.

    Personal models are on the left, shared models on the right. If runs have the same
    curve for the shared model, one line is drawn. Thin lines are means over the worst
    tenth of the clients. Unfinished runs are drawn up to their last evaluation.

    Args:
        runs: One run or several. Runs with another metric than the first one are left
            out.

    Returns:
        The figure.
    """
    mine, metric = style.alike([run for run in style.given(runs) if run.evaluated])
    if not mine:
        raise Refusal(
            "none of the runs has an evaluation yet; wait for the first one "
            "(evaluate.every)"
        )
    made = style.figure(9, 3.6)
    left, right = made.subplots(1, 2, sharex=True, sharey=True)
    apart = _apart(mine, metric)
    lines = [(left, run, "personal", place(run)) for run in mine]
    lines += [(right, run, "shared", at) for at, run in apart.items()]
    for axes, run, kind, at in lines:
        x, mean, worst = _points(run, kind, metric)
        axes.plot(x, mean, label=name(run), **style.line(at))
        axes.plot(x, worst, **style.line(at) | {"lw": 0.8, "alpha": 0.7})
    dress(left, "clients' own models (thin: worst tenth)", "round", metric)
    same = ", the same in all runs" if len(apart) == 1 < len(mine) else ""
    dress(right, f"the shared model{same}", "round")
    style.share(left, metric)
    style.legend(left)
    return made


def _apart(runs: list[Dossier], metric: str) -> dict[int, Dossier]:
    """Return color index → run, with one run per different curve of a shared model."""
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
    """Return whether a run trains only the shared model (personalizer `none`)."""
    return run.part("personalizer") == "none"


def _points(run: Dossier, kind: str, metric: str) -> tuple[list[int], Any, Any]:
    """Return rounds, means over clients, and means over the worst tenth.

    A missing value is NaN, and is not drawn.
    """
    rounds = [line["round"] + 1 for line in run.evaluated]
    tables = [line["evaluation"].get(kind) or {} for line in run.evaluated]
    mean, worst = (
        [v if isinstance(v := t.get(key), int | float) else math.nan for t in tables]
        for key in (f"{metric}_mean", f"{metric}_worst10")
    )
    return rounds, mean, worst


def clients(runs: Several) -> Figure:
    """Draw the accuracy or error of benign clients, sorted.

    On the left, the clients of each run are sorted by their own value. On the right,
    the clients are in the order of the run with the best mean. The right panel also
    shows the same clients with that run's shared model and with local training.

    Args:
        runs: One finished run or several. A run with personalizer `local` and the same
            clients is the baseline.

    Returns:
        The figure.
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
    dress(left, "clients of each model, sorted", "share of benign clients", metric)
    order = f"position among {n} benign clients, worst first"
    dress(right, f"clients in the order of {name(best)}", order)
    style.share(left, metric)
    style.legend(left, loc="best")
    style.legend(right, loc="best")
    return made


def _sorted(axes: Axes, run: Dossier, column: str, i: int, label: str) -> None:
    """Draw a line through a column's sorted values.

    If there are very many, an evenly spaced selection is drawn.
    """
    values = run.column(column)[run.judged]
    values = np.sort(values[~np.isnan(values)])
    if len(values):
        at = np.unique(np.linspace(0, len(values) - 1, _SORTED).astype(int))
        looks = style.line(i) | {"drawstyle": "steps-pre"}
        axes.plot((at + 1) / len(values), values[at], label=label, **looks)


def _beside(axes: Axes, first: Dossier, mine: list[Dossier], metric: str) -> int:
    """Draw a run's clients, worst first, with the same clients under the baselines.

    The baselines are local training and the shared model. Return the number of clients.
    """
    own = first.column(metric)
    who = np.flatnonzero(first.judged & ~np.isnan(own))
    worth = own if metric == "accuracy" else -own
    who = who[np.argsort(worth[who], kind="stable")]
    x, points = np.arange(len(who)), style.many(len(who))
    rest = [r for r in mine if r.part("personalizer") == "local" and r is not first]
    for local in [r for r in rest if len(r.column(metric)) == len(own)][:1]:
        look = style.mark(place(local)) | points
        axes.plot(x, local.column(metric)[who], label=name(local), **look)
    if not _plain(first):
        shared = first.column(f"shared_{metric}")
        at, label = SHARED, "shared model"
        for run in mine:  # if a run trains only this model, use its name and color
            its = run.column(f"shared_{metric}")
            if _plain(run) and np.array_equal(its, shared, equal_nan=True):
                at, label = place(run), name(run)
                break
        look = style.mark(at, hollow=True) | points
        axes.plot(x, shared[who], label=label, **look)
    axes.plot(x, own[who], label=name(first), **style.line(place(first)))
    return len(who)


def frontier(runs: Several) -> Figure:
    """Draw mean against standard deviation of accuracy (or error) over benign clients.

    For accuracy, higher is more accurate and further left is fairer. For errors, lower
    and further left are better. Hollow points are the shared models of the runs.

    Args:
        runs: One finished run or several. Each is one point.

    Returns:
        The figure.
    """
    mine, metric = style.finished(runs, "means over clients")
    made = style.figure(6.4, 4.2)
    axes = made.subplots()
    points = [(run.mean("shared", "std"), run.mean("shared")) for run in mine]
    there = {point for run, point in zip(mine, points, strict=True) if _plain(run)}
    for i, (run, shared) in enumerate(zip(mine, points, strict=True)):
        x, y = run.mean(what="std"), run.mean()
        if not _plain(run):
            if shared not in there:  # otherwise the point is drawn already
                axes.plot(*([v] for v in shared), **style.mark(SHARED, hollow=True))
            there.add(shared)
            axes.plot([x, shared[0]], [y, shared[1]], color=SOFT, lw=0.6, zorder=1)
        axes.plot([x], [y], **style.mark(place(run)) | {"markersize": 7})
        if i < _NAMED:
            beside: Any = {"textcoords": "offset points", "xytext": (7, -3)}
            axes.annotate(name(run), (x, y), size=8.5, color=INK, **beside)
    axes.margins(0.18, 0.12)
    what = "filled: own models; hollow: the shared model of the same run"
    dress(axes, what, f"standard deviation of {metric}", f"mean {metric}")
    return made


def pairs(runs: Several) -> Figure:
    """Draw mean differences, with 95 % intervals, of runs that differ in one setting.

    Runs that differ only in the seed are one method, and give one mean difference
    (`troth.evaluation.paired.paired`). If the setting is the personalizer, each method
    is also compared with local training.

    Args:
        runs: Two or more finished runs.

    Returns:
        The figure.
    """
    mine, _ = style.finished(runs, "comparisons")
    known = [(run.run, run.label) for run in mine if run.run is not None]
    found = compare.compare([r for r, _ in known], [label for _, label in known])
    return drawn([each for each in found if each["kind"] == "paired"])


def drawn(found: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw comparisons from `compare.compare`; raise Refusal if there are none."""
    if not found:
        raise Refusal(
            "no two of the runs differ in one setting only, with the same seed and "
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
    dress(axes, "mean over clients and seeds, 95 % interval", f"difference in {metric}")
    return made
