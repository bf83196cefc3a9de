"""A model that never learns, and reports honestly."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from clients_sent import broadcast, messages

from troth import lookup
from troth.config import reader
from troth.server import rules
from troth.server.attacks.frozen_model import frozen_model

F64 = torch.float64
THETA = torch.tensor([3.0, 4.0], dtype=F64)


@pytest.fixture
def target(tmp_path):
    np.save(tmp_path / "theta.npy", THETA)
    return str(tmp_path / "theta.npy")


def sent(target, w, **options):
    rows, hostile = messages(torch.ones(3, 2, dtype=F64)), torch.arange(3) > 0
    model = broadcast(torch.tensor(w, dtype=F64), 2)
    return frozen_model(rows, hostile, model, target=target, **options).update


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("regularizer", "options"),
    [("l2sq", {}), ("l2", {}), ("smooth_l2", {}), ("smooth_l2", {"delta": 0.1})],
)
def test_it_is_what_a_client_with_that_model_reports(target, regularizer, options):
    """−λ∇_ρR = λ∇_θR, by the regularizer itself; at ρ = θ♠ it is 0."""
    found = lookup.find("regularizer", regularizer)
    rule = lookup.call(found, options, task=SimpleNamespace(tail=0))
    for w in ([0.3, -2.0], [3.0, 4.0], [-50.0, 7.0]):
        pull = rule.grad(THETA, torch.tensor(w, dtype=F64), None)
        update = sent(target, w, lam=0.7, regularizer=regularizer, **options)
        close(update[1], 0.7 * pull)


def test_the_width_is_that_of_the_experiments_regularizer(target):
    """With δ = .1 an honest update from distance .283 has length .943, not .272."""
    tree = {
        "personalizer": {"name": "coupled", "lam": 1.0},
        "regularizer": {"name": "smooth_l2", "delta": 0.1},
        "aggregator": "sum",
        "adversary": {"count": 1},
        "attack": {"name": "frozen_model", "target": target},
    }
    attack = rules.of(reader.from_dict(tree), 1).attack
    near = THETA - torch.tensor([0.283, 0.0], dtype=F64)
    rows, hostile = messages(torch.ones(3, 2, dtype=F64)), torch.arange(3) > 0
    given = {"messages": rows, "hostile": hostile, "broadcast": broadcast(near, 2)}
    found, _ = attack(rules.no_memory(), **given)
    assert float(found.update[1].norm()) == pytest.approx(0.943, abs=5e-4)


def test_lam_0_sends_zeros(target):
    assert not sent(target, [1.0, 1.0], lam=0.0, regularizer="l2")[1].any()
