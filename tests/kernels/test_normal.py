"""The kernel beside the plain code, on a GPU; without one there is nothing to run."""

from __future__ import annotations

import pytest
import torch

from troth import seeding


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("keys", "count"), [(1, 1), (3, 7), (2, 100_001), (1, 2**20)])
def test_normal_numbers_are_those_of_the_plain_code(keys: int, count: int) -> None:
    from troth.kernels import normal

    key = seeding.keys(3, "test", 5, torch.arange(keys))
    ours, plain = normal.normal(key.cuda(), count).cpu(), seeding.normal(key, count)
    assert ours.shape == plain.shape
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
