"""Ditto at convergence is what the paper's closed forms say (its B.1, B.2, B.3)."""

import numpy as np
import pytest

from troth import build
from troth.config import reader
from troth.data import load
from troth.engine.local_training import Plan

MORE = pytest.mark.slow("hundreds of rounds for other values of λ")


def converge(data, lam, lr, rounds):
    """A federation of linear models, full batches, all clients, one step a round."""
    train = {"rounds": rounds, "steps": 1, "batch": 0, "lr": lr}
    tree = {
        "data": data,
        "partition": {"name": "natural", "split": "given"},
        "model": {"name": "linear", "bias": False, "normalize": "none"},
        "train": {**train, "precision": "float64"},
        "personalizer": {"name": "ditto", "lam": lam},
    }
    experiment, n = reader.from_dict(tree), data["clients"]
    f = build.build(experiment, plan=Plan("vmap", n)).federation
    assert len([*f.train()]) == rounds
    arrays, shards, _ = load.deal(experiment, None)
    held = [(arrays.x[rows], arrays.y[rows]) for rows in shards.train]
    return f.broadcast.w.numpy(), f.population.read(np.arange(n)).numpy(), held


@pytest.mark.parametrize(
    ("lam", "lr", "rounds"),
    [(1.0, 0.2, 800)]
    + [pytest.param(lam, 0.2, 800, marks=MORE) for lam in (0.1, 5.0)]
    + [pytest.param(lam, 0.05, 3200, marks=MORE) for lam in (10.0, 30.0)],
)
def test_linear_regression_ends_at_equation_23(lam, lr, rounds):
    """And ‖v − w*‖ ≤ ‖∇F_k(w*)‖/λ: from ∇F_k(v) + λ(v − w*) = 0 and convexity."""
    data = {"name": "linear_regression", "clients": 6, "examples": 50, "dim": 4}
    w, v, held = converge(data, lam, lr, rounds)
    grams = [x.T @ x / len(x) for x, _ in held]
    crosses = [x.T @ y / len(x) for x, y in held]
    best = np.linalg.solve(sum(grams), sum(crosses))  # w* of Eq. (22), equal n
    np.testing.assert_allclose(w, best, atol=1e-8)
    for own, gram, cross in zip(v, grams, crosses, strict=True):
        eye = np.eye(len(gram))
        expected = np.linalg.solve(gram + lam * eye, cross + lam * best)  # Eq. (23)
        np.testing.assert_allclose(own, expected, atol=1e-8)
        assert lr * (np.linalg.eigvalsh(gram).max() + lam) < 2
        bound = np.linalg.norm(gram @ w - cross) / lam
        assert np.linalg.norm(own - w) <= bound * (1 + 1e-9)


@pytest.mark.parametrize(
    "lam", [2.133, *(pytest.param(lam, marks=MORE) for lam in (0.1, 10.0))]
)
def test_point_estimation_ends_at_equation_74(lam):
    data = {"name": "point_estimation", "clients": 8, "examples": 30}
    w, v, held = converge({**data, "sigma": 0.8, "tau": 0.1}, lam, lr=0.15, rounds=400)
    means = np.array([y.mean() for _, y in held])  # Eq. (71)
    np.testing.assert_allclose(w, means.mean(), atol=1e-8)  # Eq. (73)
    expected = lam / (1 + lam) * means.mean() + means / (1 + lam)  # Eq. (74)
    np.testing.assert_allclose(v[:, 0], expected, atol=1e-8)
