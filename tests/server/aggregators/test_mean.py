import pytest
import torch
from clients_sent import messages

from troth.server.aggregators.mean import mean


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_sum_beyond_the_range(dtype):
    most = torch.finfo(dtype).max
    update = torch.tensor([[most, 1.0], [most, 2.0], [-most, 3.0]], dtype=dtype)
    found = mean(messages(update))
    assert found.dtype == dtype
    assert found.tolist() == pytest.approx([most / 3, 2.0], rel=1e-2)
