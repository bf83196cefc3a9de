"""What is proven of models, what they rely on, and what rules did to reports."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from troth.certificates.curves import Curves
from troth.plot import _style as style
from troth.plot._style import INK, LOCAL, SHARED, SOFT, Several, dress, name, place
from troth.runs.inspect import Audit, Certified, Dossier
from troth.types import Refusal

VERDICTS = ("dropped", "clipped", "chosen", "downweighted", "absent", "cut")
_TITLES = {"downweighted": "weighed down"}
_BINS, _MOST = 100, 60  # columns of rounds and rows of clients
_BLUE = to_rgb(style.SERIES[0])
_SHADES = LinearSegmentedColormap.from_list("troth", [(*_BLUE, 0.0), (*_BLUE, 1.0)])
_OWN = LOCAL + 1  # the place of personal models
_FEW = 20  # radii that are marked one by one
_FIRST = 3  # colours that no model of a small report has
_AUDITED = 80  # clients that are drawn one by one


def certified(runs: Several) -> Figure:
    """One panel per run and setting: the mean over clients, a band from least to most.

    Between two radii no more is claimed than at the larger one.
    """
    every = style.given(runs)
    found = [(run, each) for run in every for each in run.certified]
    if not found:
        raise Refusal(
            "none of the runs has certificates; make them by: troth "
            f"certify {every[0].path}"
        )
    columns = min(2, len(found))
    rows = -(-len(found) // columns)
    made = style.figure(4.5 * columns + 0.4, 3.6 * rows)
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
        _band(axes, each.curves[model], *looks[model])
    n = max(len(each.curves[model].clients) for model in models)
    title = f"{s['transform']}, σ = {s['sigma']}, α = {s['alpha']}, {n} clients"
    _radii(axes, title, each.unit, "certified accuracy")
    style.legend(axes)


def _band(axes: Axes, curve: Curves, at: int, label: str) -> None:
    """The mean over clients, and from the least to the most."""
    line, a = style.line(at), curve.accuracy
    step: Any = {"drawstyle": "steps-pre", "label": label}
    axes.plot(curve.radii, a.mean(axis=0), **line, **step)
    band = {"step": "pre", "color": line["color"], "alpha": 0.15, "lw": 0}
    axes.fill_between(curve.radii, a.min(axis=0), a.max(axis=0), **band)


def _radii(axes: Axes, title: str, unit: str, y: str = "") -> None:
    dress(axes, title, f"radius ({unit})", y)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(left=0)


def certificates(curves: Mapping[str, Curves], title: str, unit: str) -> Figure:
    """Certified accuracy by model: left the mean and its band, right every client."""
    made = style.figure(9, 3.8)
    made.suptitle(title, x=0.01, ha="left", size=11, color=INK)
    left, right = made.subplots(1, 2, sharex=True, sharey=True)
    for model, curve in curves.items():
        at = {"shared": SHARED, "local": LOCAL}.get(model, _OWN)
        _band(left, curve, at, model)
        fade = max(0.15, min(0.8, 5 / len(curve.clients)))
        looks: Any = {"drawstyle": "steps-pre", "color": style.hue(at), "alpha": fade}
        right.plot(curve.radii, curve.accuracy.T, lw=1, **looks)
        if len(curve.radii) <= _FEW:
            left.lines[-1].set(marker="o", markersize=3.5)
    clients = max(len(curve.clients) for curve in curves.values())
    several = f"mean of {clients} clients, band from the lowest to the highest"
    words = several if clients > 1 else "1 client"
    _radii(left, words, unit, "certified accuracy")
    _radii(right, "each client", unit)
    style.legend(left)
    return made


def audit(run: Several) -> Figure:
    """The change of every client with its interval, the largest first.

    Where conflicting examples are known, right of it the disparity that they show.
    """
    every = style.given(run)
    found = next((each.audit for each in every if each.audit), None)
    if found is None:
        raise Refusal(
            f"none of the runs is audited; do it by: troth audit {every[0].path}"
        )
    known, limit = "disparity" in found.table, float(found.settings.get("limit", 0.1))
    made = style.figure(9 if known else 6.4, 3.8)
    panels = made.subplots(1, 2 if known else 1, squeeze=False)[0]
    _changes(panels[0], found, limit)
    if known:
        t = found.table
        points = style.mark(_FIRST) | style.many(len(t["change"]))
        panels[1].plot(t["change"], t["disparity"], **points)
        panels[1].axvline(limit, color=SOFT, lw=1, ls=":")
        panels[1].axhline(limit, color=SOFT, lw=1, ls=":")
        dress(panels[1], "what conflicting test data say", "change", "disparity")
    return made


def _changes(axes: Axes, found: Audit, limit: float) -> None:
    t = found.table
    order = np.argsort(-np.nan_to_num(t["change"], nan=-2.0), kind="stable")
    n, order = len(order), order[:_AUDITED]
    suspect = t["suspect"][order]
    kinds = {
        "above the limit": suspect == 1,
        "not above it": suspect == 0,
        "open": np.isnan(suspect),
    }
    for i, (words, mine) in enumerate(kinds.items()):
        x, of, look = np.flatnonzero(mine), order[mine], _FIRST + i
        if len(x):
            ends = t["change_low"][of], t["change_high"][of]
            axes.vlines(x, *ends, color=style.hue(look))
            marks = style.mark(look, hollow=i > 0)
            axes.plot(x, t["change"][of], label=words, **marks)
    axes.axhline(limit, color=INK, lw=1, ls=":")
    some = f"{n} clients" if n == len(order) else f"{len(order)} of {n} clients"
    title = f"{some}; bars: 95 % intervals, dotted: the limit"
    dress(axes, title, "client, the largest change first", "change")
    step = max(1, len(order) // 12)
    names = [f"{int(k)}" for k in t["client"][order][::step]]
    axes.set_xticks(np.arange(len(order))[::step], names)
    style.legend(axes)


def verdicts(run: Several) -> Figure:
    """One panel per verdict: rounds along, clients down, dark where it fell often.

    Malicious clients stand below the line.

    Args:
        run: of several, the first on whose clients any verdict fell.
    """
    for one in style.given(run):
        found = {verdict: happened(one, verdict) for verdict in VERDICTS}
        found = {verdict: rows for verdict, rows in found.items() if len(rows)}
        if found:
            return _verdicts(one, found)
    raise Refusal(
        "no rule of these runs dropped, clipped, chose or weighed anyone down; rules "
        "that do are listed by: troth list filter, troth list aggregator"
    )


def happened(run: Dossier, verdict: str) -> np.ndarray:
    """[k, 2] round and client of every time that a verdict fell, as the rounds say."""
    found = []
    for line in run.rounds:
        said: Any = line.get(verdict) or []
        lists = said.values() if isinstance(said, dict) else [said]
        every = [k for each in lists if isinstance(each, list) for k in each]
        found += [(line["round"], k) for k in every if isinstance(k, int)]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _verdicts(run: Dossier, found: dict[str, np.ndarray]) -> Figure:
    rounds = max(1, run.total, *(int(rows[:, 0].max()) + 1 for rows in found.values()))
    bins, hostile = min(_BINS, rounds), set[int]()
    if run.clients is not None:
        hostile = {*np.flatnonzero(run.column("malicious") == 1).tolist()}
    made = style.figure(9, 0.6 + 2.6 * len(found))
    panels = made.subplots(len(found), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (verdict, rows) in zip(panels, found.items(), strict=True):
        who = _who(rows, hostile)
        seen = np.isin(rows[:, 1], who)
        place = {k: i for i, k in enumerate(who)}
        image = np.zeros((len(who), bins))
        at = [place[int(k)] for k in rows[seen, 1]]
        np.add.at(image, (at, rows[seen, 0] * bins // rounds), 1)
        looks: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
        looks["extent"] = (0, rounds, len(who) - 0.5, -0.5)
        axes.imshow(image, cmap=_SHADES, **looks)
        benign = sum(k not in hostile for k in who)
        if 0 < benign < len(who):
            axes.axhline(benign - 0.5, color=INK, lw=1)
        step = max(1, len(who) // 12)
        axes.set_yticks(np.arange(len(who))[::step], [str(k) for k in who[::step]])
        some = f", {len(who)} clients most often" if len(who) == _MOST else ""
        title = f"{_TITLES.get(verdict, verdict)}{some} (below the line: hostile)"
        dress(axes, title, "round" if axes is panels[-1] else "", "client")
        axes.grid(visible=False)
    return made


def _who(rows: np.ndarray, hostile: set[int]) -> list[int]:
    """Those on whom it fell most often; benign ones first."""
    ids, counts = np.unique(rows[:, 1], return_counts=True)
    most = ids[np.argsort(-counts, kind="stable")][:_MOST]
    return sorted((int(k) for k in most), key=lambda k: (k in hostile, k))
