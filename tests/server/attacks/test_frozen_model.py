"""A model that never learns, and reports honestly."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from clients_sent import messages

from troth import lookup
from troth.server.attacks.frozen_model import frozen_model
from troth.types import Broadcast, Refusal

F64 = torch.float64
HOSTILE = torch.tensor([False, True, True])


@pytest.fixture
def target(tmp_path):
    np.save(tmp_path / "theta.npy", np.array([3.0, 4.0]))
    return str(tmp_path / "theta.npy")


def sent(target, w, **options):
    rows = messages(torch.ones(3, 2, dtype=F64))
    broadcast = Broadcast(
        torch.tensor(w, dtype=F64), torch.zeros(2, dtype=F64), torch.ones(())
    )
    found = frozen_model(rows, HOSTILE, broadcast, target=target, **options)
    return found.update


@pytest.mark.parametrize(
    ("regularizer", "length"),
    [("l2sq", 10.0), ("l2", 2.0), ("smooth_l2", 10 / math.sqrt(26))],
)
def test_by_hand(target, regularizer, length):
    """θ♠ − ρ = (3, 4), as long as 5; λ = 2."""
    found = sent(target, [0.0, 0.0], lam=2.0, regularizer=regularizer)
    assert torch.equal(found[0], torch.ones(2, dtype=F64))
    for row in found[1:]:
        wanted = length * torch.tensor([0.6, 0.8], dtype=F64)
        torch.testing.assert_close(row, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("regularizer", ["l2sq", "l2", "smooth_l2"])
def test_it_is_what_a_client_with_that_model_reports(target, regularizer):
    """−λ∇_ρR = λ∇_θR, by the regularizer itself; at ρ = θ♠ it is 0."""
    rule = lookup.call(
        lookup.find("regularizer", regularizer), {}, task=SimpleNamespace(tail=0)
    )
    theta = torch.tensor([3.0, 4.0], dtype=F64)
    for w in ([0.3, -2.0], [3.0, 4.0], [-50.0, 7.0]):
        pull = rule.grad(theta, torch.tensor(w, dtype=F64), None)
        found = sent(target, w, lam=0.7, regularizer=regularizer)
        torch.testing.assert_close(found[1], 0.7 * pull, rtol=0, atol=1e-12)


def test_lam_0_sends_zeros(target):
    assert not sent(target, [1.0, 1.0], lam=0.0, regularizer="l2")[1].any()


def test_a_target_of_the_wrong_size(target):
    with pytest.raises(Refusal, match="has 2 numbers, and this model has 3"):
        sent(target, [0.0, 0.0, 0.0], lam=1.0)


def test_no_target(tmp_path):
    with pytest.raises(Refusal, match="there is no target"):
        sent(str(tmp_path / "none.npy"), [0.0, 0.0], lam=1.0)
