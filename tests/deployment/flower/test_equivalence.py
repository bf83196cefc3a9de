"""Flower ≡ simulation: same experiment, same seed, the same models."""

import json
from itertools import product

import numpy as np
import pytest
import torch

from troth.build import build
from troth.config import reader
from troth.deployment.state import Keeper
from troth.engine.local_training import Plan

DITTO = {"personalizer": {"name": "ditto", "lam": 0.5}}
METHODS = {
    "fedavg+none": {"solver": "fedavg", "personalizer": "none"},
    "fedavg+ditto": {"solver": "fedavg", **DITTO},
    "scaffold+ditto": {"solver": "scaffold", **DITTO},
}
RULES = {
    "mean": {"aggregator": "mean"},
    "multi_krum": {"aggregator": {"name": "multi_krum", "f": 1}},
    "nnm+trimmed_mean": {
        "filter": [{"name": "nnm", "f": 1}],
        "aggregator": {"name": "trimmed_mean", "f": 1},
    },
}
CLOSE = {"float32": 1e-5, "float64": 1e-10}
FAST = {
    ("fedavg+none", "mean", "float64"),
    ("fedavg+ditto", "multi_krum", "float32"),
    ("scaffold+ditto", "nnm+trimmed_mean", "float64"),
}
EVERY = [
    pytest.param(
        *case, marks=[] if case in FAST else pytest.mark.slow("every combination")
    )
    for case in product(METHODS, RULES, CLOSE)
]


def simulated(tree):
    f = build(reader.from_dict(tree), plan=Plan("loop", 1)).federation
    for _ in f.train():
        pass
    for _ in f.finish(1):
        pass
    return f


@pytest.mark.parametrize(("method", "rule", "precision"), EVERY)
def test_flower_gives_what_a_simulation_gives(
    tmp_path, deployed, tree, method, rule, precision
):
    tree |= METHODS[method] | RULES[rule]
    tree["train"]["precision"] = precision
    close = CLOSE[precision]
    made = deployed(tmp_path, tree)
    hub, f = made.run(), simulated(tree)
    start = f.population.start
    assert f.broadcast.w.dtype == getattr(torch, precision)
    assert (hub.broadcast.w - f.broadcast.w).abs().max() < close
    assert (hub.broadcast.extra - f.broadcast.extra).abs().sum() < close
    names = made.experiment.deployment.sites
    kept = [Keeper(tmp_path / n / "0123456789abcdef") for n in names]
    own = torch.cat([k.before(5, start[None]) for k in kept])
    theirs = f.population.read(np.arange(7))
    assert own.shape == theirs.shape
    if own.numel():
        assert (own - theirs).abs().max() < close
        assert (theirs - start).abs().max() > 1e-3  # there is something to compare
    assert (f.broadcast.w - made.restarted().broadcast.w).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["several labels", "regression"])
def test_what_is_predicted_may_be_of_other_kinds(tmp_path, deployed, tree, kind):
    if kind == "several labels":
        random = np.random.default_rng(1)
        x = random.normal(size=(210, 4)).astype(np.float32)
        y = (x[:, :3] + random.normal(size=(210, 3)) > 0).astype(np.int64)
        np.savez(tmp_path / "several.npz", x=x, y=y)
        tree["data"] = {"name": "npz", "path": str(tmp_path / "several.npz")}
        tree["deployment"] |= {"several": True, "classes": 3}
    else:
        tree["data"] = {"name": "linear_regression", "clients": 7, "dim": 4}
        tree["partition"] = {"name": "natural"}
        tree["deployment"]["classes"] = 0
    tree["deployment"] |= {"shape": [4], "scale": 1.0}
    tree |= METHODS["fedavg+ditto"]
    hub, f = deployed(tmp_path, tree).run(), simulated(tree)
    assert (hub.broadcast.w - f.broadcast.w).abs().max() < 1e-5
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert set(summary["heard"]) == {*tree["deployment"]["sites"]}
