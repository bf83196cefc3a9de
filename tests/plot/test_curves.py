"""How runs went, over their rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import troth
from troth import plot
from troth.plot import _style


def test_curves_are_the_evaluations(lines: Any, examined: Path) -> None:
    run = troth.load(examined / "clean")
    figure = plot.curves(run)
    told = [r for r in run.rounds if "evaluation" in r]
    for panel, kind in enumerate(("personal", "shared")):
        (x, mean), (_, worst) = lines(figure, panel)
        assert x == [r["round"] + 1 for r in told]
        assert mean == [r["evaluation"][kind]["accuracy_mean"] for r in told]
        assert worst == [r["evaluation"][kind]["accuracy_worst10"] for r in told]


def test_the_same_shared_model_is_one_line(
    lines: Any, told: Any, tmp_path: Path
) -> None:
    """In the colour of the run that is it, or that of shared models."""
    shared = [0.4, 0.6]
    runs = [
        told(tmp_path / "own", [0.5, 1.0], shared=shared),
        told(tmp_path / "alone", [0.5, 0.9], shared=shared, personalizer="local"),
    ]
    blue = _style.SERIES[_style.SHARED]
    for some in (runs, [*runs, told(tmp_path / "none", shared, personalizer="none")]):
        made = plot.curves(some)
        assert len(lines(made, 0)) == 2 * len(some) and len(lines(made, 1)) == 2
        assert {line.get_color() for line in made.axes[1].get_lines()} == {blue}
        title = made.axes[1].get_title(loc="left")
        assert title == "the shared model, the same in all runs"
    other = told(tmp_path / "other", [0.5, 1.0], shared=[0.1, 0.2])
    made = plot.curves([*runs, other])
    assert len(lines(made, 1)) == 4
    assert made.axes[1].get_title(loc="left") == "the shared model"
