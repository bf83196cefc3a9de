"""The style of all pictures (colors, marks and labels), and functions to read runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from troth.runs import inspect
from troth.runs.compare import short
from troth.runs.inspect import Dossier
from troth.runs.load import Run
from troth.types import Refusal

Given = Run | Dossier | str | Path
Several = Given | Sequence[Given]

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
_LONGEST = 34  # largest number of characters in a label
_NAMED = 10  # largest number of names in a legend
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


def figure(width: float, height: float) -> Figure:
    """Return an empty figure; width and height are in inches."""
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def name(run: Dossier | str, longest: int = _LONGEST) -> str:
    """Return the label of a run: shortened, printable, and with $ escaped."""
    text = short(run if isinstance(run, str) else run.label)
    text = "".join(c if c.isprintable() else "?" for c in text)
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return cut.replace("$", r"\$")


def hue(i: int) -> str:
    """Return the color with index i, or gray if there is none."""
    return SERIES[i] if i < len(SERIES) else SOFT


def line(i: int) -> dict[str, Any]:
    """Return color, dash and width of a line, for color index i."""
    return {"color": hue(i), "linestyle": _DASHES[i % len(_DASHES)], "lw": 1.8}


def mark(i: int, hollow: bool = False) -> dict[str, Any]:
    """Return marker, color and size of points, for color index i."""
    inside = PAPER if hollow else hue(i)
    looks = {"marker": _MARKS[i % len(_MARKS)], "linestyle": "none", "color": hue(i)}
    return {**looks, "markerfacecolor": inside, "markersize": 4.5}


def many(n: int) -> dict[str, Any]:
    """Return properties for n points in addition to those of `mark`.

    If there are many, they are small and faint, and an SVG stores them as one image.
    Otherwise the result is empty.
    """
    return {"rasterized": True, "markersize": 2, "alpha": 0.3} if n > _POINTS else {}


def dress(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Set title and labels, draw a light grid, and remove the top and right borders."""
    axes.set_title(title, size=9.5, color=SOFT, loc="left")
    axes.set_xlabel(x, color=INK, size=9.5)
    if y:
        axes.set_ylabel(y, color=INK, size=9.5)
    axes.grid(color=GRID, lw=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(SOFT)


def legend(axes: Axes, **more: Any) -> None:
    """Add a legend of at most ten names."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > _NAMED:
        labels[_NAMED - 1] = f"and {len(labels) - _NAMED + 1} more"
    if labels:
        some = handles[:_NAMED], labels[:_NAMED]
        more |= {"frameon": False, "fontsize": 8.5, "labelcolor": INK}
        for handle in axes.legend(*some, **more).legend_handles:
            if isinstance(handle, Line2D):  # many points are small and faint
                handle.set_alpha(1)
                handle.set_markersize(4.5)


def share(axes: Axes, metric: str) -> None:
    """Set the range of the y axis to 0 … 1 if the metric is accuracy."""
    if metric == "accuracy":
        axes.set_ylim(-0.02, 1.02)
