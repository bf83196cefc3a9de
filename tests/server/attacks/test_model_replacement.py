import pytest
import torch
from clients_sent import messages

from troth.server.aggregators.mean import mean
from troth.server.attacks.model_replacement import model_replacement


def test_by_hand():
    update = torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 4.0]])
    hostile = torch.tensor([False, True, False])
    found = model_replacement(messages(update), hostile)
    assert found.update.tolist() == [[1.0, -2.0], [1.5, 9.0], [4.0, 4.0]]


def test_one_outvotes_all():
    """Where the others cancel out, the mean is the hostile client's own update."""
    update = torch.tensor([[1.0, -2.0], [-1.0, 2.0], [0.5, 3.0], [0.0, 0.0]])
    hostile = torch.tensor([False, False, True, False])
    found = model_replacement(messages(update), hostile)
    assert mean(found).tolist() == [0.5, 3.0]


@pytest.mark.parametrize("factor", [0.1, 2.0, 3.5, 1e6, 1e-20])
def test_any_factor(factor):
    update = torch.randn(4, 3, dtype=torch.float64)
    hostile = torch.tensor([True, False, False, True])
    found = model_replacement(messages(update), hostile, factor=factor)
    torch.testing.assert_close(
        found.update[hostile], update[hostile] * factor, rtol=1e-12, atol=0
    )


def test_factor_one_is_no_attack():
    sent = messages(torch.randn(5, 3))
    found = model_replacement(sent, torch.ones(5, dtype=torch.bool), factor=1.0)
    assert torch.equal(found.update, sent.update)


def test_alone_in_the_round_it_is_no_attack():
    sent = messages(torch.randn(1, 3))
    found = model_replacement(sent, torch.tensor([True]))
    assert torch.equal(found.update, sent.update)


def test_what_would_be_infinite_stops_at_the_largest_number():
    """Lest the server drop it: an adversary would not want that."""
    sent = messages([[1e30, 0.0, -2.0], [1.0, 0.0, 1.0]])
    found = model_replacement(sent, torch.tensor([True, False]), factor=1e39)
    most = torch.finfo(torch.float32).max
    assert found.update.tolist() == [[most, 0.0, -most], [1.0, 0.0, 1.0]]
