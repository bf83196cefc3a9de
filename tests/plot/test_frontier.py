"""Accurate, and for all alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import troth
from troth import plot
from troth.plot import _style


def test_the_frontier_is_in_the_summaries(lines: Any, examined: Path) -> None:
    points = lines(plot.frontier([examined / "clean"]))
    s = troth.load(examined / "clean").summary
    assert points[0] == ([s["shared"]["accuracy_std"]], [s["shared"]["accuracy_mean"]])
    assert points[-1] == (
        [s["personal"]["accuracy_std"]],
        [s["personal"]["accuracy_mean"]],
    )


def test_a_shared_model_is_one_point(lines: Any, told: Any, tmp_path: Path) -> None:
    shared = [0.4, 0.6]
    own = told(tmp_path / "own", [0.5, 1.0], shared=shared)
    alone = told(tmp_path / "alone", [0.5, 0.9], shared=shared, personalizer="local")
    none = told(tmp_path / "none", shared, personalizer="none")
    hollow = [
        [p.get_color() for p in made.axes[0].get_lines() if _hollow(p)]
        for made in (plot.frontier([own, alone]), plot.frontier([own, alone, none]))
    ]
    assert hollow == [[_style.SERIES[_style.SHARED]], []]


def _hollow(point: Any) -> bool:
    marked = point.get_marker() not in ("None", "", None)
    return marked and bool(point.get_markerfacecolor() == _style.PAPER)
