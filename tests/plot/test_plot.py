"""Pictures show what the files say; they are told apart without colour."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import troth
from troth import plot
from troth.plot import _style
from troth.plot.verdicts import happened
from troth.types import Refusal


def lines(figure: Figure, panel: int = 0) -> list[tuple[list[float], list[float]]]:
    axes = figure.axes[panel]
    return [(list(map(float, x)), list(map(float, y))) for x, y in _data(axes)]


def _data(axes: Any) -> list[Any]:
    return [line.get_data() for line in axes.get_lines()]


def test_curves_are_the_evaluations(examined: Path) -> None:
    run = troth.load(examined / "clean")
    figure = plot.curves(run)
    told = [r for r in run.rounds if "evaluation" in r]
    for panel, kind in enumerate(("personal", "shared")):
        (x, mean), (_, worst) = lines(figure, panel)
        assert x == [r["round"] + 1 for r in told]
        assert mean == [r["evaluation"][kind]["accuracy_mean"] for r in told]
        assert worst == [r["evaluation"][kind]["accuracy_worst10"] for r in told]


def test_clients_are_sorted_and_beside_each_other(examined: Path) -> None:
    figure = plot.clients(examined / "attacked")
    _, local, own = (
        troth.load(examined / "attacked" / f"personalizer={name}")
        for name in ("none", "local", "ditto+lam=auto")
    )
    benign = own.clients["malicious"] == 0
    drawn = lines(figure, 0)
    assert drawn[2][1] == sorted(own.clients["accuracy"][benign])
    best = max((local, own), key=lambda r: r.summary["personal"]["accuracy_mean"])
    values = lines(figure, 1)[-1][1]
    assert values == sorted(best.clients["accuracy"][benign])


def test_the_frontier_is_in_the_summaries(examined: Path) -> None:
    points = lines(plot.frontier([examined / "clean"]))
    s = troth.load(examined / "clean").summary
    assert points[0] == ([s["shared"]["accuracy_std"]], [s["shared"]["accuracy_mean"]])
    assert points[-1] == (
        [s["personal"]["accuracy_std"]],
        [s["personal"]["accuracy_mean"]],
    )


def test_certified_falls_with_the_radius(examined: Path) -> None:
    figure = plot.certified(examined / "attacked")
    for _, y in lines(figure):
        assert all(np.diff(y) <= 0) and 0 <= y[-1] <= y[0] <= 1


def test_audit_draws_every_client(examined: Path) -> None:
    place = examined / "attacked" / "personalizer=ditto+lam=auto"
    drawn = lines(plot.audit(place))
    points = [y for x, y in drawn[:-1]]  # the last is the limit
    assert sum(map(len, points)) == 9 and drawn[-1][1] == [0.1, 0.1]


def test_verdicts_are_those_of_the_rounds(examined: Path) -> None:
    (run, *_) = plot._style.given(examined / "attacked")
    table = run.column("clipped")
    found = happened(run, "clipped")
    assert np.bincount(found[:, 1], minlength=12).tolist() == table.tolist()
    titles = [axes.get_title(loc="left") for axes in plot.verdicts(run).axes]
    assert [title.split()[0] for title in titles] == ["clipped", "chosen"]


def test_pairs_hold_their_intervals(examined: Path) -> None:
    figure = plot.pairs(examined / "attacked")
    (ends, _), (mean, _) = lines(figure)[:2]
    assert ends[0] <= mean[0] <= ends[1]


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("name", plot.__all__)
def test_every_picture_is_saved(
    examined: Path, tmp_path: Path, name: str, kind: str
) -> None:
    figure = getattr(plot, name)([examined / "attacked", examined / "clean"])
    figure.savefig(tmp_path / f"x.{kind}")
    assert (tmp_path / f"x.{kind}").stat().st_size > 1000


@pytest.mark.parametrize("name", ["certified", "audit", "verdicts", "pairs"])
def test_what_is_not_there_is_refused(told: Any, tmp_path: Path, name: str) -> None:
    with pytest.raises(Refusal, match="troth (certify|audit|list)|give two that do"):
        getattr(plot, name)(told(tmp_path / "x", [0.5, 1.0]))


def test_an_unfinished_run(examined: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(examined / "clean", place)
    (place / "summary.json").unlink()
    assert lines(plot.curves(place))
    for draw in (plot.clients, plot.frontier, plot.pairs):
        with pytest.raises(Refusal, match="none of the runs is finished"):
            draw(place)
    (place / "rounds.jsonl").write_text("")
    with pytest.raises(Refusal, match="evaluation yet"):
        plot.curves(place)
    with pytest.raises(Refusal, match="no run to draw"):
        plot.curves([])


@pytest.mark.parametrize(
    "label", [r"$\frac{1$", "$$", "x" * 500, "\x07\n", "名前 🦆", "_y"]
)
def test_labels_of_any_sort(told: Any, tmp_path: Path, label: str) -> None:
    runs = plot._style.given([told(tmp_path / "x", [0.5, 1.0])])
    runs[0].label = label
    from troth.reports._figures import svg

    for draw in (plot.curves, plot.clients, plot.frontier):
        assert "</svg>" in svg(draw(runs), "salt")


def test_colours_differ_in_grey_and_come_with_marks() -> None:
    dashes = {str(_style.line(i)["linestyle"]) for i in range(len(_style.SERIES))}
    marks = {_style.mark(i)["marker"] for i in range(len(_style.SERIES))}
    assert len(dashes) == len(marks) == len(_style.SERIES)
    grey = [np.dot([0.2126, 0.7152, 0.0722], to_rgb(c)) for c in _style.SERIES[:3]]
    assert len({round(float(v), 2) for v in grey}) == 3
    assert all(v < 0.7 for v in grey)  # to be seen on paper


def test_a_legend_names_ten(told: Any, tmp_path: Path) -> None:
    runs = [told(tmp_path / f"r{i}", [0.5, 1.0], seed=i) for i in range(13)]
    names = [t.get_text() for t in plot.curves(runs).axes[0].get_legend().get_texts()]
    assert len(names) == 10 and names[0] == "r0" and names[-1] == "and 4 more"


def test_plot_is_there_by_name() -> None:
    assert troth.plot.curves is plot.curves
