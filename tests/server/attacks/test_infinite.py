import pytest
import torch
from clients_sent import broadcast, drawn, messages

from troth.server.attacks.infinite import infinite
from troth.server.filters.drop_invalid import drop_invalid

HOSTILE = torch.tensor([False, True, False])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_by_hand_and_the_first_filter_drops_it(value, dtype):
    found = infinite(messages(drawn(3, 2, dtype=dtype)), HOSTILE, value=value)
    expected = torch.full((2,), float(value), dtype=dtype)
    torch.testing.assert_close(found.update[1], expected, equal_nan=True)
    left = drop_invalid(broadcast(torch.zeros(2, dtype=dtype)), found)
    assert left.client.tolist() == [0, 2]
