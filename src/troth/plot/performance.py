"""Draw the performance of runs: over rounds, of each client, and in comparisons."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from troth.evaluation.paired import interval
from troth.plot import _style as drawing
from troth.plot._style import INK, SHARED, SOFT, Several, Style, Width
from troth.runs import compare
from troth.runs.inspect import Dossier
from troth.types import Refusal

_SORTED = 300  # largest number of points in a sorted line
_LINKED = 12  # largest number of runs with a line to their shared model
_PAIRS = 20  # largest number of pairs of runs
_WIDE = 48  # largest number of characters in a line of the label of a pair


def curves(runs: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw the mean accuracy or error over benign clients at every evaluation.

    Personal models are on the left, shared models on the right. If runs have the same
    curve for the shared model, one line is drawn. Thin lines are means over the worst
    tenth of the clients. Unfinished runs are drawn up to their last evaluation.

    Args:
        runs: One run or several. Runs with another metric than the first one are left
            out.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    mine, metric = _evaluated(runs)
    made, (left, right) = drawing.panels(2, width, style)
    looks = drawing.looks(mine)
    apart = _apart(mine, metric, [at for at, _ in looks])
    lines = [(left, r, "personal", *look) for r, look in zip(mine, looks, strict=True)]
    lines += [(right, run, "shared", at, "") for run, at in apart]
    for axes, run, kind, at, label in lines:
        x, mean, worst = _points(run, kind, metric)
        axes.plot(x, mean, label=label, **drawing.line(at))
        axes.plot(x, worst, **drawing.line(at) | {"lw": 0.8, "alpha": 0.7})
    _over_rounds(left, right, metric, "clients' own models (thin: worst tenth)")
    same = ", the same in all runs" if len(apart) == 1 < len(mine) else ""
    drawing.dress(right, f"the shared model{same}", "round")
    drawing.legend(made, left)
    return made


def seeds(runs: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw the mean over seeds at every evaluation, with a 95 % interval (Student).

    Runs that differ only in the seed are one line, and the band around it is the
    interval of their mean. A method with a single seed has no band. Personal models
    are on the left, shared models on the right.

    Args:
        runs: Several runs, such as the folder of a grid with a list of seeds. Runs with
            another metric than the first one are left out.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    mine, metric = _evaluated(runs)
    groups = drawing.methods(mine)
    firsts = [group[0] for group in groups]
    kinds = drawing.places([run.part("personalizer") for run in firsts])
    labels = drawing.apart([compare.without_seed(run.label) for run in firsts])
    made, both = drawing.panels(2, width, style)
    for axes, kind in zip(both, ("personal", "shared"), strict=True):
        for at, label, group in zip(kinds, labels, groups, strict=True):
            x, mean, half = _mean_of(group, kind, metric)
            count = f"{len(group)} seed{'s' if len(group) > 1 else ''}"
            axes.plot(x, mean, label=f"{label} ({count})", **drawing.line(at))
            band: Any = {"color": drawing.hue(at), "alpha": 0.13, "lw": 0}
            axes.fill_between(x, mean - half, mean + half, **band)
    _over_rounds(both[0], both[1], metric, "clients' own models, mean over seeds")
    drawing.dress(both[1], "the shared model; bands: 95 % intervals", "round")
    drawing.legend(made, both[0])
    return made


def _mean_of(runs: Sequence[Dossier], kind: str, metric: str) -> tuple[Any, Any, Any]:
    """Return the rounds that all runs evaluated, and mean and half width over runs."""
    every = []
    for run in runs:
        rounds, means, _ = _points(run, kind, metric)
        every.append(dict(zip(rounds, means, strict=True)))
    x = [r for r in every[0] if all(r in one for one in every)]
    both = [interval([one[r] for one in every]) for r in x]
    return np.array(x), *np.array(both).reshape(-1, 2).T


def _evaluated(runs: Several) -> tuple[list[Dossier], str]:
    """Return the runs with an evaluation, and their metric."""
    mine, metric = drawing.alike([run for run in drawing.given(runs) if run.evaluated])
    if not mine:
        raise Refusal(
            "none of the runs has an evaluation yet; wait for the first one "
            "(evaluate.every)"
        )
    return mine, metric


def _over_rounds(left: Axes, right: Axes, metric: str, title: str) -> None:
    """Let two panels share their axes, and number rounds by whole numbers."""
    right.sharex(left)
    right.sharey(left)
    left.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    drawing.dress(left, title, "round", metric)
    drawing.share(left, metric)


def _apart(
    runs: list[Dossier], metric: str, looks: list[int]
) -> list[tuple[Dossier, int]]:
    """Return one run, and its color index, for each different shared model."""
    found: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        found.setdefault(str(_points(run, "shared", metric)), []).append(i)
    plain = [i for i, run in enumerate(runs) if _plain(run)]
    if len(found) == 1 and not plain:
        return [(runs[0], SHARED)]
    firsts = [next((i for i in of if i in plain), of[0]) for of in found.values()]
    return [(runs[i], looks[i]) for i in firsts]


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


def clients(runs: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw the accuracy or error of benign clients, sorted.

    On the left, the clients of each run are sorted by their own value. On the right,
    the clients are in the order of the run with the best mean. The right panel also
    shows the same clients with that run's shared model and with local training.

    Args:
        runs: One finished run or several. A run with personalizer `local` and the same
            clients is the baseline.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    mine, metric = drawing.finished(runs, "clients")
    made, (left, right) = drawing.panels(2, width, style)
    right.sharey(left)
    looks = {r.path: look for r, look in zip(mine, drawing.looks(mine), strict=True)}
    for run in mine:
        _sorted(left, run, metric, *looks[run.path])
    if not any(_plain(run) for run in mine):
        _sorted(left, mine[0], f"shared_{metric}", SHARED, "shared model")
    sign = 1 if metric == "accuracy" else -1
    best = max(mine, key=lambda run: np.nan_to_num(sign * run.mean(), nan=-np.inf))
    n = _beside(right, best, mine, metric, looks)
    share = "share of benign clients"
    drawing.dress(left, "clients of each model, sorted", share, metric)
    order = f"position among {n} benign clients, worst first"
    drawing.dress(right, f"clients in the order of {drawing.name(best)}", order)
    drawing.share(left, metric)
    drawing.legend(made, left, right)
    return made


def _sorted(axes: Axes, run: Dossier, column: str, i: int, label: str) -> None:
    """Draw a line through a column's sorted values.

    If there are very many, an evenly spaced selection is drawn.
    """
    values = run.column(column)[run.judged]
    values = np.sort(values[~np.isnan(values)])
    if len(values):
        at = np.unique(np.linspace(0, len(values) - 1, _SORTED).astype(int))
        looks = drawing.line(i) | {"drawstyle": "steps-pre"}
        axes.plot((at + 1) / len(values), values[at], label=label, **looks)


def _beside(
    axes: Axes,
    first: Dossier,
    mine: list[Dossier],
    metric: str,
    looks: Mapping[Path, tuple[int, str]],
) -> int:
    """Draw a run's clients, worst first, with the same clients under the baselines.

    The baselines are local training and the shared model. Return the number of clients.
    """
    own = first.column(metric)
    who = np.flatnonzero(first.judged & ~np.isnan(own))
    worth = own if metric == "accuracy" else -own
    who = who[np.argsort(worth[who], kind="stable")]
    x, points = np.arange(len(who)), drawing.many(len(who))
    rest = [r for r in mine if r.part("personalizer") == "local" and r is not first]
    for local in [r for r in rest if len(r.column(metric)) == len(own)][:1]:
        at, label = looks[local.path]
        look = drawing.mark(at) | points
        axes.plot(x, local.column(metric)[who], label=label, **look)
    if not _plain(first):
        shared = first.column(f"shared_{metric}")
        at, label = SHARED, "shared model"
        for run in mine:  # if a run trains only this model, use its name and color
            its = run.column(f"shared_{metric}")
            if _plain(run) and np.array_equal(its, shared, equal_nan=True):
                at, label = looks[run.path]
                break
        look = drawing.mark(at, hollow=True) | points
        axes.plot(x, shared[who], label=label, **look)
    at, label = looks[first.path]
    axes.plot(x, own[who], label=label, **drawing.line(at))
    return len(who)


def frontier(runs: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw mean against standard deviation of accuracy (or error) over benign clients.

    For accuracy, higher is more accurate and further left is fairer. For errors, lower
    and further left are better. Hollow points are the shared models of the runs.

    Args:
        runs: One finished run or several. Each is one point.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    mine, metric = drawing.finished(runs, "means over clients")
    made, (axes,) = drawing.panels(1, width, style, 3.4)
    looks = drawing.looks(mine)
    few = len(mine) <= _LINKED
    points = [(run.mean("shared", "std"), run.mean("shared")) for run in mine]
    there = {point for run, point in zip(mine, points, strict=True) if _plain(run)}
    for run, shared, (at, label) in zip(mine, points, looks, strict=True):
        x, y = run.mean(what="std"), run.mean()
        if not _plain(run):
            if shared not in there:  # otherwise the point is drawn already
                axes.plot(*([v] for v in shared), **drawing.mark(SHARED, hollow=True))
            there.add(shared)
            if few:
                axes.plot([x, shared[0]], [y, shared[1]], color=SOFT, lw=0.6, zorder=1)
        size = {"markersize": 6 if few else 4.5}
        axes.plot([x], [y], label=label, **drawing.mark(at) | size)
    axes.margins(0.08, 0.08)
    linked = " of the same run" if few else "s"
    what = f"filled: own models; hollow: the shared model{linked}"
    drawing.dress(axes, what, f"standard deviation of {metric}", f"mean {metric}")
    drawing.legend(made, axes)
    return made


def pairs(runs: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw mean differences, with 95 % intervals, of runs that differ in one setting.

    Runs that differ only in the seed are one method, and give one mean difference
    (`troth.evaluation.paired.paired`). If the setting is the personalizer, each method
    is also compared with local training.

    Args:
        runs: Two or more finished runs.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    mine, _ = drawing.finished(runs, "comparisons")
    known = [(run.run, run.label) for run in mine if run.run is not None]
    found = compare.compare([r for r, _ in known], [label for _, label in known])
    return drawn([each for each in found if each["kind"] == "paired"], width, style)


def drawn(
    found: Sequence[Mapping[str, Any]], width: Width = "page", style: Style = "paper"
) -> Figure:
    """Draw comparisons from `compare.compare`; raise Refusal if there are none."""
    if not found:
        raise Refusal(
            "no two of the runs differ in one setting only, with the same seed and "
            "the same clients; give two that do"
        )
    shown = found[:_PAIRS]
    wide = 24 if width == "column" or style == "talk" else _WIDE
    labels = [textwrap.fill(drawing.name(p["label"], 2 * _WIDE), wide) for p in shown]
    rows = sum(label.count("\n") + 1.6 for label in labels)
    made, (axes,) = drawing.panels(1, width, style, 0.7 + 0.14 * rows)
    made.set_figheight(0.7 + 0.14 * rows)
    point: Any = {"marker": "o", "color": INK, "markersize": 5}
    for i, pair in enumerate(shown):
        low, high = pair["low"], pair["high"]
        if not math.isnan(low):
            axes.plot([low, high], [i, i], color=INK, lw=2)
        axes.plot([pair["mean_difference"]], [i], **point)
    axes.axvline(0, color=INK, lw=1, ls=":")
    axes.set_yticks(range(len(shown)), labels)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.margins(x=0.08)
    metric = shown[0]["metric"]
    drawing.dress(axes, "mean and 95 % interval", f"difference in {metric}")
    return made
