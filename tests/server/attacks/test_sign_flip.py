import pytest
import torch
from clients_sent import drawn, messages, same

from troth.server.attacks.ipm import ipm
from troth.server.attacks.sign_flip import sign_flip

HOSTILE = torch.tensor([False, True, False, True])


@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0, 7.0])
def test_benign_is_inner_product_manipulation(factor):
    sent = messages(drawn(4, 9, dtype=torch.float32))
    found = sign_flip(sent, HOSTILE, factor=factor, of="benign").update
    assert torch.equal(found, ipm(sent, HOSTILE, epsilon=factor).update)


def test_large_factors_stop_at_the_largest_number():
    """Beyond float32 too, where 0 times the factor must not become NaN."""
    update = torch.tensor([[1.0, 1.0], [1e30, 0.0], [1.0, 1.0], [-1e-40, 1.0]])
    found = sign_flip(messages(update), HOSTILE, factor=1e60).update
    limit = torch.finfo(torch.float32).max
    expected = torch.tensor([[-limit, 0.0], [1e20, -limit]])
    torch.testing.assert_close(found[HOSTILE], expected, rtol=1e-4, atol=0)


def test_an_own_update_that_is_no_number_goes_out_as_it_is():
    update = torch.tensor([[1.0, torch.inf], [torch.nan, 2.0], [1.0, 2.0]])
    found = sign_flip(messages(update), torch.ones(3, dtype=torch.bool)).update
    assert same(found[:2], update[:2])
    assert found[2].tolist() == [-1.0, -2.0]
