"""What a chain's stages send: a model that holds ρ, and examples that teach it."""

import numpy as np
import pytest
import torch

from troth import lookup
from troth.build import build
from troth.config import reader
from troth.poison import craft
from troth.poison.goal import Goal
from troth.runs import train

TREE = {
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 5},
    "model": {"name": "linear"},
    "train": {"rounds": 1, "batch": 0, "steps": 1, "lr": 0.05},
    "personalizer": {"name": "coupled", "lam": 0.7},
    "aggregator": "sum",
    "adversary": {"count": 2},
    "engine": {"device": "cpu"},
}


def federation(regularizer):
    e = reader.from_dict({**TREE, "regularizer": regularizer})
    return build(e, plan=train.UNMEASURED)


def random(built, *rows, seed):
    made = torch.Generator().manual_seed(seed)
    d = built.federation.engine.task.d
    return torch.randn(*rows, d, generator=made, dtype=torch.float64)


@pytest.mark.slow("optimizes to the end")
@pytest.mark.parametrize(
    ("name", "options"),
    [("l2sq", {}), ("l2", {}), ("smooth_l2", {}), ("smooth_l2", {"delta": 0.1})],
)
def test_the_attackers_pull_balances_the_honest_clients(name, options):
    built = federation({"name": name, **options})
    rho = random(built, seed=1)
    own = rho + 0.3 * random(built, 3, seed=2)
    if name == "l2":  # every report has the same length: two against two, on a line
        own = rho + torch.tensor([[0.3], [2.0]]) * random(built, seed=2)
    member = lookup.find("regularizer", name)
    grad = lookup.call(member, options, task=built.federation.engine.task).grad
    honest = sum(grad(theta, rho, None) for theta in own)
    malicious = 2 * grad(craft.crafted(built, rho, own), rho, None)
    torch.testing.assert_close(malicious, -honest, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "options", "delta"),
    [("l2", {}, 0), ("smooth_l2", {}, 1), ("smooth_l2", {"delta": 50.0}, 50)],
)
def test_weights_suffice_for_the_regularizer_at_hand(name, options, delta, tmp_path):
    """Where both pull alike, so must the examples: λ of `l2sq` is λ over ‖θ♠ − θ†‖."""
    built = federation({"name": name, **options})
    model, goal = random(built, seed=3), Goal(random(built, seed=4), "given")
    far = float((model - goal.target).norm())
    alike = 0.7 / np.hypot(delta, far)
    auto, given = (
        craft.teach(built, model.numpy(), goal, 400, tmp_path / "a.npz", lam=lam)
        for lam in (None, alike)
    )
    assert auto[2:] == pytest.approx(given[2:], rel=1e-12)  # enough and needed


def test_what_is_written_is_what_is_said(tmp_path):
    built, file = federation("l2sq"), tmp_path / "poison.npz"
    model, goal = random(built, seed=3).numpy(), Goal(random(built, seed=4), "given")
    taught = craft.teach(built, model, goal, 300, file)
    with np.load(file) as found:
        assert len(found["x"]) == 600 == taught.summary.number  # of two attackers
    assert taught.corruption["path"] == str(file)
    assert taught.corruption["weight"] == pytest.approx(max(1, taught.enough), rel=0.01)
    fixed = craft.teach(built, model, goal, 300, file, weight=5.0)
    assert fixed.corruption["weight"] == 5.0 and fixed.enough == taught.enough


def test_a_model_is_read_in_the_units_of_the_data():
    """The head of θ gives the network's own scores of an input in [0, 1]."""
    built = federation("l2sq")
    theta = random(built, seed=5)
    head = craft.head(built, theta.numpy())
    x = built.data.x[:7].double()
    scores = built.federation.engine.task.predict(theta.float(), x.float()).numpy()
    mine = x.reshape(7, -1).numpy() / built.facts["scale"] @ head.weight.T + head.bias
    np.testing.assert_allclose(mine, scores, rtol=1e-4, atol=1e-3)
