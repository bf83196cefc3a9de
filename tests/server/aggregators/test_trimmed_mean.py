import numpy as np
import pytest
import torch
from clients_sent import drawn, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.median import median
from troth.server.aggregators.trimmed_mean import trimmed_mean

FLOATS = st.one_of(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.integers(-9, 9).map(lambda steps: steps * 2.0**-149),
    st.integers(-2, 2).map(float),
)


def of(f: int, *values: float, strict: bool = True) -> float:
    column = torch.tensor(values, dtype=torch.float32)[:, None]
    return trimmed_mean(messages(column), f=f, strict=strict).item()


def test_by_hand():
    update = torch.tensor(
        [[9.0, 1.0], [1.0, 2.0], [2.0, 3.0], [4.0, -7.0], [-100.0, 1e30]]
    )
    expected = [(1 + 2 + 4) / 3, (1 + 2 + 3) / 3]
    assert trimmed_mean(messages(update), f=1).tolist() == pytest.approx(expected)
    assert trimmed_mean(messages(update), f=2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("n", "d", "f"), [(3, 1, 1), (60, 40, 20), (9, 70_000, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_its_definition(n, d, f, dtype):
    update = drawn(n, d, dtype=dtype)
    found = trimmed_mean(messages(update), f=f)
    expected = np.sort(update.double().numpy(), axis=0)[f : n - f].mean(axis=0)
    torch.testing.assert_close(
        found.double(), torch.from_numpy(expected), rtol=1e-6, atol=1e-7
    )
    assert found.dtype == dtype


def test_equal_values_at_the_cut_are_the_same_to_it():
    assert of(1, 1.0, 1.0, 3.0, 3.0) == 2.0
    assert of(2, 0.0, 0.0, 0.0, 0.0, 9.0) == 0.0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_f_rows_cannot_lead_it_out_of_the_benign_range(data):
    f = data.draw(st.integers(1, 4))
    benign = data.draw(st.lists(FLOATS, min_size=f + 1, max_size=9))
    hostile = data.draw(st.lists(FLOATS, min_size=f, max_size=f))
    found = of(f, *hostile, *benign)
    assert min(benign) <= found <= max(benign)


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=7), st.integers(1, 20))
def test_not_strict_it_is_the_median_at_the_end(values, f):
    found = of(f, *values, strict=False)
    assert np.isfinite(found)
    if 2 * f >= len(values) - 1:
        column = torch.tensor(values, dtype=torch.float32)[:, None]
        assert found == pytest.approx(
            median(messages(column)).item(), rel=1e-6, abs=2**-149
        )


def test_a_sum_beyond_the_range():
    most = torch.finfo(torch.float64).max
    column = [-most, most / 2, most / 2, most / 2, most]
    update = torch.tensor(column, dtype=torch.float64)[:, None]
    assert trimmed_mean(messages(update), f=1).item() == pytest.approx(most / 2)
