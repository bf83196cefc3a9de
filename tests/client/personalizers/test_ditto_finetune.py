from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import build, lookup
from troth.config import reader
from troth.data import load
from troth.engine.engine import Plan
from troth.types import Budget, Refusal

N = 6
LOOP = Plan("loop", 1)
LINEAR = {
    "data": {"name": "linear_regression", "clients": N, "examples": 50, "dim": 4},
    "partition": {"name": "natural", "split": "given"},
    "model": {"name": "linear", "bias": False, "normalize": "none"},
}
DIGITS = {
    "partition": {"name": "classes", "clients": N, "per_client": 6},
    "model": "linear",
}


def built(
    personalizer: Any, base: dict[str, Any] = DIGITS, plan: Plan = LOOP, **sections: Any
) -> build.Built:
    train: dict[str, Any] = {"rounds": 2, "cohort": 4, "batch": 8, "lr": 0.1}
    train |= {"precision": "float64", "steps": 2} | sections.pop("train", {})
    tree = {**base, "train": train, "personalizer": personalizer, **sections}
    return build.build(reader.from_dict(tree), plan=plan)


def done(ready: build.Built) -> tuple[Tensor, Tensor]:
    """w* and all clients' models after the last phase."""
    f = ready.federation
    for _ in f.train():
        pass
    list(f.finish(N))
    rows = f.population.read(np.arange(N))
    return f.broadcast.w, f.engine.models(f.broadcast.w, rows)


def held(ready: build.Built) -> list[tuple[np.ndarray, np.ndarray]]:
    """XᵀX/m and Xᵀy/m of every client."""
    arrays, shards, _ = load.deal(ready.experiment, None)
    each = [(arrays.x[rows], arrays.y[rows]) for rows in shards.train]
    return [(x.T @ x / len(x), x.T @ y / len(x)) for x, y in each]


@pytest.mark.parametrize(
    ("plan", "keep"),
    [(LOOP, "last"), (Plan("vmap", 3), "best"), (Plan("threads", 1, 2), "last")],
)
def test_without_pull_it_is_finetune_exactly(plan: Plan, keep: str) -> None:
    split = {**DIGITS, "partition": {**DIGITS["partition"], "split": [0.6, 0.2, 0.2]}}
    own = {"steps": 4, "keep": keep}
    plain = done(built({"name": "finetune", **own}, split, plan))
    free = done(built({"name": "ditto_finetune", "lam": 0.0, **own}, split, plan))
    held_back = done(built({"name": "ditto_finetune", "lam": 1.0, **own}, split, plan))
    assert all(torch.equal(a, b) for a, b in zip(plain, free, strict=True))
    assert torch.equal(plain[0], held_back[0])
    assert not torch.allclose(plain[1], held_back[1], 0, 1e-4)


@pytest.mark.parametrize("lam", [0.1, 1.0, 5.0])
def test_ends_at_the_minimiser_of_its_objective(lam: float) -> None:
    """argmin F_k(v) + λ/2·‖v − w*‖² = (XᵀX/m + λI)⁻¹(Xᵀy/m + λw*), w* any."""
    train = {"batch": 0, "cohort": 0, "rounds": 3}
    own = {"name": "ditto_finetune", "lam": lam, "steps": 300, "lr": 0.15}
    ready = built(own, LINEAR, Plan("vmap", N), train=train)
    w, v = (side.numpy() for side in done(ready))
    for k, (gram, cross) in enumerate(held(ready)):
        expected = np.linalg.solve(gram + lam * np.eye(4), cross + lam * w)
        np.testing.assert_allclose(v[k], expected, rtol=0, atol=1e-6)
        assert np.abs(v[k] - w).max() > 1e-2


def test_joint_and_two_stage_agree() -> None:
    """Strongly convex, the shared model at its optimum: the same personal models."""
    train = {"batch": 0, "cohort": 0, "rounds": 90, "steps": 1, "lr": 0.4}
    plan = Plan("vmap", N)
    joint = done(built({"name": "ditto", "lam": 0.5}, LINEAR, plan, train=train))
    own = {"name": "ditto_finetune", "lam": 0.5, "steps": 90}
    stages = done(built(own, LINEAR, plan, train=train))
    for a, b in zip(joint, stages, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
    assert (joint[1] - joint[0]).abs().amax(1).min() > 1e-2


def test_a_step_by_hand() -> None:
    """The first is finetune's, for v = w*; the second feels lr·λ·(v₁ − w*)."""
    plain = done(built({"name": "finetune", "steps": 1}))
    one = done(built({"name": "ditto_finetune", "lam": 3.0, "steps": 1}))
    assert torch.allclose(one[1], plain[1], 0, 1e-13)
    free = done(built({"name": "finetune", "steps": 2}))
    two = done(built({"name": "ditto_finetune", "lam": 3.0, "steps": 2}))
    expected = free[1] - 0.1 * 3.0 * (plain[1] - plain[0])
    assert torch.allclose(two[1], expected, 0, 1e-12)
    assert not torch.allclose(two[1], free[1], 0, 1e-3)


def test_a_strong_pull_is_the_shared_model() -> None:
    own = {"name": "ditto_finetune", "lam": 1e6, "lr": 1e-6, "steps": 200}
    w, v = done(built(own))
    assert (v - w).abs().max() < 1e-5


@pytest.mark.parametrize("name", lookup.names("regularizer"))
def test_any_regularizer_holds_it_back(name: str) -> None:
    own = {"name": "ditto_finetune", "lam": 1.0, "steps": 6}
    w, v = done(built(own, regularizer=name))
    _, free = done(built({"name": "finetune", "steps": 6}))
    far, farther = ((side - w).norm(dim=1) for side in (v, free))
    assert (far < farther).all()
    assert v.isfinite().all() and not torch.allclose(v, free, 0, 1e-6)


def test_fifty_epochs_unless_told() -> None:
    finish = built("ditto_finetune").federation.engine.client.finish
    assert finish is not None and finish.budgets == (Budget(epochs=50),)


@pytest.mark.parametrize("name", ["ditto_finetune", "ewc", "skl"])
@pytest.mark.parametrize("lam", [-1.0, -1e-12])
def test_refuses_a_negative_pull(name: str, lam: float) -> None:
    with pytest.raises(Refusal, match=rf"{name}'s lam = {lam} .* at least 0"):
        built({"name": name, "lam": lam})


@pytest.mark.parametrize("lam", [float("inf"), float("nan")])
def test_refuses_a_pull_that_is_no_number(lam: float) -> None:
    with pytest.raises(Refusal, match=f"lam = {lam}"):
        built({"name": "ditto_finetune", "lam": lam})


@pytest.mark.parametrize(
    ("lr", "lam", "regularizer", "words"),
    [
        (0.1, 20.0, "l2sq", "lr·lam = 0.1·20 = 2 must stay below 2; … below 0.1"),
        (0.5, 8.0, "l2sq", "lr·lam = 0.5·8 = 4 must stay below 2; … below 0.25"),
        (1.0, 3.0, "l2sq", "lr·lam = 1·3 = 3 must stay below 2; … below 0.6666"),
        (1.0, 1e300, "l2sq", "= 1e+300 must stay below 2; … below 2e-300"),
        (
            0.1,
            2.0,
            {"name": "smooth_l2", "delta": 0.1},
            "lr·lam·curvature = 0.1·2·10 = 2 must stay below 2; … below 0.1",
        ),
        (
            0.1,
            20.0,
            {"name": "fisher", "power": 0.0},
            "lr·lam = 0.1·20 = 2 must stay below 2; … below 0.1",
        ),
    ],
)
def test_refuses_a_step_that_diverges(
    lr: float, lam: float, regularizer: Any, words: str
) -> None:
    own = {"name": "ditto_finetune", "lr": lr, "lam": lam}
    sentence = words.replace("…", "set personalizer.lr")
    with pytest.raises(Refusal, match=f"{re.escape(sentence)}$"):
        built(own, regularizer=regularizer)


@pytest.mark.parametrize("regularizer", ["l2", "kl", "fisher"])
def test_no_step_is_refused_where_no_curvature_is_known(regularizer: str) -> None:
    built({"name": "ditto_finetune", "lam": 1e6}, regularizer=regularizer)


def test_a_little_less_is_not_refused() -> None:
    built({"name": "ditto_finetune", "lr": 0.6666, "lam": 3.0})
    smooth = {"name": "smooth_l2", "delta": 0.1}
    built({"name": "ditto_finetune", "lam": 1.99}, regularizer=smooth)
    adam = {"name": "ditto_finetune", "lam": 1e300, "optimizer": "adam", "lr": 1e300}
    built(adam)


def test_options_and_reference() -> None:
    expected = {"lam": 1.0, "keep": "last"}
    assert lookup.check("personalizer", "ditto_finetune", {}) == expected
    (entry,) = lookup.about("personalizer", "ditto_finetune").citations
    assert entry.startswith("@inproceedings{li2021ditto")
