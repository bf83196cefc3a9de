import torch

from troth.server.steps.sgd import sgd
from troth.types import Broadcast

NONE = torch.zeros(0)


def sent(*w):
    return Broadcast(torch.tensor(w), torch.zeros(0), torch.ones(()))


def plain(before, step, lr=1.0):
    w, memory = sgd(before, step, NONE, lr=lr)
    assert memory is NONE  # it needs none
    return w


def test_by_hand():
    before = sent(1.0, -2.0)
    step = torch.tensor([0.5, 4.0])
    assert plain(before, step).tolist() == [1.5, 2.0]
    assert plain(before, step, lr=0.5).tolist() == [1.25, 0.0]
    assert plain(before, step, lr=2.0).tolist() == [2.0, 6.0]
    assert before.w.tolist() == [1.0, -2.0]  # untouched
    assert step.tolist() == [0.5, 4.0]


def test_momentum_by_hand():
    """m = 4, ½·4 + 2 = 4, ½·4 + 0 = 2; at lr = .5, w = 1 + 2 + 2 + 1."""
    w, memory, found = sent(1.0), NONE, []
    for step in (4.0, 2.0, 0.0):
        new, memory = sgd(w, torch.tensor([step]), memory, lr=0.5, momentum=0.5)
        w = w._replace(w=new)
        found.append((new.item(), memory.item()))
    assert found == [(3.0, 4.0), (5.0, 4.0), (6.0, 2.0)]


def test_as_torchs_heavy_ball():
    steps = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)).double()
    v = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    theirs = torch.optim.SGD([v], lr=0.3, momentum=0.9)
    w, memory = Broadcast(v.detach().clone(), NONE, torch.ones(())), NONE
    for step in steps:
        v.grad = -step
        theirs.step()
        new, memory = sgd(w, step, memory, lr=0.3, momentum=0.9)
        w = w._replace(w=new)
        torch.testing.assert_close(new, v.detach(), rtol=1e-12, atol=1e-14)


def test_the_schedule_is_for_the_clients():
    before = sent(1.0)._replace(scale=torch.tensor(0.1))
    assert plain(before, torch.tensor([1.0])).item() == 2.0
