import numpy as np
import pytest
import torch
from clients_sent import FLOATS, column, drawn, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.median import median
from troth.server.aggregators.trimmed_mean import trimmed_mean


def of(f, *values, **options):
    return trimmed_mean(column(*values), f=f, **options).item()


@pytest.mark.parametrize(("n", "d", "f"), [(3, 1, 1), (60, 40, 20), (9, 70_000, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_its_definition(n, d, f, dtype):
    update = drawn(n, d, dtype=dtype)
    found = trimmed_mean(messages(update), f=f)
    expected = np.sort(update.double().numpy(), axis=0)[f : n - f].mean(axis=0)
    np.testing.assert_allclose(found.double(), expected, rtol=1e-6, atol=1e-7)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.data())
def test_f_rows_cannot_lead_it_out_of_the_benign_range(f, data):
    benign = data.draw(st.lists(FLOATS, min_size=f + 1, max_size=9))
    hostile = data.draw(st.lists(FLOATS, min_size=f, max_size=f))
    assert min(benign) <= of(f, *hostile, *benign) <= max(benign)


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=7), st.integers(1, 20))
def test_not_strict_it_is_the_median_at_the_end(values, f):
    found = of(f, *values, strict=False)
    assert np.isfinite(found)
    if 2 * f >= len(values) - 1:
        expected = median(column(*values)).item()
        assert found == pytest.approx(expected, rel=1e-6, abs=2**-149)
