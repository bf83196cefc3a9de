"""What tests of pictures share."""

import pytest


@pytest.fixture(scope="session")
def lines():
    """x and y of everything that is drawn as a line in a panel."""

    def found(figure, panel=0):
        every = [line.get_data() for line in figure.axes[panel].get_lines()]
        return [(list(map(float, x)), list(map(float, y))) for x, y in every]

    return found


@pytest.fixture(scope="session")
def colours():
    """Name → colour of everything in a panel that a legend names."""

    def found(figure, panel=0):
        handles, names = figure.axes[panel].get_legend_handles_labels()
        return {n: h.get_color() for h, n in zip(handles, names, strict=True)}

    return found
