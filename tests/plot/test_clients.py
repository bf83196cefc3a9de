"""Who is served how well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import troth
from troth import plot
from troth.plot import _style


def test_clients_are_sorted_and_beside_each_other(lines: Any, examined: Path) -> None:
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


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_model_has_one_colour_left_and_right(
    colours: Any, examined: Path, order: tuple[int, ...]
) -> None:
    names = ("none", "local", "ditto+lam=auto")
    given = [examined / "attacked" / f"personalizer={names[i]}" for i in order]
    made = plot.clients(given)
    left, right = colours(made, 0), colours(made, 1)
    wanted = {"no personalizer", "local", "ditto,lam=auto"}
    assert {*left} == wanted and len(right) >= 2  # the best one, and what it gains on
    assert right.items() <= left.items()
    assert len({*left.values()}) == 3
    assert left["no personalizer"] == _style.SERIES[_style.SHARED]
    assert left["local"] == _style.SERIES[_style.LOCAL]


def test_a_shared_model_without_a_run_of_its_own(
    colours: Any, told: Any, tmp_path: Path
) -> None:
    made = plot.clients(told(tmp_path / "x", [0.5, 1.0], shared=[0.4, 0.6]))
    assert colours(made, 0) == colours(made, 1)
    assert colours(made, 0)["shared model"] == _style.SERIES[_style.SHARED]


def test_the_axis_is_a_position_and_says_so(told: Any, tmp_path: Path) -> None:
    run = told(tmp_path / "x", [1.0, 0.2, 0.5, 0.9], hostile=[0, 0, 0, 1])
    left, right = plot.clients(run).axes
    assert left.get_xlabel() == "share of benign clients"
    assert right.get_xlabel() == "position among 3 benign clients, worst first"
    assert right.get_title(loc="left") == "the same clients, all in the order of x"
