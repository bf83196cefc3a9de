import pytest
import torch
from clients_sent import DENORMAL, column
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.median import median

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | DENORMAL


def of(*values, **options):
    return median(column(*values, **options)).item()


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 1001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_numbers_are_kept(steps, dtype):
    """Half of an odd number of the smallest steps is no number of that type."""
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    one = steps * least.item()
    assert of(one, one, dtype=dtype) == one
    assert of(-one, -one, dtype=dtype) == -one


@settings(max_examples=80, deadline=None)
@given(st.lists(FLOATS, min_size=2, max_size=6), st.data())
def test_fewer_than_half_cannot_lead_it_out(benign, data):
    hostile = data.draw(st.lists(FLOATS, max_size=len(benign) - 1))
    assert min(benign) <= of(*hostile, *benign) <= max(benign)
