"""Draw certificates, audits, and updates that were dropped, clipped or chosen."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from troth.certificates.curves import Curves
from troth.plot import _style as drawing
from troth.plot._style import INK, LOCAL, SHARED, SOFT, Several, Style, Width
from troth.runs.inspect import Audit, Dossier
from troth.types import Refusal

VERDICTS = ("dropped", "clipped", "chosen", "downweighted", "absent", "cut")
_BINS, _MOST = 100, 60  # largest numbers of columns (rounds) and of rows (clients)
_BLUE = to_rgb(drawing.SERIES[0])
_SHADES = LinearSegmentedColormap.from_list("troth", [(*_BLUE, 0.0), (*_BLUE, 1.0)])
_OWN = LOCAL + 1  # color index of personal models
_FEW = 20  # up to this number of radii, each has a marker
_SEPARATE = 10  # up to this number of clients, their intervals are drawn
_FIRST = 3  # first color index of audits; reports with few models do not use it
_AUDITED = 80  # largest number of clients in the picture of an audit


def certified(
    runs: Several, *, width: Width = "page", style: Style = "paper"
) -> Figure:
    """Draw certified accuracy over the radius, one panel per run and setting.

    A setting is a kind and size of noise. The line is the mean over clients.
    The band reaches from the lowest client to the highest. If there is only one client,
    the band is the 95 % interval. Between two radii, the curve has the value at the
    larger radius.

    Args:
        runs: One run or several. Runs without certificates are left out.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    every = drawing.given(runs)
    found = [(run, each) for run in every for each in run.certified]
    if not found:
        raise Refusal(
            "none of the runs has certificates; make them with: troth certify "
            f"{every[0].path}"
        )
    made, panels = drawing.panels(len(found), width, style)
    for axes, (run, each) in zip(panels, found, strict=False):
        s = each.settings
        looks = {"personal": (drawing.place(run), drawing.name(run))}
        looks |= {"shared": (SHARED, "shared model"), "local": (LOCAL, "local")}
        mine = [model for model in looks if model in each.curves]
        for model in mine:
            _band(axes, each.curves[model], *looks[model])
        n = max(len(each.curves[model].clients) for model in mine)
        title = f"{s['transform']}, σ = {s['sigma']}, α = {s['alpha']}, {n} clients"
        _radii(axes, title, each.unit, "certified accuracy")
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    drawing.legend(made, *panels)
    return made


def _band(axes: Axes, curve: Curves, at: int, label: str) -> None:
    """Draw the mean over clients, and a band from the lowest client to the highest.

    The band of a single client is its 95 % interval.
    """
    line, a = drawing.line(at), curve.accuracy
    low, high = (a, a) if len(a) > 1 else curve.interval()
    step: Any = {"drawstyle": "steps-pre", "label": label}
    axes.plot(curve.radii, a.mean(axis=0), **line, **step)
    band = {"step": "pre", "color": line["color"], "alpha": 0.15, "lw": 0}
    axes.fill_between(curve.radii, low.min(axis=0), high.max(axis=0), **band)


def _radii(axes: Axes, title: str, unit: str, y: str = "") -> None:
    drawing.dress(axes, title, f"radius ({unit})", y)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(left=0)


def certificates(curves: Mapping[str, Curves], title: str, unit: str) -> Figure:
    """Draw certified accuracy by model: means on the left, each client on the right.

    Args:
        curves: Curves by kind of model: personal, shared or local.
        title: Title of the figure.
        unit: Unit of the radii.
    """
    made, (left, right) = drawing.panels(2, "page", "paper", 2.9)
    made.suptitle(title, x=0.01, ha="left", size=9, color=INK)
    right.sharex(left)
    right.sharey(left)
    clients = max(len(curve.clients) for curve in curves.values())
    for model, curve in curves.items():
        at = {"shared": SHARED, "local": LOCAL}.get(model, _OWN)
        _band(left, curve, at, model)
        fade = max(0.15, min(0.8, 5 / len(curve.clients)))
        looks: Any = {"drawstyle": "steps-pre", "color": drawing.hue(at), "alpha": fade}
        right.plot(curve.radii, curve.accuracy.T, lw=1, **looks)
        if clients <= _SEPARATE:
            for low, high in zip(*curve.interval(), strict=True):
                band: Any = {"color": drawing.hue(at), "alpha": 0.06, "lw": 0}
                right.fill_between(curve.radii, low, high, step="pre", **band)
        if len(curve.radii) <= _FEW:
            left.lines[-1].set(marker="o", markersize=3.5)
    several = f"mean of {clients} clients, band from the lowest to the highest"
    words = several if clients > 1 else "1 client, with its 95 % interval"
    _radii(left, words, unit, "certified accuracy")
    intervals = ", with 95 % intervals" if clients <= _SEPARATE else ""
    _radii(right, f"each client{intervals}", unit)
    drawing.legend(made, left)
    return made


def audit(run: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw the change of audited clients with 95 % intervals, the largest change first.

    Adversarial examples are made for the shared model. The change is the accuracy of a
    client's model on them minus that of the shared model. At most 80 clients are drawn.
    In conflicting examples, a shortcut points to the wrong label. If they are known, a
    second panel shows the disparity: the accuracy of the client's model on test data
    minus that on conflicting examples.

    Args:
        run: An audited run. If there are several runs, the first audited one is drawn.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    every = drawing.given(run)
    found = next((each.audit for each in every if each.audit), None)
    if found is None:
        raise Refusal(
            f"none of the runs is audited; audit one with: troth audit {every[0].path}"
        )
    t, limit = found.table, float(found.settings.get("limit", 0.1))
    known = "disparity" in t
    made, panels = drawing.panels(2 if known else 1, width, style, 2.8)
    _changes(panels[0], found, limit)
    if known:
        points = drawing.mark(_FIRST) | drawing.many(len(t["change"]))
        panels[1].plot(t["change"], t["disparity"], **points)
        panels[1].axvline(limit, color=SOFT, lw=1, ls=":")
        panels[1].axhline(limit, color=SOFT, lw=1, ls=":")
        title = "disparity on conflicting test data"
        drawing.dress(panels[1], title, "change", "disparity")
    drawing.legend(made, panels[0])
    return made


def _changes(axes: Axes, found: Audit, limit: float) -> None:
    t = found.table
    order = np.argsort(-np.nan_to_num(t["change"], nan=-2.0), kind="stable")
    n, order = len(order), order[:_AUDITED]
    suspect = t["suspect"][order]
    kinds = {
        "above the limit": suspect == 1,
        "not above it": suspect == 0,
        "undecided": np.isnan(suspect),
    }
    for i, (words, mine) in enumerate(kinds.items()):
        x, of, look = np.flatnonzero(mine), order[mine], _FIRST + i
        if len(x):
            ends = t["change_low"][of], t["change_high"][of]
            axes.vlines(x, *ends, color=drawing.hue(look))
            marks = drawing.mark(look, hollow=i > 0)
            axes.plot(x, t["change"][of], label=words, **marks)
    axes.axhline(limit, color=INK, lw=1, ls=":")
    some = f"{n} clients" if n == len(order) else f"{len(order)} of {n} clients"
    title = f"{some}. Bars: 95 % intervals. Dotted: the limit"
    drawing.dress(axes, title, "client, the largest change first", "change")
    step = max(1, -(-len(order) // 12))
    names = [f"{int(k)}" for k in t["client"][order][::step]]
    axes.set_xticks(np.arange(len(order))[::step], names)


def verdicts(run: Several, *, width: Width = "page", style: Style = "paper") -> Figure:
    """Draw whose updates filters and the aggregator dropped, clipped or chose.

    There is one panel per verdict, such as dropped or clipped. Columns are rounds and
    rows are clients. The darker a cell, the more often the client's updates got the
    verdict. Malicious clients are below the horizontal line.

    Args:
        run: A run. If there are several runs, the first with a verdict is drawn.
        width: "column" or "page": the width of the figure in a paper.
        style: "paper" or "talk".

    Returns:
        The figure.
    """
    for one in drawing.given(run):
        found = {verdict: happened(one, verdict) for verdict in VERDICTS}
        found = {verdict: rows for verdict, rows in found.items() if len(rows)}
        if found:
            return _verdicts(one, found, width, style)
    raise Refusal(
        "the server of these runs dropped, clipped, chose or downweighted no update; "
        "filters and aggregators that do so are listed by: troth list filter, "
        "troth list aggregator"
    )


def happened(run: Dossier, verdict: str) -> np.ndarray:
    """Return round and client of each update with this verdict, [k, 2].

    The verdicts are read from `rounds.jsonl` of the run.
    """
    found = []
    for line in run.rounds:
        ids: Any = line.get(verdict) or []
        lists = ids.values() if isinstance(ids, dict) else [ids]
        every = [k for each in lists if isinstance(each, list) for k in each]
        found += [(line["round"], k) for k in every if isinstance(k, int)]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _verdicts(
    run: Dossier, found: dict[str, np.ndarray], width: Width, style: Style
) -> Figure:
    rounds = max(1, run.total, *(int(rows[:, 0].max()) + 1 for rows in found.values()))
    bins, bad = min(_BINS, rounds), np.zeros(0)
    bad = bad if run.clients is None else run.column("malicious")
    malicious = {*np.flatnonzero(bad == 1).tolist()}
    made, panels = drawing.panels(len(found), width, style, 2.2, columns=1)
    for axes, (verdict, rows) in zip(panels, found.items(), strict=True):
        ids, counts = np.unique(rows[:, 1], return_counts=True)
        most = ids[np.argsort(-counts, kind="stable")][:_MOST].tolist()
        who = sorted(most, key=lambda k: (k in malicious, k))  # benign ones first
        seen = np.isin(rows[:, 1], who)
        place = {k: i for i, k in enumerate(who)}
        image = np.zeros((len(who), bins))
        at = [place[int(k)] for k in rows[seen, 1]]
        np.add.at(image, (at, rows[seen, 0] * bins // rounds), 1)
        looks: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
        looks["extent"] = (0, rounds, len(who) - 0.5, -0.5)
        axes.imshow(image, cmap=_SHADES, **looks)
        benign = sum(k not in malicious for k in who)
        if 0 < benign < len(who):
            axes.axhline(benign - 0.5, color=INK, lw=1)
        step = max(1, -(-len(who) // 12))
        axes.set_yticks(np.arange(len(who))[::step], [str(k) for k in who[::step]])
        some = f", {len(who)} clients most often" if len(who) == _MOST else ""
        title = f"{verdict}{some} (below the line: malicious)"
        drawing.dress(axes, title, "round" if axes is panels[-1] else "", "client")
        axes.grid(visible=False)
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    return made
