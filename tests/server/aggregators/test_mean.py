from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server.aggregators.mean import mean
from troth.types import Messages, Refusal


def messages(update: Tensor, size: Tensor | None = None) -> Messages:
    n = len(update)
    ones = torch.ones(n, dtype=torch.long) if size is None else size
    loss = torch.full((n,), torch.nan)
    return Messages(update, update[:, :0], loss, ones, torch.arange(n))


def test_by_hand() -> None:
    update = torch.tensor([[1.0, -2.0], [2.0, 4.0], [6.0, 1.0]])
    assert mean(messages(update)).tolist() == [3.0, 1.0]


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 7), (2, 1), (57, 3)])
def test_as_numpy_does(n: int, d: int) -> None:
    update = torch.randn(n, d, dtype=torch.float64)
    expected = np.mean(update.numpy(), axis=0)
    np.testing.assert_allclose(mean(messages(update)).numpy(), expected, rtol=1e-12)


def test_sizes_do_not_weigh() -> None:
    update = torch.tensor([[0.0], [1.0]])
    assert mean(messages(update, torch.tensor([1, 10**6]))).item() == 0.5


def test_one_message_moves_it_anywhere() -> None:
    update = torch.zeros(10, 1)
    update[3] = 1e6
    assert mean(messages(update)).item() == pytest.approx(1e5)


def test_has_no_options() -> None:
    with pytest.raises(Refusal, match="'mean' has no option 'f'; it has none"):
        lookup.check("aggregator", "mean", {"f": 2})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_sum_beyond_the_range(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    update = torch.tensor([[most, 1.0], [most, 2.0], [-most, 3.0]], dtype=dtype)
    found = mean(messages(update))
    assert found.dtype == dtype
    assert found.tolist() == pytest.approx([most / 3, 2.0], rel=1e-2)
