import math

import numpy as np
import pytest
import torch
from clients_sent import walked
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import build
from troth.config import reader
from troth.engine.engine import Plan
from troth.server.steps.adam import adam
from troth.server.steps.sgd import sgd
from troth.types import Broadcast

OFF = {"beta1": 0.0, "beta2": 1.0, "tau": 1.0}


def sent(*w: float, dtype: torch.dtype = torch.float64) -> Broadcast:
    one = torch.tensor(w, dtype=dtype)
    return Broadcast(one, one[:0], one.new_ones(()))


def test_two_steps_by_hand():
    """β₁ = .5, β₂ = .75, τ = 1, lr = 2; Δ = 4, then 0.

    m = 2, v = .25·16 = 4: w = 2·2/(2 + 1) = 4/3; m = 1, v = 3: + 2/(√3 + 1).
    """
    options = {"lr": 2.0, "beta1": 0.5, "beta2": 0.75, "tau": 1.0}
    before, step = sent(0.0), torch.tensor([4.0], dtype=torch.float64)
    w, memory = adam(before, step, torch.zeros(0), **options)
    assert w.item() == pytest.approx(4 / 3, abs=1e-12)
    assert memory.flatten().tolist() == pytest.approx([2.0, 2.0], abs=1e-12)
    w, _ = adam(before._replace(w=w), step * 0, memory, **options)
    assert w.item() == pytest.approx(4 / 3 + 2 / (math.sqrt(3) + 1), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(
        st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=8
    ),
    lr=st.floats(0, 10),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_with_its_moments_off_it_is_sgd_exactly(numbers, lr, dtype):
    w = v = torch.ones(len(numbers), dtype=dtype)
    memory = torch.zeros(0)
    for factor in (1.0, -0.3, 0.0):
        step = factor * torch.tensor(numbers, dtype=dtype)
        w, memory = adam(sent()._replace(w=w), step, memory, lr=lr, **OFF)
        v, _ = sgd(sent()._replace(w=v), step, torch.zeros(0), lr=lr)
        assert torch.equal(w, v)


@pytest.mark.slow("two federations on the default data set")
def test_over_a_whole_federation_too():
    found, lr = [], 0.3
    for server in ({"name": "sgd", "lr": lr}, {"name": "adam", "lr": lr, **OFF}):
        tree = {
            "partition": {"name": "classes", "clients": 10, "per_client": 3},
            "train": {"rounds": 5, "cohort": 5, "steps": 2, "lr": 0.1},
            "server": server,
        }
        f = build.build(reader.from_dict(tree), plan=Plan("vmap", 5)).federation
        found.append([record.broadcast.w for record in f.train()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_steps_are_of_one_size_whatever_the_updates_are():
    """Equal updates far above τ: m/√v → 1 after many rounds."""
    steps = np.tile([1e-2, 1.0, -1e6], (3000, 1))
    found = walked(adam, steps, lr=0.1, tau=1e-9)
    np.testing.assert_allclose(found[-1] - found[-2], [0.1, 0.1, -0.1], rtol=1e-6)


def test_a_tau_too_small_for_the_type_divides_by_no_zero():
    before = sent(1.0, 1.0, dtype=torch.float32)
    step = torch.tensor([0.0, 2.0])  # an input that is always 0 has no gradient
    w, _ = adam(before, step, torch.zeros(0), tau=1e-60)
    assert w[0] == 1 and w[1] == pytest.approx(1 + 0.1 * 0.1 / 0.1)
