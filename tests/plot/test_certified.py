"""Certified accuracy over the radius."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from troth import plot
from troth.plot import _style


def test_certified_falls_with_the_radius(lines: Any, examined: Path) -> None:
    figure = plot.certified(examined / "attacked")
    for _, y in lines(figure):
        assert all(np.diff(y) <= 0) and 0 <= y[-1] <= y[0] <= 1


def test_models_have_the_colours_that_they_have_elsewhere(
    colours: Any, examined: Path
) -> None:
    runs = _style.given(examined / "attacked")
    found = colours(plot.certified(runs[-1]))
    elsewhere = colours(plot.clients(runs))
    assert found["ditto,lam=auto"] == elsewhere["ditto,lam=auto"]
    assert found["shared model"] == elsewhere["no personalizer"]
