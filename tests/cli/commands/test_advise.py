"""Runs whose σ, τ and λ* are known, and what is advised for them.

All are seeded. The advised λ varies from seed to seed: with K clients and p parameters
τ² has a relative standard error of about √(2/(K·p))·(1 + noise/τ²). Tolerances are four
of these or more, so that another seed would fail with a chance below 1e-4.
"""

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from troth import api, theory
from troth.cli import app

LINE = {"name": "linear", "bias": False, "normalize": "none"}


def troth(*arguments):
    return CliRunner().invoke(app.app, [str(a) for a in arguments])


def refused(path):
    result = troth("advise", path)
    assert result.exit_code == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def trained(place, data, **more):
    place.mkdir(exist_ok=True)
    experiment = {
        "data": data,
        "partition": {"name": "natural", "split": "given"},
        "model": LINE,
        "train": {"rounds": 2, "batch": 0, "lr": 0.1},
        "engine": {"how": "vmap", "device": "cpu"},
        **more,
    }
    api.run(experiment, out=place / "run")
    return place / "run"


def advised(path):
    result = troth("advise", path, "--json")
    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def points(**more):
    data = {"name": "point_estimation", "examples": 50, "sigma": 0.8, "tau": 0.3}
    return {**data, "clients": 400, **more}


def regression(**more):
    data = {"name": "linear_regression", "examples": 60, "sigma": 1.5, "tau": 0.4}
    return {**data, "clients": 100, "dim": 8, **more}


def test_points(tmp_path):
    """τ² has a relative error of .08 here."""
    path = trained(tmp_path, points(), personalizer="local")
    found = advised(path)
    lam = theory.best_lam_points(40, 0.8, 0.3)
    assert found["lam"] == pytest.approx(lam, rel=0.35)
    assert found["lam"] == found["lam_clean"] == found["lam_sizes"][0]
    assert found["sigma2"] == pytest.approx(0.64, rel=0.05)
    assert found["tau2"] == pytest.approx(0.09, rel=0.35)
    assert found["lam_range"][0] < found["lam"] < found["lam_range"][1]
    assert found["examples"] == [40, 40, 40] and found["used"] == 400
    assert found["method"] == "least squares" and found["rough"] == []
    assert found["tau_a2"] is None


@pytest.mark.parametrize(
    "orthogonal",
    [True, pytest.param(False, marks=pytest.mark.slow("inputs that are correlated"))],
)
def test_regression(tmp_path, orthogonal):
    """τ² has a relative error of .07."""
    found = advised(trained(tmp_path, regression(orthogonal=orthogonal)))
    lam = theory.best_lam_regression(48, 1.5, 0.4)
    assert found["lam"] == pytest.approx(lam, rel=0.3)
    assert found["tau2_error"] == pytest.approx(0.07 * found["tau2"], rel=0.5)


def test_adversaries(tmp_path):
    """10 of 30 stray ten times as far; τ² and τ_a² have relative errors of .1."""
    data = regression(clients=30, dim=20, hostile=10, tau=0.5, tau_a=5.0)
    hostile = {"adversary": {"clients": list(range(20, 30))}, "corruption": "none"}
    path = trained(tmp_path, data, **hostile, train={"rounds": 1, "lr": 0.01})
    found = advised(path)
    given = (30, 48, 1.5, 0.5, 10, 5.0)
    lam = theory.best_lam_regression_attacked(*given)
    clean = theory.best_lam_regression(48, 1.5, 0.5)
    assert lam < 0.5 * clean
    assert found["lam"] == pytest.approx(lam, rel=0.5)
    assert found["lam_clean"] == pytest.approx(clean, rel=0.4)
    assert found["tau_a2"] == pytest.approx(25, rel=0.5)
    assert (found["clients"], found["hostile"], found["used"]) == (30, 10, 20)
    said = troth("advise", path).stderr
    assert "10 hostile clients' data stray by τ_a² = " in said


def test_what_people_read(tmp_path):
    path = trained(tmp_path, points(clients=20))
    result = troth("advise", path)
    assert result.exit_code == 0 and result.stdout == ""
    first, second, third, fourth = result.stderr.splitlines()
    assert first.startswith("From 20 benign clients of 20, with 40 training examples")
    assert "σ² = 0.6" in second and "τ² = " in second and third.startswith("  λ = ")
    assert fourth.startswith("Adversaries: were 4 of 20 clients hostile with ten times")
    factor = theory.best_lam_points_attacked(20, 40, 1.0, 1.0, 4, 10.0)
    factor /= theory.best_lam_points(40, 1.0, 1.0)
    assert f"λ should be {factor:.2g} of this (Theorem 3)" in fourth


@pytest.mark.slow("a statistical law over seeds")
def test_clients_that_are_all_alike(tmp_path):
    """With τ = 0 the shared model it is: λ is infinite, or 2 and more (three s.e.)."""
    same = points(tau=0.0, clients=100)
    lams = [
        advised(trained(tmp_path / str(seed), same, seed=seed))["lam"]
        for seed in range(2)
    ]
    assert all(lam is None or lam > 2 for lam in lams)


def logistic(file, K, n, tau, classes):
    """Clients with logistic regressions of their own, w_k = θ + N(0, τ²I)."""
    random = np.random.default_rng(0)
    x = random.standard_normal((K, n, 4))
    w = random.standard_normal((4, classes)) + tau * random.standard_normal(
        (K, 4, classes)
    )
    noise = random.gumbel(size=(K, n, classes))
    y = (x @ w + noise).argmax(axis=-1).ravel()
    owner = np.repeat(np.arange(K), n)
    np.savez(file, x=x.reshape(-1, 4).astype(np.float32), y=y, owner=owner)
    return file


@pytest.mark.parametrize(
    "classes", [2, pytest.param(3, marks=pytest.mark.slow("two stand for more"))]
)
def test_cross_entropy(tmp_path, classes):
    """The true λ is 1/(nτ²); to first order only, so within a factor of two."""
    tau, training = 0.5, {"rounds": 60, "batch": 0, "lr": 1.0}
    file = logistic(tmp_path / "d.npz", 120, 100, tau, classes)
    more = {"partition": "natural", "train": training}
    found = advised(trained(tmp_path, {"name": "npz", "path": str(file)}, **more))
    assert found["method"] == "slopes" and found["sigma2"] == 1
    lam = theory.best_lam_regression(found["examples"][1], 1.0, tau)
    assert 0.5 < found["lam"] / lam < 2
    (rough,) = found["rough"]
    assert "taken for a square about the shared model" in rough


def test_a_network_is_said_to_be_rough(tmp_path):
    experiment = {
        "partition": {"name": "classes", "clients": 10, "per_client": 3},
        "model": {"name": "mlp", "widths": [16]},
        "train": {"rounds": 5},
        "adversary": {"fraction": 0.2},
        "attack": "sign_flip",
        "aggregator": "median",
    }
    api.run(experiment, out=tmp_path / "run")
    found = advised(tmp_path / "run")
    assert found["lam"] is None or found["lam"] > 0
    words = " ".join(found["rough"])
    for part in ("this is a network", "cross-entropy", "'median'", "'sign_flip'"):
        assert part in words
    assert found["hostile"] == 2 and found["tau_a2"] >= 0
    mild = found["tau_a2"] <= found["tau2"]  # labels at random lean to no class
    assert ("Theorem 3 sees no attack in them" in words) == mild
    result = troth("advise", tmp_path / "run")
    assert result.stderr.count("\nRough: ") == len(found["rough"])


def test_features_that_are_prepared(tmp_path):
    """Standardised inputs are what the layer sees: τ² is in their units."""
    random = np.random.default_rng(3)
    K, n, scale = 60, 40, 10.0
    x = scale * random.standard_normal((K, n, 3))
    w = 1 + 0.5 * random.standard_normal((K, 3, 1))
    y = (x / scale @ w)[..., 0] + 0.5 * random.standard_normal((K, n))
    owner = np.repeat(np.arange(K), n)
    np.savez(tmp_path / "d.npz", x=x.reshape(-1, 3), y=y.ravel(), owner=owner)
    found = advised(
        trained(
            tmp_path,
            {"name": "npz", "path": str(tmp_path / "d.npz")},
            partition="natural",
            features="federated",
        )
    )
    size = found["examples"][1]
    lam = theory.best_lam_regression(size, 0.5, 0.5)
    assert found["lam"] == pytest.approx(lam, rel=0.6)


def test_a_step_that_would_diverge_is_told(tmp_path):
    data = points(examples=4, sigma=3.0)
    found = advised(trained(tmp_path, data, train={"rounds": 1, "lr": 0.9}))
    assert found["lam"] > 3
    (rough,) = found["rough"]
    assert f"set personalizer.lr below {2 / found['lam']:.2g}" in rough


ODD = """
import torch
class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def forward(self, x):
        return 2 * self.layer(x)
def odd(shape, classes):
    return Odd()
"""


def test_refusals(tmp_path, monkeypatch):
    (tmp_path / "odd_networks.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    odd = {"model": {"name": "odd_networks:odd", "normalize": "none"}}
    labels = {"name": "npz", "path": str(logistic(tmp_path / "d.npz", 3, 20, 0.5, 2))}
    natural = {"partition": "natural", "model": "svm"}
    huber = {"train": {"rounds": 1, "loss": "huber"}}
    few, one = regression(clients=5, examples=9), points(clients=1)
    grid = {"grid": {"seed": [0, 1]}}
    quick: Any = {"train": {"rounds": 1}}
    quick["engine"] = {"how": "loop", "chunk": 1, "device": "cpu"}
    for k, (data, more, words) in enumerate(
        [
            (points(clients=5), huber, "loss 'huber'"),
            (few, {}, "0 of the benign clients have the 9"),
            (one, {}, "1 of the benign clients have the 2 training"),
            (labels, natural, "the loss of model 'svm'; choose"),
            (points(clients=5), odd, "does not end in a linear layer"),
            (points(clients=3), grid, "is a grid; give one of its runs"),
        ]
    ):
        path = trained(tmp_path / str(k), data, **{**quick, **more})
        assert words in refused(path)
    assert "is not the folder of a run" in refused(tmp_path)
    path = tmp_path / "4" / "run"
    (path / "shared.safetensors").unlink()
    assert "is not finished" in refused(path)
