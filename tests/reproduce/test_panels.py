"""Panels, their sheet, and how labels look."""

import numpy as np
import pytest
from matplotlib.lines import Line2D

from troth.reproduce import panels
from troth.reproduce.panels import SIMULATED, THEORY, Head, Line, Panel

HEAD = Head("a title", ["ours: digits"], "a note")


def line(*y):
    return Line(np.arange(len(y), dtype=float), np.array(y))


def names(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_a_label_looks_the_same_in_all_panels():
    """And the legend has the labels of every panel, not those of the last."""
    one = Panel("one", "x", {"a": line(1, 2), "b": line(2, 3)})
    other = Panel("other", "x", {"c": line(1, 2), "b": line(2, 3)})
    figure = panels.lines(HEAD, [one, other])
    assert names(figure) == ["a", "b", "c"]
    (_, b), (c, again) = (axis.lines for axis in figure.axes)
    assert b.get_color() == again.get_color() != c.get_color()
    assert b.get_linestyle() == again.get_linestyle()
    assert figure.get_suptitle() == "a title\nours: digits"
    assert not any(axis.get_legend() for axis in figure.axes)


def test_simulated_points_have_their_line_s_colour():
    lines = {"a" + THEORY: line(1, 2), "a" + SIMULATED: line(1, 2), "b": line(3, 4)}
    figure = panels.lines(HEAD, [Panel("t", "λ", lines, "symlog", {"λ* = 1": 1.0})])
    a, points, b, upright = figure.axes[0].lines
    assert points.get_color() == a.get_color() != b.get_color()
    assert (points.get_linestyle(), a.get_marker()) == ("None", "None")
    assert [*upright.get_xdata()] == [1, 1]
    assert names(figure) == [*lines, "λ* = 1"]
    assert figure.axes[0].get_xscale() == "symlog"  # where zero has a place
    assert figure.axes[0].get_xticks()[0] == 0 > figure.axes[0].get_xlim()[0] > -1


def test_what_is_one_number_is_level():
    level = Line(np.array([]), np.array([0.5]))
    lines = {"a": line(0.1, 0.9), "b": level}
    figure = panels.lines(HEAD, [Panel("t", "x", lines, marked=True)])
    a, b = figure.axes[0].lines
    assert a.get_marker() == "o" and b.get_marker() == "None"
    assert [*b.get_ydata()] == [0.5, 0.5]


def test_a_bar_a_label():
    figure = panels.bars(HEAD, [("a", {"n": 1.0}), ("b", {"n": 2.0, "m": 3.0})])
    first, second = figure.axes
    assert [bar.get_width() for bar in first.patches] == [1, 2]  # type: ignore[attr-defined]
    assert [text.get_text() for text in first.get_yticklabels()] == ["a", "b"]
    assert (first.get_title(), second.get_title()) == ("n", "m")


def test_no_two_labels_look_alike():
    points = [(panels.mark(k)["color"], panels.mark(k)["marker"]) for k in range(56)]
    assert len({*points}) == 56
    lines = [tuple(panels.dashed(k).values()) for k in range(28)]
    assert len({*lines}) == 28
    assert panels.mark(3, hollow=True)["mfc"] == "none"
    assert panels.mark(3, hollow=True)["marker"] == panels.mark(3)["marker"]


@pytest.mark.parametrize(("many", "rows"), [(1, 1), (4, 1), (5, 2), (6, 2)])
def test_many_panels_are_in_two_rows(many, rows):
    figure, axes = panels.sheet("a title", many)
    assert len(axes) == many == len(figure.axes)
    assert {axis.get_subplotspec().rowspan.start for axis in axes} == {*range(rows)}


def test_what_is_long_is_wrapped():
    long = "so many words " * 30
    figure, _ = panels.sheet("a title", 1, ["a line", long], long)
    assert figure.get_suptitle().startswith("a title\na line\nso many")
    assert max(map(len, figure.get_suptitle().split("\n"))) < 170
    assert figure.get_supxlabel().startswith("Note: so many")


def test_the_legend_covers_no_panel():
    figure, axes = panels.sheet("a title", 6, ["a line"], "a note")
    for axis in axes:
        panels.dress(axis, "a panel", "x", "y")
    handles = {f"a rather long label {k}": Line2D([], []) for k in range(20)}
    panels.legend(figure, handles, panels.meanings("", "theirs"))
    assert names(figure) == [*handles, "hollow: theirs"]
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert not any(axis.get_window_extent().overlaps(box) for axis in axes)
    figure, _ = panels.sheet("a title", 1)
    panels.legend(figure, {}, {})
    assert not figure.legends
