"""Colours, marks and dashes, the sheet and its legend."""

from __future__ import annotations

import io

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from troth.reproduce import looks


def test_no_two_labels_look_alike() -> None:
    points = [(looks.mark(k)["color"], looks.mark(k)["marker"]) for k in range(56)]
    assert len({*points}) == 56
    lines = [tuple(looks.line(k).values()) for k in range(28)]
    assert len({*lines}) == 28
    assert looks.mark(3, hollow=True)["mfc"] == "none"
    assert looks.mark(3, hollow=True)["marker"] == looks.mark(3)["marker"]


def test_many_panels_are_in_two_rows() -> None:
    for many, rows in ((1, 1), (4, 1), (5, 2), (6, 2)):
        figure, axes = looks.sheet("a title", many)
        assert len(axes) == many == len(figure.axes)
        spots = [axis.get_subplotspec() for axis in axes]
        assert {spot.rowspan.start for spot in spots if spot} == {*range(rows)}


def test_what_is_long_is_wrapped() -> None:
    long = "so many words " * 30
    figure, _ = looks.sheet("a title", 1, ["a line", long], long)
    assert figure.get_suptitle().startswith("a title\na line\nso many")
    assert max(map(len, figure.get_suptitle().split("\n"))) < 170
    assert figure.get_supxlabel().startswith("Note: so many")


def covered(figure: Figure) -> bool:
    """Whether the legend lies on a panel."""
    figure.savefig(io.BytesIO())
    (legend,) = figure.legends
    box = legend.get_window_extent()
    return any(axis.get_window_extent().overlaps(box) for axis in figure.axes)


def test_the_legend_covers_no_panel() -> None:
    figure, axes = looks.sheet("a title", 6, ["a line"], "a note")
    for axis in axes:
        looks.dress(axis, "a panel", "x", "y")
    handles = {f"a rather long label {k}": Line2D([], []) for k in range(20)}
    looks.legend(figure, handles, [looks.meaning("hollow: theirs", marker="o")])
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*handles, "hollow: theirs"]
    assert not covered(figure)
    figure, _ = looks.sheet("a title", 1)
    looks.legend(figure, {})
    assert not figure.legends
