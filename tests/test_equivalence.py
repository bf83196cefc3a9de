"""Theorem 1: what a gradient attack does, a model does, and data do.

Over random convex federations the same target is reached by all three, each trained
from the first model on.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from troth import build, poison
from troth.config import reader
from troth.engine.local_training import Plan

LAM, D = 1.0, 2
NEAR = 1e-2  # of the target's norm
MORE = pytest.mark.slow("further random federations")


class Case(NamedTuple):
    """A federation whose last client is hostile, and what that one wants."""

    tree: dict[str, Any]
    goal: np.ndarray
    place: Path
    n: int


def federation(place, seed, classify):
    """Three to six clients with 15 to 30 examples each."""
    random = np.random.default_rng([seed, classify])
    n = int(random.integers(3, 7))
    owner = np.repeat(np.arange(n), random.integers(15, 31, size=n))
    x = random.normal(size=(len(owner), D))
    z = (x * random.normal(size=(n, D))[owner]).sum(1) + random.normal(size=len(x)) / 4
    chance = 1 / (1 + np.exp(-2 * z))
    y = (random.random(len(z)) < chance).astype(np.int64) if classify else z
    split = np.zeros(len(y), np.int8)
    split[np.searchsorted(owner, np.arange(n))] = 2  # one each, for nothing is judged
    np.savez(place / "data.npz", x=x, y=y, owner=owner, split=split)
    # from 0, for what both classes have in common answers to no label and stays
    model = {"name": "linear", "normalize": "none", "bias": classify, "zero": True}
    own = {"name": "coupled", "solve": "exact", "lam": LAM, "nu": 0.05, "steps": 5}
    tree = {
        "data": {"name": "npz", "path": str(place / "data.npz")},
        "partition": {"name": "natural", "split": "given"},
        "model": model,
        "train": {"rounds": 25, "batch": 0, "precision": "float64"},
        "personalizer": own,
        "aggregator": "sum",
        "server": {"name": "sgd", "lr": 1 / (3 * LAM * n)},
        "adversary": {"clients": [n - 1]},
        "attack": "none",
        "corruption": "none",
        "engine": {"device": "cpu"},
    }
    goal = random.normal(size=2 * (D + 1) if classify else D)
    if classify:  # what both rows have in common says nothing
        goal[: 2 * D] -= np.tile(goal[: 2 * D].reshape(2, D).mean(0), 2)
        goal[2 * D :] -= goal[2 * D :].mean()
    np.save(place / "goal.npy", goal)
    return Case(tree, goal, place, n)


def trained(case, **changes):
    """The federation after training, and its distance from the target, relatively."""
    e = reader.from_dict(case.tree | changes)
    f = build.build(e, plan=Plan("vmap", case.n)).federation
    assert len([*f.train()]) == e.train.rounds
    w = f.broadcast.w.numpy()
    return f, np.linalg.norm(w - case.goal) / np.linalg.norm(case.goal)


def gradient(case):
    """Counter-gradient, and θ♠ from what the others pull at its end."""
    attack = {"name": "counter_gradient", "target": str(case.place / "goal.npy")}
    f, off = trained(case, attack=attack)
    assert off <= NEAR
    own = f.engine.models(f.broadcast.w, f.population.read(np.arange(case.n - 1)))
    pull = LAM * (own - f.broadcast.w).sum(0)
    crafted = poison.model_attack(f.broadcast.w, pull, lam=LAM)
    np.save(case.place / "model.npy", crafted.numpy())
    return pull


def check_stages(case, **corruption):
    frozen = {"name": "frozen_model", "target": str(case.place / "model.npy")}
    assert trained(case, attack=frozen)[1] <= NEAR
    path = {"name": "from_file", "path": str(case.place / "poison.npz"), "take": "all"}
    train = {**case.tree["train"], "rounds": 40}
    assert trained(case, train=train, corruption=path | corruption)[1] <= NEAR


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=MORE) for k in range(1, 8))]
)
def test_linear_regression(tmp_path, seed):
    """One example does it (Theorem 5)."""
    case = federation(tmp_path, seed, classify=False)
    bad = poison.single_example(case.goal, -gradient(case), lam=LAM, nu=0.05)
    poison.save(tmp_path / "poison.npz", bad.x, bad.y)
    check_stages(case)


@pytest.mark.slow("trains a federation to its end")
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(k, marks=MORE) for k in range(1, 5))]
)
def test_logistic_regression(tmp_path, seed):
    """Examples near the indifference subspace, with a weight that is enough."""
    case = federation(tmp_path, seed, classify=True)
    gradient(case)
    theta = np.load(tmp_path / "model.npy")
    head, goal = (poison.head_of(v, 2, D) for v in (theta, case.goal))
    bad = poison.data_attack(head, 60, seed, width=2.0, noise=0.5)
    weight = poison.weight_needed(head, goal, bad.x, lam=LAM, tolerance=3e-3)
    poison.save(tmp_path / "poison.npz", bad.x, p=bad.p)
    check_stages(case, weight=float(weight))


@pytest.mark.slow("trains a federation to its end")
@pytest.mark.parametrize("classify", [False, pytest.param(True, marks=MORE)])
def test_without_an_attack_the_shared_model_is_elsewhere(tmp_path, classify):
    assert trained(federation(tmp_path, 0, classify))[1] > 10 * NEAR
