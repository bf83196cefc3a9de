import itertools
import math

import pytest

from troth.client.schedules.cosine import cosine
from troth.types import Refusal

from ..hand import INF, NAN


def test_by_hand():
    half = math.sqrt(0.5)
    expected = [1.0, (1 + half) / 2, 0.5, (1 - half) / 2, 0.0]
    assert [cosine(r, 4) for r in range(5)] == pytest.approx(expected, abs=1e-15)
    floored = [cosine(r, 10, floor=0.2) for r in (0, 5, 10)]
    assert floored == pytest.approx([1.0, 0.6, 0.2])
    assert {cosine(r, 7, floor=1.0) for r in range(7)} == {1.0}  # is constant


@pytest.mark.parametrize("rounds", [1, 2, 3, 100, 5000])
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_falls_and_stays_above_its_floor(rounds, floor):
    values = [cosine(r, rounds, floor=floor) for r in range(rounds)]
    assert values[0] == 1.0 and values[-1] > floor
    assert all(a > b for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("floor", [-0.1, 1.1, NAN, INF])
def test_refuses_a_floor_outside_its_range(floor):
    with pytest.raises(Refusal, match=rf"floor = {floor} must lie in \[0, 1\]"):
        cosine(0, 10, floor=floor)
