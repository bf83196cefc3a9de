import pytest

from troth.client.schedules.steps import steps
from troth.types import Refusal

from ..hand import INF, NAN


def test_by_hand():
    found = [steps(r, every=3) for r in range(8)]
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25]
    found = [steps(r, every=1, factor=0.1) for r in range(3)]
    assert found == pytest.approx([1.0, 0.1, 0.01])
    assert (steps(199, every=200), steps(200, every=200)) == (1.0, 0.5)
    floored = [steps(r, every=1, factor=0.5, floor=0.2) for r in range(5)]
    assert floored == [1.0, 0.5, 0.25, 0.2, 0.2]
    assert {steps(r, every=2, factor=1.0) for r in range(9)} == {1.0}  # is constant
    assert steps(10**6, every=1) == 0.0  # vanishes quietly in a long run


@pytest.mark.parametrize("floor", [-0.1, 1.5, NAN])
def test_refuses_a_floor_that_is_no_part(floor):
    with pytest.raises(Refusal, match=f"floor = {floor} must be from 0 to 1"):
        steps(0, every=1, floor=floor)


@pytest.mark.parametrize(
    ("every", "factor"), [(0, 0.5), (-3, 0.5), (5, 0.0), (5, -0.5), (5, NAN), (5, INF)]
)
def test_refuses_what_is_out_of_range(every, factor):
    with pytest.raises(Refusal, match=f"every = {every}.* factor = {factor}"):
        steps(0, every=every, factor=factor)


def test_refuses_to_grow_beyond_a_million():
    assert steps(19, every=1, factor=2.0) == 2.0**19
    with pytest.raises(Refusal, match="factor = 2.0 over 20 changes multiplies"):
        steps(20, every=1, factor=2.0)
