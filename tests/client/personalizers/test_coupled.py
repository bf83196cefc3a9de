"""The coupled federation: what it minimises, and what it sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import build
from troth.config import reader
from troth.engine.engine import Plan
from troth.types import Batch, Refusal

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
N, D = 4, 3


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "linear.npz", False)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("data") / "classes.npz", True)


def written(path: Path, classify: bool) -> Path:
    """Clients that agree in part, and have unequal numbers of examples."""
    random = np.random.default_rng(1)
    owner = np.repeat(np.arange(N), [14, 20, 9, 26])
    x = random.normal(size=(len(owner), D))
    own = random.normal(size=D) + 0.5 * random.normal(size=(N, D))
    z = (x * own[owner]).sum(1) + 0.3 * random.normal(size=len(owner))
    y = (z > 0).astype(np.int64) if classify else z
    split = np.zeros(len(owner), np.int8)
    split[::7] = 2
    np.savez(path, x=x, y=y, owner=owner, split=split)
    return path


def tree(path: Path, options: dict[str, Any] | None = None, **more: Any) -> Any:
    return {
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": "given"},
        "model": {"name": "linear", "normalize": "none"},
        "train": {"rounds": 200, "batch": 0, "precision": "float64", "lr": 0.01}
        | more.pop("train", {}),
        "personalizer": {"name": "coupled", "solve": "exact", **(options or {})},
        "aggregator": "sum",
        "server": {"name": "sgd", "lr": 0.1},
        "engine": {"device": "cpu"},
    } | more


def trained(wanted: Any, plan: Plan = VMAP) -> build.Built:
    built = build.build(reader.from_dict(wanted), plan=plan)
    list(built.federation.train())
    return built


def models(built: build.Built) -> Tensor:
    f = built.federation
    return f.engine.models(f.broadcast.w, f.population.read(np.arange(N)))


def quadratics(built: build.Built) -> list[tuple[Tensor, Tensor]]:
    """Every client's (A, b) with fit = ½θᵀAθ − bᵀθ: half the squared error, summed."""
    found = []
    split, data = built.data.train, built.data
    for k in range(N):
        own = slice(int(split.start[k]), int(split.start[k] + split.size[k]))
        x = data.x[split.row[own]].double()
        q = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)
        found.append((q.T @ q, q.T @ split.y[own].double()))
    return found


@pytest.mark.parametrize("nu", [0.0, 0.3])
@pytest.mark.parametrize("fit", ["sum", "mean"])
def test_on_quadratics_it_ends_at_the_minimiser(
    regression: Path, nu: float, fit: str
) -> None:
    """Eq. 1 with R = λ·½‖ρ − θ‖²: a linear system in (ρ, θ_1 … θ_N)."""
    lam, unit = 0.7, 1.0
    options = {"lam": lam, "nu": nu, "fit": fit, "steps": 12}
    more: Any = {"train": {"rounds": 120}, "server": {"name": "sgd", "lr": 0.3}}
    built = trained(tree(regression, options, **more))
    eye = torch.eye(D + 1, dtype=torch.float64)
    factor = loss_factor(built)
    left, right = 0 * eye, torch.zeros(D + 1, dtype=torch.float64)
    solved = []
    for k, (a, b) in enumerate(quadratics(built)):
        many = 1.0 if fit == "sum" else 1 / int(built.data.train.size[k])
        a, b = factor * many * a / unit, factor * many * b / unit
        inverse = torch.linalg.inv(a + (2 * nu + lam) * eye)
        solved.append((inverse, b))
        left = left + lam * (eye - lam * inverse)
        right = right + lam * inverse @ b
    rho = torch.linalg.solve(left, right)
    assert (built.federation.broadcast.w - rho).abs().max() <= 1e-6
    for k, (inverse, b) in enumerate(solved):
        theta = inverse @ (b + lam * rho)
        assert (models(built)[k] - theta).abs().max() <= 1e-6


def loss_factor(built: build.Built) -> float:
    """What the model's loss is of half the squared error."""
    task = built.federation.engine.task
    one = torch.ones(1, D, dtype=torch.float64)
    y = torch.full((1,), 3.0, dtype=torch.float64)
    zero = torch.tensor(0)
    weight = torch.ones(1, dtype=torch.float64)
    seen = Batch(one, y, weight, zero, zero + 1)
    return float(task.loss(torch.zeros(D + 1, dtype=torch.float64), seen)) / 4.5


@pytest.mark.parametrize("solve", ["exact", "step"])
@pytest.mark.parametrize("regularizer", ["l2sq", "l2", "smooth_l2"])
def test_loop_vmap_and_threads_agree(
    classes: Path, regularizer: str, solve: str
) -> None:
    wanted = tree(
        classes,
        {"solve": solve, "steps": 3, "optimizer": "adam", "lr": 0.05},
        regularizer=regularizer,
        train={"rounds": 4},
    )
    expected = trained(wanted, LOOP)
    for plan in (VMAP, THREADS):
        found = trained(wanted, plan)
        w = expected.federation.broadcast.w
        assert (found.federation.broadcast.w - w).abs().max() <= 1e-9
        assert (models(found) - models(expected)).abs().max() <= 1e-9


@pytest.mark.parametrize("report", ["after", "before"])
def test_a_round_by_hand(classes: Path, report: str) -> None:
    """θ ← θ − lr(m∇F + 2νθ + λ(θ − ρ)); the server adds lr_s·Σλ(θ − ρ)."""
    lam, nu, lr = 0.5, 0.2, 0.02
    options = {"solve": "step", "lam": lam, "nu": nu, "report": report, "lr": lr}
    wanted = tree(classes, options, train={"rounds": 3})
    built = build.build(reader.from_dict(wanted), plan=LOOP)
    f, task = built.federation, built.federation.engine.task
    rho = f.broadcast.w.clone()
    theta = rho.repeat(N, 1)
    for _ in range(3):
        before = theta.clone()
        for k in range(N):
            whole = f.engine.feed.whole(np.array([k]), built.data.train)
            one = Batch(whole.x[0], whole.y[0], whole.weight[0], whole.t, whole.t + 1)
            many = int(built.data.train.size[k])
            g = many * task.grad(theta[k], one) + 2 * nu * theta[k]
            theta[k] = theta[k] - lr * (g + lam * (theta[k] - rho))
        told = theta if report == "after" else before
        rho = rho + 0.1 * (lam * (told - rho)).sum(0)
    list(f.train())
    assert (f.broadcast.w - rho).abs().max() <= 1e-12
    assert (models(built) - theta).abs().max() <= 1e-12


@pytest.mark.parametrize("regularizer", ["l2", "smooth_l2"])
def test_no_reply_is_longer_than_lam(classes: Path, regularizer: str) -> None:
    lam = 0.8
    wanted = tree(
        classes,
        {"solve": "step", "lam": lam, "lr": 0.5},
        regularizer=regularizer,
        filter=["plausible"],
        train={"rounds": 5},
    )
    built = build.build(reader.from_dict(wanted), plan=LOOP)
    for record in built.federation.train():
        assert record.messages.update.norm(dim=1).max() <= lam * (1 + 1e-12)
        assert not record.dropped


@pytest.mark.parametrize(
    ("options", "sections", "words"),
    [
        ({"lam": 0.0}, {}, "coupled's lam = 0.0 must be a finite number above 0"),
        ({"lam": -1.0}, {}, "coupled's lam = -1.0 must be a finite number above 0"),
        ({"nu": -1.0}, {}, "coupled's nu = -1.0 must be at least 0"),
        ({"unit": 0.0}, {}, "its unit = 0.0 above 0"),
        ({}, {"regularizer": "kl"}, "set regularizer.name to l2sq, l2 or smooth_l2"),
        ({}, {"solver": "fedprox"}, "solver 'fedprox' would never run"),
    ],
)
def test_refusals(classes: Path, options: Any, sections: Any, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        build.build(reader.from_dict(tree(classes, options, **sections)), plan=LOOP)
