"""What all pictures share."""

import io
import warnings

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from troth import plot
from troth.plot import _style


def test_labels_of_any_sort(told, tmp_path):
    labels = [r"$\frac{1$", "$$", "x" * 500, "\x07\n", "名前 🦆", "_y"]
    names = range(len(labels))
    runs = _style.given([told(tmp_path / f"r{i}", [0.5, 1.0], seed=i) for i in names])
    for run, label in zip(runs, labels, strict=True):
        run.label = label
    for draw in (plot.curves, plot.clients, plot.frontier):
        with io.BytesIO() as out, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that the font lacks
            draw(runs).savefig(out, format="svg")
            assert b"</svg>" in out.getvalue()


def test_colours_differ_in_grey_and_come_with_marks():
    dashes = {str(_style.line(i)["linestyle"]) for i in range(len(_style.SERIES))}
    marks = {_style.mark(i)["marker"] for i in range(len(_style.SERIES))}
    assert len(dashes) == len(marks) == len(_style.SERIES)
    grey = [np.dot([0.2126, 0.7152, 0.0722], to_rgb(c)) for c in _style.SERIES[:3]]
    assert len({round(float(v), 2) for v in grey}) == 3
    assert all(v < 0.7 for v in grey)  # to be seen on paper


def test_a_legend_names_ten(told, tmp_path):
    runs = [told(tmp_path / f"r{i}", [0.5, 1.0], seed=i) for i in range(13)]
    names = [t.get_text() for t in plot.curves(runs).axes[0].get_legend().get_texts()]
    assert len(names) == 10 and names[0] == "r0" and names[-1] == "and 4 more"


def test_a_legend_is_read_however_many_points_there_are(told, tmp_path):
    values = np.linspace(0, 1, 1000)
    made = plot.clients(told(tmp_path / "x", values, shared=values[::-1]))
    (point,) = [
        handle
        for handle in made.axes[1].get_legend().legend_handles
        if handle.get_label() == "shared model"
    ]
    assert point.get_alpha() == 1 and point.get_markersize() > 4
    assert made.axes[1].get_lines()[0].get_alpha() < 1


@pytest.mark.parametrize(
    ("kinds", "places"),
    [
        (["none", "local", "ditto"], [0, 1, 2]),
        (["ditto", "local", "none"], [2, 1, 0]),
        (["none", "none", "local", "apfl", "local"], [0, 2, 1, 3, 4]),
        (["ditto"] * 9, [*range(2, 11)]),
    ],
)
def test_places(kinds, places):
    assert _style.places(kinds) == places


def test_a_run_keeps_its_place_among_fewer(told, tmp_path):
    runs = _style.given([told(tmp_path / f"r{i}", [0.5, 1.0]) for i in range(3)])
    assert [_style.place(run) for run in runs] == [2, 3, 4]
    assert [_style.place(run) for run in _style.given(runs[1:])] == [3, 4]
    apart = [_style.given(run.path)[0] for run in runs]  # each was the first
    assert [_style.place(run) for run in _style.given(apart)] == [2, 3, 4]
