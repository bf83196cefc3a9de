"""Who was dropped, clipped, chosen or weighed down, and when."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure

from troth.plot._style import INK, SERIES, Several, dress, figure, given
from troth.runs.inspect import Dossier
from troth.types import Refusal

NAMES = ("dropped", "clipped", "chosen", "downweighted", "absent", "cut")
_TITLES = {"downweighted": "weighed down"}
_BINS, _MOST = 100, 60
_BLUE = to_rgb(SERIES[0])
_SHADES = LinearSegmentedColormap.from_list("troth", [(*_BLUE, 0.0), (*_BLUE, 1.0)])


def verdicts(run: Several) -> Figure:
    """A panel a verdict: rounds along, clients down, dark where it fell on them often.

    Hostile clients stand below the line.

    Args:
        run: of several, the first on whose clients any verdict fell.
    """
    for one in given(run):
        found = {name: happened(one, name) for name in NAMES}
        found = {name: rows for name, rows in found.items() if len(rows)}
        if found:
            return _draw(one, found)
    raise Refusal(
        "no rule of these runs dropped, clipped, chose or weighed anyone down; rules "
        "that do are listed by: troth list filter, troth list aggregator"
    )


def happened(run: Dossier, name: str) -> np.ndarray:
    """[k, 2] round and client of every time that a verdict fell, as the rounds say."""
    found = []
    for line in run.rounds:
        said: Any = line.get(name) or []
        lists = said.values() if isinstance(said, dict) else [said]
        found += [
            (line["round"], k)
            for each in lists
            if isinstance(each, list)
            for k in each
            if isinstance(k, int)
        ]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _draw(run: Dossier, found: dict[str, np.ndarray]) -> Figure:
    rounds = max(1, run.total, *(int(rows[:, 0].max()) + 1 for rows in found.values()))
    bins = min(_BINS, rounds)
    hostile = _hostile(run)
    made = figure(9, 0.6 + 2.6 * len(found))
    panels = made.subplots(len(found), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (name, rows) in zip(panels, found.items(), strict=True):
        who = _who(rows, hostile)
        seen = np.isin(rows[:, 1], who)
        place = {k: i for i, k in enumerate(who)}
        image = np.zeros((len(who), bins))
        at = [place[int(k)] for k in rows[seen, 1]]
        np.add.at(image, (at, rows[seen, 0] * bins // rounds), 1)
        extent = (0, rounds, len(who) - 0.5, -0.5)
        style: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest"}
        axes.imshow(image, extent=extent, cmap=_SHADES, **style)
        benign = sum(k not in hostile for k in who)
        if 0 < benign < len(who):
            axes.axhline(benign - 0.5, color=INK, lw=1)
        step = max(1, len(who) // 12)
        axes.set_yticks(np.arange(len(who))[::step], [str(k) for k in who[::step]])
        some = f", {len(who)} clients most often" if len(who) == _MOST else ""
        title = f"{_TITLES.get(name, name)}{some} (below the line: hostile)"
        dress(axes, title, "round" if axes is panels[-1] else "", "client")
        axes.grid(visible=False)
    return made


def _hostile(run: Dossier) -> set[int]:
    if run.clients is None:
        return set()
    bad = run.clients["malicious"] == 1
    return {int(k) for k in run.clients["client"][bad]}


def _who(rows: np.ndarray, hostile: set[int]) -> list[int]:
    """Those on whom it fell most often; benign ones first."""
    ids, counts = np.unique(rows[:, 1], return_counts=True)
    most = ids[np.argsort(-counts, kind="stable")][:_MOST]
    return sorted((int(k) for k in most), key=lambda k: (k in hostile, k))
