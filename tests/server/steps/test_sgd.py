import pytest
import torch
from clients_sent import broadcast, drawn

from troth.server.steps.sgd import sgd

NONE = torch.zeros(0)


@pytest.mark.parametrize(
    ("lr", "expected"), [(1.0, [1.5, 2.0]), (0.5, [1.25, 0.0]), (2.0, [2.0, 6.0])]
)
def test_by_hand(lr, expected):
    """The schedule is for the clients: the server's rate does not follow it."""
    before = broadcast(torch.tensor([1.0, -2.0]))._replace(scale=torch.tensor(0.1))
    w, memory = sgd(before, torch.tensor([0.5, 4.0]), NONE, lr=lr)
    assert w.tolist() == expected
    assert memory is NONE  # it needs none


def test_as_torchs_heavy_ball():
    v = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.SGD([v], lr=0.3, momentum=0.9)
    w, memory = v.detach().clone(), NONE
    for step in drawn(20, 3):
        v.grad = -step
        theirs.step()
        w, memory = sgd(broadcast(w), step, memory, lr=0.3, momentum=0.9)
        torch.testing.assert_close(w, v.detach(), rtol=1e-12, atol=1e-14)
