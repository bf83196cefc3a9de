"""Ditto at convergence is what the paper's closed forms say (its B.1, B.2, B.3)."""

import numpy as np
import pytest
import torch

from troth import build
from troth.config import reader
from troth.data import load
from troth.engine.engine import Plan


def converge(data, lam, lr, rounds):
    """A federation of linear models, full batches, all clients, one step a round."""
    experiment = reader.from_dict(
        {
            "data": data,
            "partition": {"name": "natural", "split": "given"},
            "model": {"name": "linear", "bias": False, "normalize": "none"},
            "train": {
                "rounds": rounds,
                "steps": 1,
                "batch": 0,
                "lr": lr,
                "precision": "float64",
            },
            "personalizer": {"name": "ditto", "lam": lam},
        }
    )
    n = data["clients"]
    built = build.build(experiment, plan=Plan("vmap", n))
    for _ in built.federation.train():
        pass
    arrays, shards, _ = load.deal(experiment, None)
    held = [(arrays.x[rows], arrays.y[rows]) for rows in shards.train]
    v = built.federation.population.read(np.arange(n)).numpy()
    return built.federation.broadcast.w.numpy(), v, held


@pytest.mark.parametrize("lam", [0.1, 1.0, 5.0])
def test_linear_regression_ends_at_equation_23(lam):
    data = {"name": "linear_regression", "clients": 6, "examples": 50, "dim": 4}
    w, v, held = converge(data, lam, lr=0.2, rounds=800)
    grams = [x.T @ x / len(x) for x, _ in held]
    crosses = [x.T @ y / len(x) for x, y in held]
    best = np.linalg.solve(sum(grams), sum(crosses))  # w* of Eq. (22), equal n
    np.testing.assert_allclose(w, best, atol=1e-8)
    for k, (gram, cross) in enumerate(zip(grams, crosses, strict=True)):
        eye = np.eye(len(gram))
        expected = np.linalg.solve(gram + lam * eye, cross + lam * best)  # Eq. (23)
        np.testing.assert_allclose(v[k], expected, atol=1e-8)


@pytest.mark.parametrize("lam", [0.1, 2.133, 10.0])
def test_point_estimation_ends_at_equation_74(lam):
    data = {
        "name": "point_estimation",
        "clients": 8,
        "examples": 30,
        "sigma": 0.8,
        "tau": 0.1,
    }
    w, v, held = converge(data, lam, lr=0.15, rounds=400)
    means = np.array([y.mean() for _, y in held])  # Eq. (71)
    np.testing.assert_allclose(w, means.mean(), atol=1e-8)  # Eq. (73)
    expected = lam / (1 + lam) * means.mean() + means / (1 + lam)  # Eq. (74)
    np.testing.assert_allclose(v[:, 0], expected, atol=1e-8)


@pytest.mark.parametrize("lam", [1.0, 10.0, 30.0])
def test_distance_to_the_shared_model_is_bounded(lam):
    """‖v − w*‖ ≤ ‖∇F_k(w*)‖/λ: from ∇F_k(v) + λ(v − w*) = 0 and convexity."""
    data = {"name": "linear_regression", "clients": 5, "examples": 40, "dim": 3}
    w, v, held = converge(data, lam, lr=0.05, rounds=2500)
    for k, (x, y) in enumerate(held):
        curvature = np.linalg.eigvalsh(x.T @ x / len(x)).max()
        assert 0.05 * (curvature + lam) < 2
        gradient = x.T @ (x @ w - y) / len(x)
        assert np.linalg.norm(v[k] - w) <= np.linalg.norm(gradient) / lam * (1 + 1e-9)


def test_lambda_zero_is_local_even_when_the_shared_model_is_lost():
    """An attack drives w to infinity; λ = 0 does not look at it, bit for bit."""
    found = []
    for personalizer in ("local", {"name": "ditto", "lam": 0.0}):
        experiment = reader.from_dict(
            {
                "partition": {"name": "classes", "clients": 10, "per_client": 3},
                "train": {"rounds": 12, "cohort": 5, "steps": 2, "lr": 0.1},
                "personalizer": personalizer,
                "adversary": {"fraction": 0.2},
                "attack": {"name": "model_replacement", "factor": 1e30},
            }
        )
        built = build.build(experiment, plan=Plan("vmap", 5))
        for _ in built.federation.train():
            pass
        w = built.federation.broadcast.w
        assert not torch.isfinite(w).all() or w.abs().max() > 1e20
        found.append(built.federation.population.read(np.arange(10)))
    assert torch.isfinite(found[0]).all()
    assert torch.equal(found[0], found[1])
