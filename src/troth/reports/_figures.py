"""Pictures inside the page: SVG with the colors of the reader's theme."""

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
_MOST = 12  # pictures of one sort


class Picture(NamedTuple):
    """An SVG, and its description."""

    svg: str
    says: str


def svg(made: Figure, salt: str) -> str:
    """Write a figure as small SVG with the same bytes every time.

    `salt` makes its ids differ from those of other figures on the page.
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


_Pictures = dict[str, tuple[Callable[..., Figure], str]]
_METRIC: _Pictures = {
    "curves": (plot.curves, "Mean {} over rounds. Numbers: rounds.jsonl."),
    "frontier": (
        plot.frontier,
        "Mean {} against its standard deviation. Numbers: summary.json.",
    ),
    "pairs": (drawn, "Mean difference in {} between runs, with 95 % intervals."),
}
"""One picture per metric: part → function, description."""
_RUN: _Pictures = {
    "verdicts": (
        plot.verdicts,
        "clients that rules dropped, clipped, chose or downweighted in each round. "
        "Numbers: rounds.jsonl.",
    ),
    "certified": (
        plot.certified,
        "certified accuracy over the radius, with a band from the lowest to the "
        "highest client.",
    ),
    "audits": (
        plot.audit,
        "change of accuracy on adversarial examples of the shared model, for each "
        "client. Numbers: audit.csv.",
    ),
}
"""One picture per run: part → function, description."""


def pictures(
    runs: Sequence[Dossier], decks: Sequence[Deck], compared: Sequence[dict[str, Any]]
) -> dict[str, list[Picture]]:
    """Draw the pictures of every part: per metric, per federation or per run."""
    some: dict[str, list[tuple[str, Any]]] = {
        "curves": [(run.metric, run) for run in runs if run.evaluated],
        "frontier": [(run.metric, run) for run in runs if run.finished],
        "pairs": [(p["metric"], p) for p in compared if p["kind"] == "paired"],
    }
    found = {part: _by_metric(*_METRIC[part], each) for part, each in some.items()}
    found |= {part: _by_run(*how, runs) for part, how in _RUN.items()}
    return found | {"clients": _clients(decks)}


def _tried(
    salt: str, says: str, draw: Callable[..., Figure], *args: Any
) -> list[Picture]:
    """Draw a picture, or none where there is nothing to draw."""
    try:
        return [Picture(svg(draw(*args), salt), says)]
    except Refusal:
        return []


def _by_metric(
    draw: Callable[..., Figure], says: str, some: Sequence[tuple[str, Any]]
) -> list[Picture]:
    """Draw one picture per metric; `says` has a place for its name."""
    found: list[Picture] = []
    for metric in METRICS:
        mine = [one for by, one in some if by == metric]
        salt = f"{draw.__name__} {metric}"
        found += _tried(salt, says.format(metric), draw, mine) if mine else []
    return found


def _by_run(
    draw: Callable[..., Figure], says: str, runs: Sequence[Dossier]
) -> list[Picture]:
    """Draw one picture for each of the first runs that have something to show."""
    found: list[Picture] = []
    for i, run in enumerate(runs):
        if len(found) < _MOST:
            words = f"“{_style.name(run)}”: {says}"
            found += _tried(f"{draw.__name__} {i}", words, draw, run)
    return found


def _clients(decks: Sequence[Deck]) -> list[Picture]:
    """Draw one picture per federation."""
    found: list[Picture] = []
    for i, deck in enumerate(decks[:_MOST]):
        metric, some = deck.runs[0].metric, deck.runs[:6]
        names = ", ".join(f"“{_style.name(run)}”" for run in some)
        says = f"{names}: sorted {metric} of benign clients. Numbers: clients.csv."
        found += _tried(f"clients {i}", says, plot.clients, deck.runs)
    return found
