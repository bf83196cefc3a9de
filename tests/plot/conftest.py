"""What tests of pictures share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure

Points = tuple[list[float], list[float]]


@pytest.fixture(scope="session")
def lines() -> Callable[..., list[Points]]:
    """x and y of everything that is drawn as a line in a panel."""

    def found(figure: Figure, panel: int = 0) -> list[Points]:
        every = [line.get_data() for line in figure.axes[panel].get_lines()]
        return [(list(map(float, x)), list(map(float, y))) for x, y in every]

    return found


@pytest.fixture(scope="session")
def colours() -> Callable[..., dict[str, Any]]:
    """Name → colour of everything in a panel that a legend names."""

    def found(figure: Figure, panel: int = 0) -> dict[str, Any]:
        handles, names = figure.axes[panel].get_legend_handles_labels()
        return {n: h.get_color() for h, n in zip(handles, names, strict=True)}

    return found
