import pytest
import torch
from clients_sent import messages

from troth.server.attacks.infinite import infinite
from troth.server.filters.drop_invalid import drop_invalid
from troth.types import Broadcast

HOSTILE = torch.tensor([False, True, False])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_by_hand(value, dtype):
    update = torch.randn(3, 2, dtype=dtype)
    found = infinite(messages(update), HOSTILE, value=value).update
    expected = torch.full((2,), float(value), dtype=dtype)
    torch.testing.assert_close(found[1], expected, equal_nan=True)
    assert torch.equal(found[~HOSTILE], update[~HOSTILE])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_the_first_filter_drops_it(value):
    sent = infinite(messages(torch.randn(3, 2), extra=2), HOSTILE, value=value)
    broadcast = Broadcast(torch.zeros(2), torch.zeros(2), torch.ones(()))
    assert drop_invalid(broadcast, sent).client.tolist() == [0, 2]
