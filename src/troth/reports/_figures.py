"""Draw the pictures of the page as SVG in the colors of the reader's theme."""

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from troth import plot
from troth.files import METRICS
from troth.plot import _style
from troth.plot.performance import drawn
from troth.reports.cards import Deck
from troth.runs.inspect import Dossier
from troth.types import Refusal

_COLORS = {
    _style.INK: "var(--ink)",
    _style.SOFT: "var(--soft)",
    _style.GRID: "var(--line)",
    _style.PAPER: "var(--paper)",
} | {hex_: f"var(--s{i})" for i, hex_ in enumerate(_style.SERIES)}
_MOST = 12  # pictures of one kind, at most


class Picture(NamedTuple):
    """A picture as SVG, and its description."""

    svg: str
    says: str


def svg(made: Figure, salt: str) -> str:
    """Write a figure as small SVG; equal figures give equal bytes.

    `salt` makes the ids in this SVG different from the ids in other SVGs of the page.
    """
    out = io.StringIO()
    rc: Any = {"svg.fonttype": "none", "svg.hashsalt": salt}
    none: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context(rc), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that the font lacks
        made.savefig(out, format="svg", transparent=True, metadata=none)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<!--.*?-->", "", text, flags=re.S)
    # matplotlib's own ids (figure_1, axes_1 …) are the same in every figure
    text = re.sub(r'<g id="[a-zA-Z]+[\w.]*_\d+">', "<g>", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    styles = re.compile(r'(?<=style=")[^"]*')
    return styles.sub(lambda at: _themed(at[0]), text)


def _themed(style: str) -> str:
    for hex_, variable in _COLORS.items():
        style = style.replace(hex_, variable)
    return style


_Draws = Callable[..., Figure]
_Pictures = dict[str, tuple[_Draws, str]]
_METRIC: _Pictures = {
    "curves": (plot.curves, "Mean {} over rounds. Numbers: rounds.jsonl."),
    "frontier": (
        plot.frontier,
        "Mean {} against its standard deviation. Numbers: summary.json.",
    ),
    "pairs": (drawn, "Mean difference in {} between runs, with 95 % intervals."),
}
"""Pictures that are drawn once per metric: part → function, description."""
_RUN: _Pictures = {
    "verdicts": (
        plot.verdicts,
        "clients that the server dropped, clipped, chose or downweighted, by round. "
        "Numbers: rounds.jsonl.",
    ),
    "certified": (
        plot.certified,
        "certified accuracy over the radius, with a band from the lowest to the "
        "highest client (of a single client: its 95 % interval).",
    ),
    "audits": (
        plot.audit,
        "change of accuracy on adversarial examples of the shared model, for each "
        "client. Numbers: audit.csv.",
    ),
}
"""Pictures that are drawn once per run: part → function, description."""


def pictures(
    runs: Sequence[Dossier], decks: Sequence[Deck], compared: Sequence[dict[str, Any]]
) -> dict[str, list[Picture]]:
    """Draw the pictures of every part: per metric, per federation or per run."""
    found: dict[str, list[Picture]] = {k: [] for k in (*_METRIC, *_RUN, "clients")}

    def draw(part: str, salt: str, says: str, how: _Draws, of: Any) -> None:
        if of and len(found[part]) < _MOST:
            with contextlib.suppress(Refusal):  # there is nothing to draw
                found[part].append(Picture(svg(how(of), f"{part} {salt}"), says))

    paired = [pair for pair in compared if pair["kind"] == "paired"]
    for metric in METRICS:
        mine = [run for run in runs if run.metric == metric]
        some: dict[str, list[Any]] = {
            "curves": [run for run in mine if run.evaluated],
            "frontier": [run for run in mine if run.finished],
            "pairs": [pair for pair in paired if pair["metric"] == metric],
        }
        for part, (how, says) in _METRIC.items():
            draw(part, metric, says.format(metric), how, some[part])
    for part, (how, says) in _RUN.items():
        for i, run in enumerate(runs):
            draw(part, f"{i}", f"“{_style.name(run)}”: {says}", how, run)
    for i, deck in enumerate(decks):
        names = ", ".join(f"“{_style.name(run)}”" for run in deck.runs[:6])
        says = f"{names}: sorted {deck.runs[0].metric} of benign clients. Numbers: "
        draw("clients", f"{i}", f"{says}clients.csv.", plot.clients, deck.runs)
    return found
