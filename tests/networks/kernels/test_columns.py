"""The kernel beside the plain code, on a GPU; without one there is nothing to run."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import numerics

columns = pytest.importorskip("troth.networks.kernels.columns")
pytestmark = pytest.mark.usefixtures("gpu")


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda", dtype=dtype)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 64), st.integers(0, 3000), st.integers(0, 2**32 - 1))
def test_medians_are_those_of_sorted_columns(n, d, seed):
    random = torch.Generator("cpu").manual_seed(seed)
    rows = torch.randn(n, d, generator=random)
    for value in (torch.nan, torch.inf, -torch.inf, 3e38, 0.0):
        rows[torch.rand(n, d, generator=random) < 0.02] = value
    ours, plain = columns.median(rows.cuda()).cpu(), numerics.median(rows)
    assert torch.equal(ours.isnan(), plain.isnan())
    assert torch.equal(ours.nan_to_num(), plain.nan_to_num())


def test_which_medians_the_kernel_takes():
    assert columns.fits(drawn(64, 2)) and not columns.fits(drawn(65, 2))
    assert not columns.fits(drawn(3, 2).double()) and not columns.fits(drawn(0, 2))
    turned = drawn(50, 9).T  # columns that lie one behind the other
    assert torch.equal(numerics.median(turned).cpu(), numerics.median(turned.cpu()))
