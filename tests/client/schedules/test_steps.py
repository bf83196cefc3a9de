from __future__ import annotations

import pytest

from troth import lookup
from troth.client.schedules.steps import steps
from troth.types import Refusal


def test_by_hand() -> None:
    found = [steps(r, every=3) for r in range(8)]
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]


def test_every_round() -> None:
    assert [steps(r, every=1, factor=0.1) for r in range(3)] == pytest.approx(
        [1.0, 0.1, 0.01]
    )


def test_halving_every_200_rounds() -> None:
    assert (steps(199, every=200), steps(200, every=200)) == (1.0, 0.5)


def test_factor_one_is_constant() -> None:
    assert {steps(r, every=2, factor=1.0) for r in range(9)} == {1.0}


def test_vanishes_quietly_in_a_long_run() -> None:
    assert steps(10**6, every=1) == 0.0


def test_it_stops_at_the_floor() -> None:
    found = [steps(r, every=1, factor=0.5, floor=0.2) for r in range(5)]
    assert found == [1.0, 0.5, 0.25, 0.2, 0.2]


@pytest.mark.parametrize("floor", [-0.1, 1.5, float("nan")])
def test_refuses_a_floor_that_is_no_part(floor: float) -> None:
    with pytest.raises(Refusal, match="floor"):
        steps(0, every=1, floor=floor)


@pytest.mark.parametrize(
    ("every", "factor"),
    [(0, 0.5), (-3, 0.5), (5, 0.0), (5, -0.5), (5, float("nan")), (5, float("inf"))],
)
def test_refuses_what_is_out_of_range(every: int, factor: float) -> None:
    with pytest.raises(Refusal) as refusal:
        steps(0, every=every, factor=factor)
    assert f"every = {every}" in str(refusal.value)
    assert f"factor = {factor}" in str(refusal.value)


def test_needs_to_know_how_often() -> None:
    with pytest.raises(Refusal, match="'steps' needs the option 'every'"):
        lookup.check("schedule", "steps", {})
    full = lookup.check("schedule", "steps", {"every": 200})
    assert full == {"every": 200, "factor": 0.5, "floor": 0.0}
