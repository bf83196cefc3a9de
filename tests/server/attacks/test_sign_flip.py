import pytest
import torch
from clients_sent import messages

from troth.server.attacks.ipm import ipm
from troth.server.attacks.sign_flip import sign_flip

UPDATE = torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 4.0], [-7.0, 0.25]])
HOSTILE = torch.tensor([False, True, False, True])


def test_own_by_hand():
    found = sign_flip(messages(UPDATE), HOSTILE).update
    assert found.tolist() == [[1.0, -2.0], [-0.5, -3.0], [4.0, 4.0], [7.0, -0.25]]
    found = sign_flip(messages(UPDATE), HOSTILE, factor=10.0).update
    assert found.tolist() == [[1.0, -2.0], [-5.0, -30.0], [4.0, 4.0], [70.0, -2.5]]


def test_benign_by_hand():
    """The mean of (1, −2) and (4, 4) is (2.5, 1)."""
    found = sign_flip(messages(UPDATE), HOSTILE, factor=2.0, of="benign").update
    assert found.tolist() == [[1.0, -2.0], [-5.0, -2.0], [4.0, 4.0], [-5.0, -2.0]]


@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0, 7.0])
def test_benign_is_inner_product_manipulation(factor):
    sent = messages(torch.randn(4, 9))
    found = sign_flip(sent, HOSTILE, factor=factor, of="benign").update
    assert torch.equal(found, ipm(sent, HOSTILE, epsilon=factor).update)


def test_twice_is_nothing():
    sent = messages(torch.randn(4, 9))
    again = sign_flip(sign_flip(sent, HOSTILE), HOSTILE)
    assert torch.equal(again.update, sent.update)


@pytest.mark.parametrize("of", ["own", "benign"])
def test_factor_zero_sends_zeros(of):
    found = sign_flip(messages(UPDATE), HOSTILE, factor=0.0, of=of).update
    assert not found[HOSTILE].any()


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
    assert torch.equal(found[:2].view(torch.int32), update[:2].view(torch.int32))
    assert found[2].tolist() == [-1.0, -2.0]
