import math

import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.server.aggregators.k_loss import k_loss

UPDATE = torch.tensor([[10.0], [20.0], [30.0], [40.0]])


def of(loss, f, client=None):
    found = k_loss(messages(UPDATE, client), torch.tensor(loss), f=f, strict=False)
    return found.item()


def test_by_hand():
    loss = [0.5, 2.0, 1.5, 0.1]
    assert [of(loss, f) for f in range(4)] == [20.0, 30.0, 10.0, 40.0]
    assert of(loss, 4) == of(loss, 99) == 40.0


def test_reads_the_losses_it_is_given():
    """And neither those in the messages nor the updates."""
    sent = messages(UPDATE)._replace(loss=torch.tensor([9.0, 0.0, 0.0, 0.0]))
    said: dict[str, Tensor] = {}
    found = k_loss(sent, torch.tensor([0.0, 0.0, 9.0, 8.0]), said.update, f=1)
    assert found.tolist() == [40.0]
    assert said["chosen"].tolist() == [False, False, False, True]
    assert "loss" in lookup.asks(k_loss)


def test_equal_losses_go_from_the_lowest_id_on():
    loss = [1.0, 1.0, 1.0, 1.0]
    assert [of(loss, f) for f in range(4)] == [10.0, 20.0, 30.0, 40.0]
    assert [of(loss, f, [8, 2, 5, 3]) for f in range(4)] == [20.0, 40.0, 30.0, 10.0]


def test_what_is_no_number_is_largest():
    loss = [1.0, math.nan, -math.inf, math.inf]
    assert [of(loss, f) for f in range(4)] == [20.0, 40.0, 10.0, 30.0]
    assert of([math.nan] * 4, 2) == 30.0


def test_a_false_loss_is_believed():
    """What it does not promise: the last client wants to be the one that counts."""
    assert of([1.0, 2.0, 3.0, 0.1], 1) == 20.0
    assert of([1.0, 2.0, 3.0, 2.5], 1) == 40.0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=10),
    st.integers(0, 12),
    st.randoms(use_true_random=False),
)
def test_as_sorting_does(loss, f, random):
    n = len(loss)
    client = random.sample(range(50), n)
    ranked = sorted(zip((-v for v in loss), client, range(n), strict=True))
    sent = messages(torch.arange(float(n))[:, None], client)
    found = k_loss(sent, torch.tensor(loss, dtype=torch.float32), f=f, strict=False)
    assert found.item() == ranked[min(f, n - 1)][2]
