"""Runs whose σ, τ and λ* are known, and what is advised for them.

All are seeded. The advised λ varies from seed to seed: with K clients and p parameters
τ² has a relative standard error of about √(2/(K·p))·(1 + noise/τ²). Tolerances are four
of these or more, so that another seed would fail with a chance below 1e-4.
"""

import json

import numpy as np
import pytest

from troth import api, theory


def trained(place, data, **more):
    place.mkdir(exist_ok=True)
    experiment = {
        "data": data,
        "partition": {"name": "natural", "split": "given"},
        "model": {"name": "linear", "bias": False, "normalize": "none"},
        "train": {"rounds": 2, "batch": 0, "lr": 0.1},
        "engine": {"how": "vmap", "chunk": 400, "device": "cpu"},
        **more,
    }
    api.run(experiment, out=place / "run")
    return place / "run"


@pytest.fixture
def advised(troth):
    def said(path):
        result = troth("advise", path, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return said


def points(**more):
    data = {"name": "point_estimation", "examples": 50, "sigma": 0.8, "tau": 0.3}
    return {**data, "clients": 400, **more}


def regression(**more):
    data = {"name": "linear_regression", "examples": 60, "sigma": 1.5, "tau": 0.4}
    return {**data, "clients": 100, "dim": 8, **more}


def test_points(advised, tmp_path):
    """τ² has a relative error of .08 here."""
    found = advised(trained(tmp_path, points(), personalizer="local"))
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
def test_regression(advised, tmp_path, orthogonal):
    """τ² has a relative error of .07."""
    found = advised(trained(tmp_path, regression(orthogonal=orthogonal)))
    lam = theory.best_lam_regression(48, 1.5, 0.4)
    assert found["lam"] == pytest.approx(lam, rel=0.3)
    assert found["tau2_error"] == pytest.approx(0.07 * found["tau2"], rel=0.5)


def test_adversaries(troth, advised, tmp_path):
    """10 of 30 stray ten times as far; τ² and τ_a² have relative errors of .1."""
    data = regression(clients=30, dim=20, hostile=10, tau=0.5, tau_a=5.0)
    attack = {"adversary": {"clients": list(range(20, 30))}, "corruption": "none"}
    path = trained(tmp_path, data, **attack, train={"rounds": 1, "lr": 0.01})
    found = advised(path)
    lam = theory.best_lam_regression_attacked(30, 48, 1.5, 0.5, 10, 5.0)
    clean = theory.best_lam_regression(48, 1.5, 0.5)
    assert lam < 0.5 * clean
    assert found["lam"] == pytest.approx(lam, rel=0.5)
    assert found["lam_clean"] == pytest.approx(clean, rel=0.4)
    assert found["tau_a2"] == pytest.approx(25, rel=0.5)
    assert (found["clients"], found["hostile"], found["used"]) == (30, 10, 20)
    said = "data of the 10 malicious clients deviate by τ_a² = "
    assert said in troth("advise", path).stdout


def test_what_people_read(troth, tmp_path):
    result = troth("advise", trained(tmp_path, points(clients=20)))
    assert result.exit_code == 0 and result.stderr == ""
    first, second, third, fourth, fifth = result.stdout.splitlines()
    assert first.startswith("Estimated from 20 benign clients of 20 clients, with 40 ")
    assert second.startswith("  σ² = 0.6") and third.startswith("  τ² = 0.")
    assert "between clients, 95 % interval 0" in third and fourth.startswith("  λ = ")
    assert fifth.startswith(
        "Adversaries: if 4 of 20 clients were malicious and deviate"
    )
    factor = theory.best_lam_points_attacked(20, 40, 1.0, 1.0, 4, 10.0)
    factor /= theory.best_lam_points(40, 1.0, 1.0)
    assert f"λ should be {factor:.2g} times the λ above (Theorem 3)" in fifth


@pytest.mark.parametrize("clients", [2, 4])
def test_few_clients_have_a_wide_range_and_a_warning(troth, tmp_path, clients):
    """An infinite λ is never certain: the range contains small λ as well.

    Points 1 and 1 + small, with noise: the moment of τ² is below 0 for both counts.
    """
    random = np.random.default_rng(0)
    x, owner = np.ones((clients * 40, 1)), np.repeat(np.arange(clients), 40)
    y = random.standard_normal((clients, 40))
    y -= y.mean(axis=1, keepdims=True)  # all local estimates are nearly equal
    y += 0.02 * np.arange(clients)[:, None]
    np.savez(tmp_path / "d.npz", x=x, y=y.ravel(), owner=owner)
    data = {"name": "npz", "path": str(tmp_path / "d.npz")}
    path = trained(tmp_path, data, partition="natural")
    result = troth("advise", path, "--json")
    found = json.loads(result.stdout)
    assert found["tau2"] == 0 and found["lam"] is None  # infinite
    least, most = found["lam_range"]
    assert most is None and least < 3 and found["tau2_range"][0] == 0
    assert f"{clients} benign clients are few" in found["rough"][0]
    assert "No difference between clients was found beyond noise" in result.stderr


@pytest.mark.slow("a statistical law over seeds")
def test_clients_that_are_all_alike(advised, tmp_path):
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
    theta = random.standard_normal((4, classes))
    w = theta + tau * random.standard_normal((K, 4, classes))
    y = (x @ w + random.gumbel(size=(K, n, classes))).argmax(axis=-1).ravel()
    owner = np.repeat(np.arange(K), n)
    np.savez(file, x=x.reshape(-1, 4).astype(np.float32), y=y, owner=owner)
    return {"name": "npz", "path": str(file)}


@pytest.mark.parametrize(
    "classes", [2, pytest.param(3, marks=pytest.mark.slow("two stand for more"))]
)
def test_cross_entropy(advised, tmp_path, classes):
    """The true λ is 1/(nτ²); to first order only, so within a factor of two."""
    tau, training = 0.5, {"rounds": 60, "batch": 0, "lr": 1.0}
    data = logistic(tmp_path / "d.npz", 120, 100, tau, classes)
    found = advised(trained(tmp_path, data, partition="natural", train=training))
    assert found["method"] == "slopes" and found["sigma2"] == 1
    lam = theory.best_lam_regression(found["examples"][1], 1.0, tau)
    assert 0.5 < found["lam"] / lam < 2
    (rough,) = found["rough"]
    assert "approximated by a quadratic function around" in rough


def test_a_network_is_said_to_be_rough(troth, advised, tmp_path):
    path = trained(
        tmp_path,
        "digits",
        partition={"name": "classes", "clients": 10, "per_client": 3},
        model={"name": "mlp", "widths": [16]},
        train={"rounds": 5},
        adversary={"fraction": 0.2},
        attack="sign_flip",
        aggregator="median",
    )
    found = advised(path)
    assert found["lam"] is None or found["lam"] > 0
    words = " ".join(found["rough"])
    for part in (
        "the last layer of the network alone",
        "cross-entropy",
        "'median'",
        "'sign_flip'",
    ):
        assert part in words
    assert found["hostile"] == 2 and found["tau_a2"] >= 0
    mild = found["tau_a2"] <= found["tau2"]  # labels at random lean to no class
    assert ("Theorem 3 sees no attack in them" in words) == mild
    assert troth("advise", path).stdout.count("\nCaution: ") == len(found["rough"])


def test_features_that_are_prepared(advised, tmp_path):
    """Standardised inputs are what the layer sees: τ² is in their units."""
    random = np.random.default_rng(3)
    K, n, scale = 60, 40, 10.0
    x = scale * random.standard_normal((K, n, 3))
    w = 1 + 0.5 * random.standard_normal((K, 3, 1))
    y = (x / scale @ w)[..., 0] + 0.5 * random.standard_normal((K, n))
    owner = np.repeat(np.arange(K), n)
    np.savez(tmp_path / "d.npz", x=x.reshape(-1, 3), y=y.ravel(), owner=owner)
    data = {"name": "npz", "path": str(tmp_path / "d.npz")}
    path = trained(tmp_path, data, partition="natural", features="federated")
    found = advised(path)
    lam = theory.best_lam_regression(found["examples"][1], 0.5, 0.5)
    assert found["lam"] == pytest.approx(lam, rel=0.6)


def test_a_step_that_would_diverge_is_told(advised, tmp_path):
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


def test_refusals(refused, tmp_path, monkeypatch):
    (tmp_path / "odd_networks.py").write_text(ODD)
    monkeypatch.syspath_prepend(str(tmp_path))
    odd = {"model": {"name": "odd_networks:odd", "normalize": "none"}}
    labels = logistic(tmp_path / "d.npz", 3, 20, 0.5, 2)
    natural = {"partition": "natural", "model": "svm"}
    huber = {"train": {"rounds": 1, "loss": "huber"}}
    quick = {"train": {"rounds": 1}}
    quick["engine"] = {"how": "loop", "chunk": 1, "device": "cpu"}
    for k, (data, more, words) in enumerate(
        [
            (points(clients=5), huber, "loss 'huber'"),
            (regression(clients=5, examples=9), {}, "0 of the benign clients have"),
            (points(clients=1), {}, "1 of the benign clients have the 2 training"),
            (labels, natural, "the loss of model 'svm'; choose"),
            (points(clients=5), odd, "does not end in a linear layer"),
            (points(clients=3), {"grid": {"seed": [0, 1]}}, "is a grid; give one of"),
        ]
    ):
        path = trained(tmp_path / str(k), data, **{**quick, **more})
        assert words in refused("advise", path)
    assert "is not the folder of a run" in refused("advise", tmp_path)
    path = tmp_path / "4" / "run"
    (path / "shared.safetensors").unlink()
    assert "is not finished" in refused("advise", path)
