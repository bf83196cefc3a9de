"""What all pictures share."""

import io
import warnings

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from troth import plot
from troth.plot import _style
from troth.types import Refusal


def test_labels_of_any_sort(told, tmp_path):
    labels = [r"$\frac{1$", "$$", "x" * 500, "\x07\n", "名前 🦆", "_y"]
    names = range(len(labels))
    runs = _style.given([told(tmp_path / f"r{i}", [0.5, 1.0], seed=i) for i in names])
    for run, label in zip(runs, labels, strict=True):
        run.label = label
    for draw in (plot.curves, plot.clients, plot.frontier):
        with io.StringIO() as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # characters that the font lacks
            draw(runs).savefig(file, format="svg")
            assert "</svg>" in file.getvalue()


def test_colours_differ_in_grey_and_come_with_marks():
    dashes = {str(_style.line(i)["linestyle"]) for i in range(len(_style.SERIES))}
    marks = {_style.mark(i)["marker"] for i in range(len(_style.SERIES))}
    assert len(dashes) == len(marks) == len(_style.SERIES)
    grey = [np.dot([0.2126, 0.7152, 0.0722], to_rgb(c)) for c in _style.SERIES[:3]]
    assert len({round(float(v), 2) for v in grey}) == 3
    assert all(v < 0.7 for v in grey)  # to be seen on paper


def test_a_legend_names_twelve(told, tmp_path):
    runs = [
        told(tmp_path / f"r{i}", [0.5, 1.0], personalizer={"name": "ditto", "lam": i})
        for i in range(15)
    ]
    names = legend(plot.curves(runs))
    assert len(names) == 12 and names[0] == "r0" and names[-1] == "and 4 more"


def legend(figure):
    """The names in the legend of a figure."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.fixture
def grid(told, tmp_path):
    """32 runs: eight methods with four seeds each, and long names."""
    return [
        told(
            tmp_path / f"attack=alie,personalizer=ditto+lam={lam},seed={s}",
            [0.5 + s / 100, 0.8],
            personalizer={"name": "ditto", "lam": lam},
            seed=s,
        )
        for lam in range(1, 9)
        for s in range(4)
    ]


def test_many_runs_are_named_once_per_method(colours, grid):
    """No label is cut, none appears twice, and none is gray."""
    wanted = [f"ditto,lam={lam} (4 seeds)" for lam in range(1, 9)]
    for draw in (plot.curves, plot.clients, plot.frontier, plot.seeds):
        made = draw(grid)
        names = [name for name in legend(made) if name != "shared model"]
        assert [name.replace("\n", " ") for name in names] == wanted
        assert {*colours(made).values()} <= {*_style.SERIES}
        assert len(made.axes[0].texts) == 0


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("style", ["paper", "talk"])
def test_nothing_is_cut_and_sizes_are_those_of_papers(grid, width, style):
    for draw in (plot.curves, plot.clients, plot.frontier, plot.seeds):
        made = draw(grid, width=width, style=style)
        made.draw_without_rendering()
        whole = made.bbox
        parts = [made.legends[0], *(axes.title for axes in made.axes)]
        parts += [axes._left_title for axes in made.axes]
        for box in (part.get_window_extent() for part in parts):
            assert box.x0 >= -1 and box.x1 <= whole.x1 + 1, (draw, box)
        if style == "paper":
            assert made.get_figwidth() == {"column": 3.4, "page": 7.0}[width]


def test_widths_and_styles_have_names(told, tmp_path):
    place = told(tmp_path / "r", [0.5, 1.0])
    with pytest.raises(Refusal, match="width = 3 and style = 'paper' must be"):
        plot.curves(place, width=3)
    with pytest.raises(Refusal, match="'paper' or 'talk'"):
        plot.frontier(place, style="poster")


def test_fonts_can_be_embedded_by_latex(told, tmp_path):
    """TrueType, as publishers ask, instead of the default of matplotlib (Type 3)."""
    file = tmp_path / "x.pdf"
    plot.curves(told(tmp_path / "r", [0.5, 1.0])).savefig(file)
    assert b"/Type3" not in file.read_bytes() and b"/Type42" not in file.read_bytes()
    assert b"/TrueType" in file.read_bytes() or b"/CIDFontType2" in file.read_bytes()


def test_a_legend_is_read_however_many_points_there_are(told, tmp_path):
    values = np.linspace(0, 1, 1000)
    made = plot.clients(told(tmp_path / "x", values, shared=values[::-1]))
    names = legend(made)
    point = made.legends[0].legend_handles[names.index("shared model")]
    assert point.get_alpha() is None and point.get_markersize() == 4
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
