from __future__ import annotations

import math

import pytest

from troth import lookup
from troth.client.schedules.cosine import cosine
from troth.types import Refusal


def test_by_hand() -> None:
    half = math.sqrt(0.5)
    expected = [1.0, (1 + half) / 2, 0.5, (1 - half) / 2, 0.0]
    assert [cosine(r, 4) for r in range(5)] == pytest.approx(expected, abs=1e-15)


def test_a_floor() -> None:
    assert cosine(0, 10, floor=0.2) == pytest.approx(1.0)
    assert cosine(5, 10, floor=0.2) == pytest.approx(0.6)
    assert cosine(10, 10, floor=0.2) == pytest.approx(0.2)


def test_floor_one_is_constant() -> None:
    assert {cosine(r, 7, floor=1.0) for r in range(7)} == {1.0}


@pytest.mark.parametrize("rounds", [1, 2, 3, 100, 5000])
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_falls_and_stays_above_its_floor(rounds: int, floor: float) -> None:
    values = [cosine(r, rounds, floor=floor) for r in range(rounds)]
    assert values[0] == 1.0
    assert all(a > b for a, b in zip(values, values[1:], strict=False))
    assert min(values) > floor


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan"), float("inf")])
def test_refuses_a_floor_outside_its_range(floor: float) -> None:
    with pytest.raises(Refusal, match=rf"floor = {floor} must lie in \[0, 1\]"):
        cosine(0, 10, floor=floor)


def test_options_and_reference() -> None:
    assert lookup.check("schedule", "cosine", {}) == {"floor": 0.0}
    (entry,) = lookup.about("schedule", "cosine").citations
    assert entry.startswith("@inproceedings{loshchilov2017sgdr")
