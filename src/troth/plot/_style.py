"""The style of all pictures (colors, marks and labels), and functions to read runs."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from troth.runs import inspect
from troth.runs.compare import short, without_seed
from troth.runs.inspect import Dossier
from troth.runs.load import Run
from troth.types import Refusal

Given = Run | Dossier | str | Path
Several = Given | Sequence[Given]
Width = Literal["column", "page"]
Style = Literal["paper", "talk"]

INK, SOFT, GRID, PAPER = "#1f2a33", "#5b6873", "#dbe1e6", "#ffffff"
SERIES = (
    *("#0072b2", "#d55e00", "#009e73", "#b0579a"),
    *("#b87d00", "#3690c6", "#7a4a21", "#6a3d9a"),
)
"""Colors of models, after Okabe and Ito, for color-blind readers and gray printing."""
_DASHES = (
    *("-", "--", "-.", ":"),
    *((0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1))),
)
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
SHARED, LOCAL = 0, 1
"""Color indices of the shared model and of local training; they also fix the marker."""
_LONGEST = 60  # largest number of characters in a label
_NAMED = 12  # largest number of names in a legend
_INCHES = {
    "paper": {"column": 3.4, "page": 7.0},
    "talk": {"column": 2.6, "page": 4.8},
}
_LETTERS = 8.0  # size of letters in points, if a figure has the width of a page
_POINTS = 400  # an SVG stores more points than this as an image


def given(runs: Several) -> list[Dossier]:
    """Read runs from their files, and assign a color index to each.

    Raise Refusal if there are none.
    """
    several = [runs] if isinstance(runs, Run | Dossier | str | Path) else [*runs]
    found: list[Dossier] = []
    for one in several:
        place = one.path if isinstance(one, Run) else one
        found += [place] if isinstance(place, Dossier) else inspect.opened([place])
    if not found:
        raise Refusal("there is no run to draw; give at least one")
    settle(found)
    return found


def places(personalizers: Sequence[str]) -> list[int]:
    """Return a color index for each run, to be used in all pictures.

    The first run with personalizer `none` gets the color of the shared model. The first
    run with `local` gets the color of local training.

    Args:
        personalizers: the name of each run's personalizer.
    """
    free, taken, found = LOCAL + 1, set[int](), []
    for kind in personalizers:
        place = {"none": SHARED, "local": LOCAL}.get(kind, free)
        place = free if place in taken else place
        free += place == free
        taken.add(place)
        found.append(place)
    return found


def settle(runs: Sequence[Dossier]) -> None:
    """Assign color indices to runs, unless all have different ones already."""
    have = [run.kept.get("place") for run in runs]
    if None in have or len({*have}) < len(have):
        kinds = [run.part("personalizer") for run in runs]
        for run, place in zip(runs, places(kinds), strict=True):
            run.kept["place"] = place


def place(run: Dossier) -> int:
    """Return the index of a run's color, dash and marker."""
    return int(run.kept["place"])


def alike(runs: list[Dossier]) -> tuple[list[Dossier], str]:
    """Return the runs with the same metric as the first run, and this metric.

    The metric is accuracy or an error.
    """
    metric = next((run.metric for run in runs if run.metric), "")
    return [run for run in runs if run.metric == metric], metric


def finished(runs: Several, what: str) -> tuple[list[Dossier], str]:
    """Return the finished runs with the same metric as the first, and this metric.

    If no run is finished, raise Refusal. The error message says that `what`, the
    picture, needs a finished run.
    """
    mine, metric = alike([run for run in given(runs) if run.finished])
    if not mine:
        raise Refusal(
            f"none of the runs is finished, and {what} need a finished one; continue "
            f"one with: troth resume {given(runs)[0].path}"
        )
    return mine, metric


class Picture(Figure):
    """A figure whose files have 300 dpi, and fonts that LaTeX can embed (TrueType)."""

    letters = 9.5  # size of letters in points

    def savefig(self, fname: Any, **given: Any) -> None:
        """Save the figure; arguments are those of matplotlib."""
        fonts: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42}
        with rc_context(fonts):
            super().savefig(fname, **{"dpi": 300, **given})


def figure(width: float, height: float) -> Picture:
    """Return an empty figure; width and height are in inches."""
    return Picture(figsize=(width, height), dpi=120, layout="constrained")


def panels(
    n: int, width: Width, style: Style, high: float = 2.5, columns: int = 2
) -> tuple[Picture, list[Axes]]:
    """Return a figure for a paper or a talk, and its panels.

    Panels are next to each other on a page, and above each other in a column.

    Args:
        n: Number of panels.
        width: "column" (3.4 inches) or "page" (7 inches).
        style: "paper", or "talk": a smaller figure with letters of the same size, so
            that letters and lines are large on a slide.
        high: Height of a panel in inches.
        columns: Largest number of panels next to each other.
    """
    if style not in _INCHES or width not in _INCHES[style]:
        raise Refusal(
            f"width = {width!r} and style = {style!r} must be 'column' or 'page', and "
            "'paper' or 'talk'"
        )
    beside = 1 if width == "column" else min(n, columns)
    rows = -(-n // beside)
    made = figure(_INCHES[style][width], (high if style == "paper" else 2.3) * rows)
    made.letters = _LETTERS
    return made, [*made.subplots(rows, beside, squeeze=False).flatten()]


def name(run: Dossier | str, longest: int = _LONGEST) -> str:
    """Return the label of a run: shortened, printable, and with $ escaped."""
    text = short(run if isinstance(run, str) else run.label)
    text = "".join(c if c.isprintable() else "?" for c in text)
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return cut.replace("$", r"\$")


def looks(runs: Sequence[Dossier]) -> list[tuple[int, str]]:
    """Return the color index and the label of each run.

    If there are more runs than colors, the runs that differ only in the seed share
    both. Parts that all labels have are left out.
    """
    if len(runs) <= len(SERIES):
        every = [run.label for run in runs]
        return [*zip(map(place, runs), apart(every), strict=True)]
    groups = methods(runs)
    kinds = places([group[0].part("personalizer") for group in groups])
    labels = apart([without_seed(group[0].label) for group in groups])
    found: dict[int, tuple[int, str]] = {}
    for at, label, group in zip(kinds, labels, groups, strict=True):
        count = f" ({len(group)} seeds)" if len(group) > 1 else ""
        found |= {id(run): (at, label + count) for run in group}
    return [found[id(run)] for run in runs]


def methods(runs: Sequence[Dossier]) -> list[list[Dossier]]:
    """Group the runs that differ only in their seed."""
    found: dict[str, list[Dossier]] = {}
    for run in runs:
        aside = ("seed", "name", "resolved", "engine", "checkpoint", "output")
        key = str({k: v for k, v in run.sections.items() if k not in aside})
        found.setdefault(key, []).append(run)
    return [*found.values()]


def apart(labels: Sequence[str]) -> list[str]:
    """Return labels without the parts that all of them have."""
    parts = [label.split(",") for label in labels]
    both = {part for part in parts[0] if all(part in each for each in parts)}
    own = [",".join(part for part in each if part not in both) for each in parts]
    return [
        name(o if all(own) else label) for o, label in zip(own, labels, strict=True)
    ]


def hue(i: int) -> str:
    """Return the color with index i; colors repeat, with another dash and marker."""
    return SERIES[i % len(SERIES)]


def line(i: int) -> dict[str, Any]:
    """Return color, dash and width of a line, for color index i."""
    dash = _DASHES[(i + i // len(SERIES)) % len(_DASHES)]
    return {"color": hue(i), "linestyle": dash, "lw": 1.5}


def mark(i: int, hollow: bool = False) -> dict[str, Any]:
    """Return marker, color and size of points, for color index i."""
    inside = PAPER if hollow else hue(i)
    marker = _MARKS[(i + i // len(SERIES)) % len(_MARKS)]
    looks = {"marker": marker, "linestyle": "none", "color": hue(i)}
    return {**looks, "markerfacecolor": inside, "markersize": 4}


def many(n: int) -> dict[str, Any]:
    """Return properties for n points in addition to those of `mark`.

    If there are many, they are small and faint, and an SVG stores them as one image.
    Otherwise the result is empty.
    """
    return {"rasterized": True, "markersize": 2, "alpha": 0.3} if n > _POINTS else {}


def dress(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Set title and labels, draw a light grid, and remove the top and right borders.

    A title that is longer than its panel is wide is broken into lines.
    """
    whole: Any = axes.get_figure(root=True)
    size, spec = getattr(whole, "letters", 9.5), axes.get_subplotspec()
    beside = spec.get_gridspec().ncols if spec else 1
    inches = whole.get_figwidth() / beside - 0.7  # without the labels of the axis
    wide = max(20, int(inches * 72 / (0.5 * size)))
    axes.set_title(textwrap.fill(title, wide), size=size, color=SOFT, loc="left")
    axes.set_xlabel(x, color=INK, size=size)
    if y:
        axes.set_ylabel(y, color=INK, size=size)
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=size - 0.5)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)


def legend(made: Picture, *panels: Axes) -> None:
    """Add one legend below all panels, of at most twelve names; make room for it."""
    every: dict[str, Line2D] = {}
    for axes in panels:
        found: Any = axes.get_legend_handles_labels()
        for handle, label in zip(*found, strict=True):
            shown = every.setdefault(label, Line2D([], [], ls="none", markersize=4))
            shown.set_color(handle.get_color())
            if handle.get_linestyle() != "None":
                shown.set(linestyle=handle.get_linestyle(), linewidth=1.5)
            if handle.get_marker() != "None":
                inside = handle.get_markerfacecolor()
                shown.set(marker=handle.get_marker(), markerfacecolor=inside)
    labels, handles = [*every][:_NAMED], [*every.values()][:_NAMED]
    if len(every) > _NAMED:
        labels[-1] = f"and {len(every) - _NAMED + 1} more"
    if not labels:
        return
    letter = 0.5 * made.letters / 72  # width of a letter in inches
    most = int((made.get_figwidth() - 0.6) / letter)
    labels = [textwrap.fill(label, most) for label in labels]
    wide = min(most, max(map(len, labels))) * letter + 0.6
    fits = max(1, min(len(labels), 4, int(made.get_figwidth() / wide)))
    rows = math.ceil(len(labels) / fits)
    columns = math.ceil(len(labels) / rows)
    lines = rows + sum(label.count("\n") for label in labels)
    made.set_figheight(made.get_figheight() + lines * 1.5 * made.letters / 72)
    looks: dict[str, Any] = {"frameon": False, "labelcolor": INK, "ncols": columns}
    looks |= {"loc": "outside lower center", "fontsize": made.letters - 0.5}
    made.legend(handles, labels, **looks)


def share(axes: Axes, metric: str) -> None:
    """Set the range of the y axis to 0 … 1 if the metric is accuracy."""
    if metric == "accuracy":
        axes.set_ylim(-0.02, 1.02)
