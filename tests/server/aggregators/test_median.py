import pytest
import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.median import median

FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-9, 9).map(lambda steps: steps * 2.0**-149),
)


def of(*values: float, dtype: torch.dtype = torch.float32) -> float:
    """The median of some numbers: d = 1."""
    return median(messages(torch.tensor(values, dtype=dtype)[:, None])).item()


def test_by_hand():
    update = torch.tensor([[1.0, 9.0], [2.0, -4.0], [100.0, 0.0]])
    assert median(messages(update)).tolist() == [2.0, 0.0]


def test_even_counts_take_the_middle():
    assert of(1.0, 2.0) == 1.5
    assert of(4.0, 1.0, 3.0, 100.0) == 3.5
    assert of(0.0, 0.0, 1.0, 1.0) == 0.5


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 1001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_numbers_are_kept(steps, dtype):
    """Half of an odd number of the smallest steps is no number of that type."""
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    one = steps * least.item()
    assert of(one, one, dtype=dtype) == one
    assert of(-one, -one, dtype=dtype) == -one


@settings(max_examples=150, deadline=None)
@given(
    st.lists(FLOATS, min_size=2, max_size=6).flatmap(
        lambda benign: st.tuples(
            st.just(benign), st.lists(FLOATS, max_size=len(benign) - 1)
        )
    )
)
def test_fewer_than_half_cannot_lead_it_out(sides):
    benign, hostile = sides
    assert min(benign) <= of(*hostile, *benign) <= max(benign)


def test_half_can():
    assert of(1.0, 2.0, 1e30, 1e30) > 2.0
