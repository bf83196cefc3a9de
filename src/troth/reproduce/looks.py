"""How pictures look: colours, marks and dashes, a sheet of panels, and one legend."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""After Okabe and Ito: told apart by all eyes."""
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1)), (0, (5, 1, 1, 1)))
_WIDE = 165  # characters of a line across the sheet
_ROW = 4  # panels in a row


def hue(k: int) -> str:
    """The colour of the k-th label."""
    return COLOURS[k % len(COLOURS)]


def mark(k: int, hollow: bool = False) -> dict[str, Any]:
    """Points of the k-th label: no two of the first 56 are alike."""
    turn, place = divmod(k, len(COLOURS))
    found: dict[str, Any] = {"color": hue(k), "ms": 5, "linestyle": "none"}
    found["marker"] = _MARKS[(place + turn) % len(_MARKS)]
    return found | ({"mfc": "none", "ms": 6} if hollow else {})


def line(k: int) -> dict[str, Any]:
    """The line of the k-th label: no two of the first 28 are alike.

    Neighbors have other dashes: where lines coincide, both are seen.
    """
    turn, place = divmod(k, len(COLOURS))
    return {"color": hue(k), "linestyle": _DASHES[(place + turn) % len(_DASHES)]}


def sheet(
    title: str, many: int, under: Sequence[str] = (), foot: str = "", **more: Any
) -> tuple[Figure, list[Axes]]:
    """An empty sheet of panels, in two rows where they are many, four at most in one.

    Args:
        title: what it is.
        many: how many panels.
        under: lines below the title, such as what ours are trained on.
        foot: what else is to be known, below the panels.
        **more: `row`, how many fit beside each other; the rest of `Figure.subplots`.
    """
    rows = 1 if many <= more.pop("row", _ROW) else 2
    size = (11.5, 4.4 if rows == 1 else 7.2)
    figure = Figure(figsize=size, dpi=130, layout="constrained")
    lines = [part for text in under for part in textwrap.wrap(text, _WIDE)]
    figure.suptitle("\n".join([title, *lines]), fontsize=9)
    if foot:
        wrapped = textwrap.wrap(f"Note: {foot}.", _WIDE)
        figure.supxlabel("\n".join(wrapped), fontsize=7)
    columns = max(1, math.ceil(many / rows))
    axes: Any = figure.subplots(rows, columns, squeeze=False, **more)
    every = [*axes.flat]
    for axis in every[max(1, many) :]:
        axis.remove()
    return figure, every[:many]


def dress(axis: Axes, title: str, x: str = "", y: str = "") -> None:
    """Titles and a light grid."""
    axis.set_title(title, fontsize=8)
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.3)


def legend(figure: Figure, handles: Mapping[str, Artist], more: Any = ()) -> None:
    """One for all panels, beside them: it covers nothing.

    Args:
        figure: the sheet.
        handles: label → how it looks.
        more: what marks mean, as `meaning` makes it.
    """
    named = {**handles, **dict(more)}
    if named:
        figure.legend(
            [*named.values()],
            [*named],
            loc="outside right upper",
            fontsize=7,
            frameon=False,
        )


def meaning(text: str, **look: Any) -> tuple[str, Artist]:
    """A line of the legend that stands for no label: what a kind of mark means."""
    return text, Line2D([], [], **({"color": "#5b6873"} | look))
