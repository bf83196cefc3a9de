"""How well clients are served: curves, clients, frontier and pairs."""

import pytest

import troth
from troth import plot
from troth.plot import _style

SHARED = _style.SERIES[_style.SHARED]
GRID = ("none", "local", "ditto+lam=auto")


def title(axes):
    return str(axes.get_title(loc="left"))


def test_curves_are_the_evaluations(lines, examined):
    run = troth.load(examined / "clean")
    figure = plot.curves(run)
    told = [r for r in run.rounds if "evaluation" in r]
    for panel, kind in enumerate(("personal", "shared")):
        (x, mean), (_, worst) = lines(figure, panel)
        assert x == [r["round"] + 1 for r in told]
        assert mean == [r["evaluation"][kind]["accuracy_mean"] for r in told]
        assert worst == [r["evaluation"][kind]["accuracy_worst10"] for r in told]


def test_the_same_shared_model_is_one_line_and_one_point(lines, told, tmp_path):
    """In the colour of the run that is it, or that of shared models."""
    shared = [0.4, 0.6]
    runs = [
        told(tmp_path / "own", [0.5, 1.0], shared=shared),
        told(tmp_path / "alone", [0.5, 0.9], shared=shared, personalizer="local"),
    ]
    more = [*runs, told(tmp_path / "none", shared, personalizer="none")]
    for some, points in ((runs, [SHARED]), (more, [])):
        made = plot.curves(some)
        assert len(lines(made, 0)) == 2 * len(some) and len(lines(made, 1)) == 2
        assert {line.get_color() for line in made.axes[1].get_lines()} == {SHARED}
        assert title(made.axes[1]) == "the shared model, the same in all runs"
        drawn = plot.frontier(some).axes[0].get_lines()
        marked = [p for p in drawn if p.get_marker() not in ("None", "", None)]
        hollow = [p for p in marked if p.get_markerfacecolor() == _style.PAPER]
        assert [p.get_color() for p in hollow] == points
    other = told(tmp_path / "other", [0.5, 1.0], shared=[0.1, 0.2])
    made = plot.curves([*runs, other])
    assert len(lines(made, 1)) == 4 and title(made.axes[1]) == "the shared model"


def test_rounds_are_numbered_by_whole_numbers(told, tmp_path):
    made = plot.curves(told(tmp_path / "r", [0.5, 1.0]))  # four rounds
    for axes in made.axes:
        assert all(tick == int(tick) for tick in axes.get_xticks())


def test_means_over_seeds_and_their_intervals(lines, told, tmp_path):
    """The Student interval by hand: 0.6 ± 4.303 · 0.1 / √3, and no band of one seed."""
    runs = [
        told(tmp_path / f"s{i}", [v, v], seed=i) for i, v in enumerate((0.5, 0.6, 0.7))
    ]
    runs.append(told(tmp_path / "local", [0.2, 0.2], personalizer="local"))
    made = plot.seeds(runs)
    (x, mean), (_, other) = lines(made)
    assert x == [1, 2, 3, 4] and mean == pytest.approx([0.6] * 4)
    assert other == pytest.approx([0.2] * 4)
    band, none = (each.get_paths() for each in made.axes[0].collections)
    ends = band[0].vertices[:, 1]
    half = 4.3026527 * 0.1 / 3**0.5
    assert (ends.min(), ends.max()) == pytest.approx((0.6 - half, 0.6 + half))
    assert not any(len(path.vertices) for path in none)
    names = [text.get_text() for text in made.legends[0].get_texts()]
    assert names == ["s0 (3 seeds)", "local (1 seed)"]


def test_clients_are_sorted_and_beside_each_other(lines, examined):
    places = [examined / "attacked" / f"personalizer={name}" for name in GRID]
    _, local, own = map(troth.load, places)
    figure = plot.clients(examined / "attacked")
    benign = own.clients["malicious"] == 0
    assert lines(figure, 0)[2][1] == sorted(own.clients["accuracy"][benign])
    best = max((local, own), key=lambda r: r.summary["personal"]["accuracy_mean"])
    assert lines(figure, 1)[-1][1] == sorted(best.clients["accuracy"][benign])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_model_has_one_colour_left_and_right(colours, examined, order):
    given = [examined / "attacked" / f"personalizer={GRID[i]}" for i in order]
    made = plot.clients(given)
    left, right = colours(made, 0), colours(made, 1)
    assert {*left} == {"no personalizer", "local", "ditto,lam=auto"}
    assert len(right) >= 2 and right.items() <= left.items()
    assert len({*left.values()}) == 3
    assert left["no personalizer"] == SHARED
    assert left["local"] == _style.SERIES[_style.LOCAL]


def test_a_shared_model_without_a_run_of_its_own(colours, told, tmp_path):
    own, shared = [1.0, 0.2, 0.5, 0.9], [0.4, 0.6, 0.5, 0.5]
    made = plot.clients(told(tmp_path / "x", own, shared=shared, hostile=[0, 0, 0, 1]))
    assert colours(made, 0) == colours(made, 1)
    assert colours(made, 0)["shared model"] == SHARED
    left, right = made.axes
    assert left.get_xlabel() == "share of benign clients"
    assert right.get_xlabel() == "position among 3 benign clients, worst first"
    assert title(right) == "clients in the order of x"


def test_the_frontier_is_in_the_summaries(lines, examined):
    shared, *_, own = lines(plot.frontier([examined / "clean"]))
    summary = troth.load(examined / "clean").summary
    for point, kind in ((shared, "shared"), (own, "personal")):
        wanted = (summary[kind][f"accuracy_{what}"] for what in ("std", "mean"))
        assert point == tuple([v] for v in wanted)


def test_pairs_are_those_to_decide_between_with_intervals(lines, examined):
    figure = plot.pairs(examined / "attacked")
    (ends, _), (mean, _) = lines(figure)[:2]
    assert ends[0] <= mean[0] <= ends[1]
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    own, none = "ditto,lam=auto", "no personalizer"
    assert names == [f"local − {none}", f"{own} − {none}", f"{own} − local"]
