"""Pictures inside the page: SVG whose colours follow the reader's theme."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from troth import plot
from troth.cards import Deck
from troth.dossier import Dossier
from troth.evidence import METRICS
from troth.plot import _style
from troth.plot.pairs import drawn
from troth.types import Refusal

_COLOURS = {
    _style.INK: "var(--ink)",
    _style.SOFT: "var(--soft)",
    _style.GRID: "var(--line)",
    _style.PAPER: "var(--paper)",
} | {hex_: f"var(--s{i})" for i, hex_ in enumerate(_style.SERIES)}
_MOST = 12  # pictures of one sort


class Picture(NamedTuple):
    """An SVG, and what it shows in words."""

    svg: str
    says: str


def svg(made: Figure, salt: str) -> str:
    """A figure as SVG to stand inside a page: small, and the same bytes every time.

    Args:
        made: the figure.
        salt: no two figures of a page may share it: it makes their ids differ.
    """
    out = io.StringIO()
    rc: Any = {"svg.fonttype": "none", "svg.hashsalt": salt}
    none: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with matplotlib.rc_context(rc), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # signs that a font does not have
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
    for hex_, variable in _COLOURS.items():
        style = style.replace(hex_, variable)
    return style


def _tried(
    salt: str, says: str, draw: Callable[..., Figure], *args: Any
) -> list[Picture]:
    """The picture, or none where there is nothing to draw."""
    try:
        return [Picture(svg(draw(*args), salt), says)]
    except Refusal:
        return []


def curves(runs: Sequence[Dossier]) -> list[Picture]:
    """A picture a metric."""
    found: list[Picture] = []
    for metric in METRICS:
        mine = [run for run in runs if run.metric == metric and run.evaluated]
        says = f"Mean {metric} over rounds. Numbers: rounds.jsonl."
        found += _tried(f"curves {metric}", says, plot.curves, mine) if mine else []
    return found


def clients(decks: Sequence[Deck]) -> list[Picture]:
    """A picture for runs of the same clients."""
    found: list[Picture] = []
    for i, deck in enumerate(decks[:_MOST]):
        metric, names = deck.runs[0].metric, ", ".join(map(_style.name, deck.runs[:6]))
        says = f"{names}: sorted {metric} of benign clients. Numbers: clients.csv."
        found += _tried(f"clients {i}", says, plot.clients, deck.runs)
    return found


def frontier(runs: Sequence[Dossier]) -> list[Picture]:
    """A picture a metric."""
    found: list[Picture] = []
    for metric in METRICS:
        mine = [run for run in runs if run.metric == metric and run.finished]
        says = f"Mean {metric} against its standard deviation. Numbers: summary.json."
        found += _tried(f"frontier {metric}", says, plot.frontier, mine) if mine else []
    return found


def verdicts(runs: Sequence[Dossier]) -> list[Picture]:
    """A picture for every run in which rules told clients apart."""
    found: list[Picture] = []
    for i, run in enumerate(runs):
        says = f"{_style.name(run)}: whom rules dropped, clipped, chose or weighed down"
        says += " in which rounds. Numbers: rounds.jsonl."
        if len(found) < _MOST:
            found += _tried(f"verdicts {i}", says, plot.verdicts, run)
    return found


def certified(runs: Sequence[Dossier]) -> list[Picture]:
    """A picture for every run with certificates."""
    found: list[Picture] = []
    for i, run in enumerate(runs):
        says = f"{_style.name(run)}: certified accuracy over the radius; bands reach "
        says += "from the client with least to the one with most."
        if len(found) < _MOST and run.certified:
            found += _tried(f"certified {i}", says, plot.certified, run)
    return found


def audits(runs: Sequence[Dossier]) -> list[Picture]:
    """A picture for every run that was audited."""
    found: list[Picture] = []
    for i, run in enumerate(runs):
        says = f"{_style.name(run)}: change of accuracy on adversarial examples of the "
        says += "shared model, client by client. Numbers: audit.csv."
        if len(found) < _MOST and run.audit:
            found += _tried(f"audit {i}", says, plot.audit, run)
    return found


def pairs(compared: Sequence[dict[str, Any]]) -> list[Picture]:
    """A picture a metric."""
    found: list[Picture] = []
    for metric in METRICS:
        mine = [p for p in compared if p["kind"] == "paired" and p["metric"] == metric]
        says = f"Mean difference in {metric} between runs, with 95 % intervals."
        found += _tried(f"pairs {metric}", says, drawn, mine) if mine else []
    return found
