from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import numerics

LEAST = 2.0**-149  # the smallest denormal in float32
FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-9, 9).map(lambda steps: steps * LEAST),
)


def test_by_hand() -> None:
    rows = torch.tensor([[3.0, 1.0], [1.0, 1.0], [2.0, -8.0]])
    assert numerics.median(rows).tolist() == [2.0, 1.0]


def test_even_counts_take_the_mean_of_the_middle() -> None:
    rows = torch.tensor([[3.0], [1.0], [2.0], [9.0]])
    assert rows.median(dim=0).values.item() == 2.0  # why there is one of our own
    assert numerics.median(rows).item() == 2.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", range(1, 12))
def test_as_numpy_does(n: int, dtype: torch.dtype) -> None:
    rows = torch.randn(n, 5, generator=torch.Generator().manual_seed(n)).to(dtype)
    found = numerics.median(rows)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.median(rows.numpy(), axis=0), rtol=1e-6)


def test_of_no_coordinates() -> None:
    assert numerics.median(torch.zeros(4, 0)).shape == (0,)


def test_does_not_overflow() -> None:
    largest = torch.finfo(torch.float32).max
    assert numerics.median(torch.full((4, 1), largest)).item() == largest
    assert numerics.median(torch.tensor([[-largest], [largest]])).item() == 0.0


def test_infinite_values_at_the_ends_do_no_harm() -> None:
    inf = float("inf")
    assert numerics.median(torch.tensor([[-inf], [1.0], [2.0], [inf]])).item() == 1.5
    assert numerics.median(torch.tensor([[1.0], [inf], [inf], [inf]])).item() == inf


@pytest.mark.parametrize("n", [3, 4])
def test_what_is_no_number_shows(n: int) -> None:
    rows = torch.arange(2.0 * n).reshape(n, 2)
    rows[1, 0] = torch.nan
    found = numerics.median(rows)
    assert found[0].isnan()
    assert found[1].isfinite()


@settings(max_examples=150, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=8))
def test_lies_between_the_middle_values(values: list[float]) -> None:
    """Exactly, for denormals as well."""
    found = numerics.median(torch.tensor(values)[:, None]).item()
    ordered = sorted(values)
    assert ordered[(len(values) - 1) // 2] <= found <= ordered[len(values) // 2]


def test_does_not_touch_what_it_reads() -> None:
    rows = torch.randn(6, 3)
    kept = rows.clone()
    numerics.median(rows)
    assert torch.equal(rows, kept)
