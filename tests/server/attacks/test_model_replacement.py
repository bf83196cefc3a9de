import pytest
import torch
from clients_sent import drawn, messages

from troth.server.attacks.model_replacement import model_replacement


@pytest.mark.parametrize("factor", [0.1, 1.0, 2.0, 3.5, 1e6, 1e-20])
def test_any_factor(factor):
    update, hostile = drawn(4, 3), torch.tensor([True, False, False, True])
    found = model_replacement(messages(update), hostile, factor=factor).update[hostile]
    rtol = 1e-12 if factor != 1 else 0
    torch.testing.assert_close(found, update[hostile] * factor, rtol=rtol, atol=0)


def test_what_would_be_infinite_stops_at_the_largest_number():
    """Lest the server drop it: an adversary would not want that."""
    sent = messages([[1e30, 0.0, -2.0], [1.0, 0.0, 1.0]])
    found = model_replacement(sent, torch.tensor([True, False]), factor=1e39)
    most = torch.finfo(torch.float32).max
    assert found.update.tolist() == [[most, 0.0, -most], [1.0, 0.0, 1.0]]


def test_a_client_s_own_number_of_examples_as_factor():
    sent = messages([[1.0, -2.0], [1.0, 0.0], [3.0, 1.0]])
    sent = sent._replace(size=torch.tensor([7.0, 9.0, 50.0]))
    hostile = torch.tensor([True, False, True])
    found = model_replacement(sent, hostile, factor="size")
    assert found.update.tolist() == [[7.0, -14.0], [1.0, 0.0], [150.0, 50.0]]
