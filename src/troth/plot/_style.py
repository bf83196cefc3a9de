"""What all pictures share: colours, marks, and how runs come in."""

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
    *("#c98a00", "#3f9bd1", "#7a4a21", "#6a3d9a"),
)
"""After Okabe and Ito: told apart by all eyes, and of different lightness."""
_DASHES = (
    *("-", "--", "-.", ":"),
    *((0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1))),
)
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "<")
SHARED, LOCAL = 0, 1
"""The places of the shared model and of training alone: their colours everywhere."""
_LONGEST = 34  # characters of a label
_NAMED = 10  # in a legend
_POINTS = 400  # that are drawn one by one


def given(runs: Several) -> list[Dossier]:
    """Runs as their files have them."""
    several = [runs] if isinstance(runs, Run | Dossier | str | Path) else [*runs]
    found: list[Dossier] = []
    for one in several:
        if isinstance(one, Dossier):
            found.append(one)
        else:
            found += inspect.opened([one.path if isinstance(one, Run) else one])
    if not found:
        raise Refusal("there is no run to draw; give at least one")
    settle(found)
    return found


def places(personalizers: Sequence[str]) -> list[int]:
    """A place for each of some runs: what its model looks like in every picture.

    The first without a personalizer has that of the shared model, for that is what it
    trains; the first with `local` has that of training alone.
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
    """Give runs their places, unless each has one of its own already."""
    have = [run.kept.get("place") for run in runs]
    if None in have or len({*have}) < len(have):
        kinds = [run.part("personalizer") for run in runs]
        for run, place in zip(runs, places(kinds), strict=True):
            run.kept["place"] = place


def place(run: Dossier) -> int:
    """Where a run stands among those that it was given with."""
    found: int = run.kept["place"]
    return found


def alike(runs: list[Dossier]) -> tuple[list[Dossier], str]:
    """The runs that are judged as the first of them is, and by what."""
    metric = next((run.metric for run in runs if run.metric), "")
    return [run for run in runs if run.metric == metric], metric


def finished(runs: Several, what: str) -> tuple[list[Dossier], str]:
    """Those that went to their end."""
    mine, metric = alike([run for run in given(runs) if run.finished])
    if not mine:
        raise Refusal(
            f"none of the runs is finished, and {what} are about finished ones; go on "
            f"with one by: troth resume {given(runs)[0].path}"
        )
    return mine, metric


def figure(width: float, height: float) -> Figure:
    """An empty one, in inches."""
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def name(run: Dossier | str, longest: int = _LONGEST) -> str:
    """A label as it can be drawn: short, and no formula, whatever stands in it."""
    text = short(run) if isinstance(run, str) else short(run.label)
    text = "".join(c if c.isprintable() else "?" for c in text)
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return cut.replace("$", r"\$")


def hue(i: int) -> str:
    """The colour of the i-th place; after the last one, grey."""
    return SERIES[i] if i < len(SERIES) else SOFT


def line(i: int) -> dict[str, Any]:
    """How the i-th line looks."""
    return {"color": hue(i), "linestyle": _DASHES[i % len(_DASHES)], "lw": 1.8}


def mark(i: int, hollow: bool = False) -> dict[str, Any]:
    """How the i-th sort of points looks."""
    inside = PAPER if hollow else hue(i)
    found: dict[str, Any] = {"marker": _MARKS[i % len(_MARKS)], "linestyle": "none"}
    return found | {"color": hue(i), "markerfacecolor": inside, "markersize": 4.5}


def many(n: int) -> dict[str, Any]:
    """Points beyond some hundreds become one small image in an SVG."""
    return {"rasterized": True, "markersize": 2, "alpha": 0.3} if n > _POINTS else {}


def dress(axes: Axes, title: str, x: str, y: str = "") -> None:
    """Titles, a light grid, and no box."""
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
    """Names of what is drawn, in ink."""
    handles, labels = axes.get_legend_handles_labels()
    if len(labels) > _NAMED:
        labels[_NAMED - 1] = f"and {len(labels) - _NAMED + 1} more"
    if labels:
        some = handles[:_NAMED], labels[:_NAMED]
        more |= {"frameon": False, "fontsize": 8.5, "labelcolor": INK}
        for handle in axes.legend(*some, **more).legend_handles:
            if isinstance(handle, Line2D):  # points of very many are small and faint
                handle.set_alpha(1)
                handle.set_markersize(4.5)


def share(axes: Axes, metric: str) -> None:
    """An accuracy lies between 0 and 1."""
    if metric == "accuracy":
        axes.set_ylim(-0.02, 1.02)
