import pytest
import torch
from clients_sent import column, messages

from troth.server.aggregators.mean import mean


def test_by_hand():
    """One message moves it anywhere."""
    update = torch.tensor([[1.0, -2.0], [2.0, 4.0], [6.0, 1.0]])
    assert mean(messages(update)).tolist() == [3.0, 1.0]
    assert mean(column(1e6, *[0.0] * 9)).item() == pytest.approx(1e5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_sum_beyond_the_range(dtype):
    most = torch.finfo(dtype).max
    update = torch.tensor([[most, 1.0], [most, 2.0], [-most, 3.0]], dtype=dtype)
    found = mean(messages(update))
    assert found.dtype == dtype
    assert found.tolist() == pytest.approx([most / 3, 2.0], rel=1e-2)
