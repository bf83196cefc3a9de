"""The coupled federation: what it minimizes, and what it sends."""

import numpy as np
import pytest
import torch

from ..small import VMAP, agrees, built, gradient, models, on_file, own, rows

N, D = 4, 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Clients that agree in part, and have unequal numbers of examples."""
    random, folder = np.random.default_rng(1), tmp_path_factory.mktemp("data")
    owner = np.repeat(np.arange(N), [14, 20, 9, 26])
    x = random.normal(size=(len(owner), D))
    own = random.normal(size=D) + 0.5 * random.normal(size=(N, D))
    z = (x * own[owner]).sum(1) + 0.3 * random.normal(size=len(owner))
    split = np.zeros(len(owner), np.int8)
    split[::7] = 2
    for name, y in (("linear", z), ("classes", (z > 0).astype(np.int64))):
        np.savez(folder / f"{name}.npz", x=x, y=y, owner=owner, split=split)
    return folder


def tree(path, options, **more):
    train = {"rounds": 200, "batch": 0, "lr": 0.01}
    usual = {"model": own("linear", normalize="none")}
    usual |= {"aggregator": "sum", "server": own("sgd", lr=0.1)}
    return on_file(path, own("coupled", **options), train, **usual | more)


@pytest.mark.slow("traces L-BFGS steps four times")
@pytest.mark.parametrize("nu", [0.0, 0.3])
@pytest.mark.parametrize("fit", ["sum", "mean"])
def test_on_quadratics_it_ends_at_the_minimizer(data, nu, fit):
    """Eq. 1 with R = λ·½‖ρ − θ‖²: a linear system in (ρ, θ_1 … θ_N)."""
    lam, more = 0.7, {"train": {"rounds": 40}, "server": {"name": "sgd", "lr": 0.3}}
    options = {"solve": "exact", "lam": lam, "nu": nu, "fit": fit, "steps": 4}
    made = built(tree(data / "linear.npz", options, **more), VMAP)
    data, eye = made.data, torch.eye(D + 1, dtype=torch.float64)
    left, right, solved = 0 * eye, 0 * eye[0], []
    for k in range(N):
        mine = rows(data.train, k)
        x, y = data.x[data.train.row[mine]].double(), data.train.y[mine].double()
        q = torch.cat([x, torch.ones(len(x), 1).double()], dim=1)
        many = 1.0 if fit == "sum" else 1 / len(x)
        inverse = torch.linalg.inv(many * q.T @ q + (2 * nu + lam) * eye)
        solved.append((inverse, many * q.T @ y))
        left = left + lam * (eye - lam * inverse)
        right = right + lam * inverse @ solved[-1][1]
    rho = torch.linalg.solve(left, right)
    theta = torch.stack([inverse @ (b + lam * rho) for inverse, b in solved])
    assert (made.federation.broadcast.w - rho).abs().max() <= 1e-6
    assert (models(made) - theta).abs().max() <= 1e-6


@pytest.mark.parametrize("report", ["after", "before"])
def test_a_round_by_hand(data, report):
    """θ ← θ − lr(m∇F + 2νθ + λ(θ − ρ)); the server adds lr_s·Σλ(θ − ρ)."""
    lam, nu, lr = 0.5, 0.2, 0.02
    options = {"lam": lam, "nu": nu, "report": report, "lr": lr}
    made = built(tree(data / "classes.npz", options, train={"rounds": 3}), rounds=0)
    f, train = made.federation, made.data.train
    rho = f.broadcast.w.clone()
    theta = rho.repeat(N, 1)
    for _ in range(3):
        before = theta.clone()
        for k in range(N):
            g = gradient(made, theta[k], rows(train, k))
            g = int(train.size[k]) * g + 2 * nu * theta[k]
            theta[k] = theta[k] - lr * (g + lam * (theta[k] - rho))
        told = theta if report == "after" else before
        rho = rho + 0.1 * (lam * (told - rho)).sum(0)
    agrees(made, rho, theta)


@pytest.mark.parametrize("regularizer", ["l2", "smooth_l2"])
def test_no_reply_is_longer_than_lam(data, regularizer):
    options, more = {"lam": 0.8, "lr": 0.5}, {"filter": ["plausible"]}
    more |= {"regularizer": regularizer, "train": {"rounds": 5}}
    f = built(tree(data / "classes.npz", options, **more), rounds=0).federation
    for record in f.train():
        assert record.messages.update.norm(dim=1).max() <= 0.8 * (1 + 1e-12)
        assert not record.dropped
