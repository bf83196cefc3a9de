"""Draw the pictures of the page, as SVG that needs no script and prints as it is.

The page's script adds what a pointer shows, from the numbers in `data-` attributes.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from troth.certificates.curves import Curves
from troth.files import METRICS
from troth.plot._style import LOCAL, SHARED, place
from troth.plot.trust import VERDICTS, happened
from troth.reports._marks import (
    Scale,
    color,
    dots,
    legend,
    line,
    path,
    plot,
    scale,
    steps,
)
from troth.reports.cards import Deck
from troth.reports.cards._choice import Chooser
from troth.reports.cards._reading import name, quoted
from troth.reports.cards._worlds import Model, models
from troth.runs.compare import number, signed
from troth.runs.inspect import Dossier

_DASHES = ("", "7 4", "7 3 1 3", "2 3", "9 3 1 3 1 3", "1 2", "12 4", "4 2 1 2")
_LANES, _MOST = 8, 12  # models of a strip, and pictures of one kind, at most
_BINS, _ROWS = 100, 60  # columns of rounds and rows of clients of a heat map, at most
_WIDE = 1050  # pixels of a picture on a usual screen, for which dots are laid out
_SHADES = 4


class Picture(NamedTuple):
    """A picture, and its caption."""

    html: Markup
    says: str


def model_color(model: Model) -> str:
    """Return the color of a model."""
    plain = model.kind == "personal" or model.run.part("personalizer") == "none"
    return color(place(model.run) if plain else SHARED)


# Every client of every model


def swarm(
    x: np.ndarray, last: np.ndarray, dot: float, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lay out dots at positions x so that they do not hide each other.

    Dots closer than a dot's width form a group. A group has at most `rows` dots above
    each other, and further ones are side by side, up to the next group and within the
    ends of the axis. If this is too close, all rows overlap equally, so that heights
    still compare.

    Args:
        x: [n] positions from 0 to 1000.
        last: [n] dots that are placed at the outer ends of their group.
        dot: Width of a dot.
        rows: Number of dots that fit above each other.

    Returns:
        New positions, and heights in rows (0 in the middle).
    """
    group = np.round(x / dot)
    order = np.lexsort((last, group))
    places, first, counts = np.unique(
        group[order], return_index=True, return_counts=True
    )
    rank = np.empty(len(x), int)
    rank[order] = np.arange(len(x)) - np.repeat(first, counts)
    gaps = np.diff(places, prepend=-np.inf, append=np.inf)
    room = np.minimum(np.minimum(gaps[:-1], gaps[1:]) * 0.8, len(x)).astype(int)
    wide = np.minimum(-(-counts // rows), np.maximum(1, room))
    end = 1000 / dot
    beyond = (places - (wide - 1) / 2 < 0) | (places + (wide - 1) / 2 > end)
    wide = np.where(beyond, np.clip(room * 5 // 8, 1, wide), wide)
    fits = min(1.0, rows / max(1, (-(-counts // wide)).max(initial=1)))
    at = np.searchsorted(places, group)
    side, level = rank % wide[at] - (wide[at] - 1) / 2, rank // wide[at]
    height = (level + 1) // 2 * np.where(level % 2, 1, -1)
    half = (wide[at] - 1) / 2 * dot  # groups at the ends stay within the axis
    middle = np.clip(x, np.minimum(half, 500), np.maximum(1000 - half, 500))
    return middle + side * dot, height * fits


def strips(deck: Deck) -> Markup:
    """Draw every client as a dot, one row per model; malicious clients are rings."""
    first, metric = deck.runs[0], deck.runs[0].metric
    listed = models(deck.runs)
    ranked = Chooser(deck.runs).models[:_LANES]
    n, bad = len(deck.ids), first.column("malicious") == 1
    columns = 3 + bool(deck.owners)
    axis = scale(
        *(m.values for m in ranked), most=1 if metric == "accuracy" else math.inf
    )
    size = 7 if n <= 200 else 5 if n <= 2000 else 3
    lane, rem = 1000 / len(ranked), 5.0
    marks, texts = [], []
    for i, model in enumerate(ranked):
        known = np.flatnonzero(np.isfinite(model.values))
        pixel = lane / (rem * 16)  # one pixel in units of the SVG
        rows = int(0.66 * lane / pixel / (size + 1))
        dot, at = 1000 * (size + 1) / _WIDE, axis.to(model.values[known])
        x, row = swarm(at, bad[known], dot, rows)
        y = (i + 0.6) * lane + row * (size + 1) * pixel
        look = f"stroke:{model_color(model)};stroke-width:{size}"
        column = columns + [m.label for m in listed].index(model.label)
        for kind, who in (("benign", ~bad[known]), ("malicious", bad[known])):
            if who.any():
                d, data = dots(x[who], y[who]), {"data_column": column}
                marks.append(path(d, "dots", style=look, data_role=kind, **data))
                if (
                    kind == "malicious"
                ):  # a ring: a smaller dot of the background on top
                    inner = f"stroke:var(--paper);stroke-width:{size - 2.5:g}"
                    marks.append(path(d, "dots", style=inner))
        worst = model.run.mean(model.kind, "worst10")
        ends = [(i + 0.27) * lane, (i + 0.93) * lane]
        for value, kind in ((model.mean, "mean"), (worst, "worst")):
            if np.isfinite(value):
                marks.append(path(line([*axis.to([value] * 2)], ends), kind))
        has = f"mean {number(model.mean, metric)}, worst tenth {number(worst, metric)}"
        texts.append(
            Markup('<i class="lane" style="top:{:.1f}%"><b>{}</b> {}</i>').format(
                100 * i / len(ranked), model.label, has
            )
        )
    says = f"{metric} of {n} clients with {len(ranked)} models, one dot per client"
    return plot(
        marks, says, rem * len(ranked), axis, None, (metric, ""), texts, "story"
    )


# Lines


def _series(x: Any, texts: Sequence[str], at: int, label: str) -> dict[str, Any]:
    """Return the looks of a line, and what a pointer shows of it."""
    look = f"stroke:{color(at)};stroke-dasharray:{_DASHES[at % 8] or 'none'}"
    said = json.dumps([[float(a), t] for a, t in zip(x, texts, strict=True)])
    return {"style": look, "data_name": label, "data_values": said}


def rounds(runs: Sequence[Dossier], metric: str) -> Markup:
    """Draw means and worst tenths over rounds: personal models, then shared ones."""
    lines: dict[str, list[tuple[Dossier, list[float], list[float], list[float]]]] = {}
    for kind in ("personal", "shared"):
        seen = set()
        for run in runs:
            x = [each["round"] + 1 for each in run.evaluated]
            tables = [each["evaluation"].get(kind) or {} for each in run.evaluated]
            mean, worst = (
                [
                    v if isinstance(v := t.get(key), int | float) else math.nan
                    for t in tables
                ]
                for key in (f"{metric}_mean", f"{metric}_worst10")
            )
            if kind == "personal" or str((x, mean)) not in seen:
                lines.setdefault(kind, []).append((run, x, mean, worst))
            seen.add(str((x, mean)))
    every = [
        y
        for found in lines.values()
        for _, _, mean, worst in found
        for y in mean + worst
    ]
    y = scale(every, most=1 if metric == "accuracy" else math.inf)
    across = scale([0, *(max(x) for _, x, _, _ in lines["personal"])])
    heads = {"personal": "clients' own models", "shared": "shared model"}
    panels = []
    for kind, found in lines.items():
        marks = []
        for run, x, mean, worst in found:
            alone = kind == "shared" and len(found) == 1
            at = SHARED if alone else place(run)
            px = across.to(x)
            thin = line(px, 1000 - y.to(worst))
            looks = _series(x, [number(v, metric) for v in mean], at, name(run))
            marks.append(path(thin, "thin", style=f"stroke:{color(at)}"))
            marks.append(path(line(px, 1000 - y.to(mean)), "line", **looks))
            if len(x) == 1:
                ink = f"stroke:{color(at)};stroke-width:6"
                marks.append(path(dots(px, 1000 - y.to(mean)), "dots", style=ink))
        says = f"mean {metric} of the {heads[kind]} over rounds"
        ends = {"data_low": across.low, "data_high": across.high, "data_unit": "round"}
        named = ("round", f"{metric}, {heads[kind]}")
        panels.append(plot(marks, says, 13, across, y, named, (), "lines", **ends))
    names = {name(run): (color(place(run)), _DASHES[place(run) % 8]) for run in runs}
    return Markup('<div class="pair">{}</div>{}').format(
        Markup().join(panels), legend(names)
    )


def certified(run: Dossier) -> Markup:
    """Draw certified accuracy over the radius, with bands over clients."""
    if not run.certified:
        return Markup()
    panels, names = [], {}
    looks = {"personal": (place(run), name(run)), "local": (LOCAL, "local")}
    looks["shared"] = (SHARED, "shared model")
    for each in run.certified:
        s, marks = each.settings, []
        x = scale(0.0, *(curve.radii for curve in each.curves.values()))
        y = Scale(0.0, 1.0, 0.25)
        for kind, curve in each.curves.items():
            at, label = looks[kind]
            px, mean = x.to(curve.radii), curve.accuracy.mean(axis=0)
            low, high = _band(curve)
            (a, top), (b, under) = (steps(px, 1000 - y.to(end)) for end in (high, low))
            band = line([*a, *b[::-1]], [*top, *under[::-1]])
            texts = [number(float(v)) for v in mean]
            found = _series(curve.radii.round(4), texts, at, label)
            marks.append(path(band, "band", style=f"fill:{color(at)}"))
            corners = line(*steps(px, 1000 - y.to(mean)))
            marks.append(path(corners, "line", **found))
            names[label] = color(at), _DASHES[at % 8]
        n = max(len(curve.clients) for curve in each.curves.values())
        says = f"{s['transform']}, σ = {s['sigma']}, {n} clients"
        ends = {"data_low": x.low, "data_high": x.high, "data_unit": "radius"}
        heads = (f"radius ({each.unit})", f"certified accuracy: {says}")
        panels.append(plot(marks, heads[1], 13, x, y, heads, (), "lines", **ends))
    return Markup('<div class="pair">{}</div>{}').format(
        Markup().join(panels), legend(names)
    )


def _band(curve: Curves) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and highest client; of a single client, its 95 % interval."""
    a = curve.accuracy
    low, high = (a, a) if len(a) > 1 else curve.interval()
    return low.min(axis=0), high.max(axis=0)


# Clients by rounds, and intervals


def verdicts(run: Dossier) -> Markup:
    """Draw whose updates were dropped, clipped or chosen: clients × rounds."""
    found = {v: rows for v in VERDICTS if len(rows := happened(run, v))}
    if not found:
        return Markup()
    total = max(1, run.total, *(int(rows[:, 0].max()) + 1 for rows in found.values()))
    bins, across = min(_BINS, total), scale([0, total])._replace(high=total)
    column = np.zeros(0) if run.clients is None else run.column("malicious")
    bad, panels = {*np.flatnonzero(column == 1).tolist()}, []
    for verdict, rows in found.items():
        ids, counts = np.unique(rows[:, 1], return_counts=True)
        most = ids[np.argsort(-counts, kind="stable")][:_ROWS].tolist()
        who = sorted(most, key=lambda k: (k in bad, k))  # benign ones first
        at = {k: i for i, k in enumerate(who)}
        image = np.zeros((len(who), bins), int)
        mine = rows[np.isin(rows[:, 1], who)]
        cells = (
            np.array([at[int(k)] for k in mine[:, 1]], int),
            mine[:, 0] * bins // total,
        )
        np.add.at(image, cells, 1)
        shade = np.ceil(_SHADES * image / image.max()).astype(int)
        wide, high = 1000 / bins, 1000 / len(who)
        marks = []
        for k in range(1, _SHADES + 1):
            spots = np.argwhere(shade == k)
            box = f"h{wide:.1f}v{high:.1f}h-{wide:.1f}z"
            d = "".join(f"M{j * wide:.1f} {i * high:.1f}{box}" for i, j in spots)
            marks.append(path(d, "cell", style=f"opacity:{k / _SHADES:g}"))
        benign = sum(k not in bad for k in who)
        texts = _rows(who, benign)
        if 0 < benign < len(who):
            marks.append(path(f"M0 {benign * high:.0f}H1000", "mean"))
        some = f", the {_ROWS} clients most often" if len(who) == _ROWS else ""
        says = f"{verdict}{some}, by client and round"
        grid = {"data_rows": json.dumps(who), "data_high": total, "data_bins": bins}
        grid["data_counts"] = json.dumps(image.tolist(), separators=(",", ":"))
        rem = min(20.0, max(3.0, 0.95 * len(who)))
        head = ("round", f"{verdict}{some}")
        panels.append(
            plot(marks, says, rem, across, None, head, texts, "heat tall", **grid)
        )
    return Markup('<div class="pair">{}</div>').format(Markup().join(panels))


def _rows(who: list[int], benign: int) -> list[Markup]:
    """Return the labels of some rows of a heat map."""
    every = -(-len(who) // 21)
    label = '<i class="y" style="bottom:{:.1f}%">{}</i>'
    found = [
        Markup(label).format(100 - 100 * (i + 0.5) / len(who), k)
        for i, k in enumerate(who)
        if i % every == 0
    ]
    group = Markup('<i class="group" style="top:{:.1f}%">{}</i>')
    some = [(0, "benign", benign), (benign, "malicious", len(who) - benign)]
    return found + [group.format(100 * i / len(who), w) for i, w, n in some if n]


def interval(low: float, mean: float, high: float, axis: Scale) -> Markup:
    """Draw one interval on a scale with a line at 0, as a cell of a table."""
    zero = path(line(axis.to([0, 0]), [0, 1000]), "mean")
    bar = "" if math.isnan(low) else line(axis.to([low, high]), [500, 500])
    parts = [
        zero,
        path(bar, "bar"),
        path(dots(axis.to([mean]), [500]), "dots point"),
    ]
    return Markup(
        '<svg class="interval" viewBox="0 0 1000 1000" preserveAspectRatio="none" '
        'aria-hidden="true">{}</svg>'
    ).format(Markup().join(parts))


def audit(run: Dossier) -> Markup:
    """Draw the change of every audited client with its interval, the largest first."""
    if run.audit is None:
        return Markup()
    t, limit = run.audit.table, float(run.audit.settings["limit"])
    order = np.argsort(-np.nan_to_num(t["change"], nan=-2.0), kind="stable")
    y = scale(t["change"], t["change_low"], t["change_high"], [0, limit])
    x = np.round(1000 * (np.arange(len(order)) + 0.5) / len(order))
    marks = [path(line([0, 1000], 1000 - y.to([limit] * 2)), "mean")]
    kinds = {"above": t["suspect"] == 1, "below": t["suspect"] == 0}
    kinds["open"] = np.isnan(t["suspect"])
    for kind, mine in kinds.items():
        at = np.flatnonzero(mine[order] & ~np.isnan(t["change"][order]))
        of = order[at]
        ends = 1000 - np.stack([y.to(t[f"change_{e}"][of]) for e in ("low", "high")])
        bars = "".join(line([a, a], two) for a, two in zip(x[at], ends.T, strict=True))
        marks.append(path(bars, f"bar {kind}"))
        marks.append(
            path(dots(x[at], 1000 - y.to(t["change"][of])), f"dots point {kind}")
        )
    said = [
        [int(t["client"][i]), *(signed(float(t[k][i]), "accuracy") for k in _CHANGE)]
        for i in order
    ]
    says = f"change of {len(order)} clients, with 95 % intervals; line: limit {limit:g}"
    heads = ("clients, the largest change first", f"change (line: limit {limit:g})")
    more = {"data_changes": json.dumps(said)}
    return plot(marks, says, 13, None, y, heads, (), "audit", **more)


_CHANGE = ("change", "change_low", "change_high")


def pictures(runs: Sequence[Dossier]) -> dict[str, list[Picture]]:
    """Draw the pictures of every part: per metric or per run."""
    found: dict[str, list[Picture]] = {k: [] for k in ("rounds", *_RUN)}
    for metric in METRICS:
        mine = [run for run in runs if run.metric == metric and run.evaluated]
        if mine:
            says = f"Mean {metric} of benign clients. Thin lines: the worst tenth."
            found["rounds"].append(Picture(rounds(mine, metric), says))
    for part, (draw, says) in _RUN.items():
        for run in runs:
            if len(found[part]) < _MOST and (html := draw(run)):
                found[part].append(Picture(html, f"{quoted(run)}: {says}"))
    return found


_RUN: dict[str, tuple[Callable[[Dossier], Markup], str]] = {
    "verdicts": (verdicts, "a darker cell is more often."),
    "certified": (
        certified,
        "certified accuracy by radius; band: lowest to highest client (of one client: "
        "its 95 % interval).",
    ),
    "audits": (
        audit,
        "change of accuracy on adversarial examples of the shared model. Filled: above "
        "the limit; rings: not above; gray: undecided.",
    ),
}
"""Pictures that are drawn once per run: part → function, caption."""
