"""Flower ≡ simulation: same experiment, same seed, the same models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from troth.build import build
from troth.config import reader
from troth.deployment.state import Keeper
from troth.engine.engine import Plan
from troth.federation.rounds import Federation

METHODS = {
    "fedavg+none": {"solver": "fedavg", "personalizer": "none"},
    "fedavg+ditto": {"solver": "fedavg", "personalizer": {"name": "ditto", "lam": 0.5}},
    "scaffold+ditto": {
        "solver": "scaffold",
        "personalizer": {"name": "ditto", "lam": 0.5},
    },
}
RULES: dict[str, dict[str, Any]] = {
    "mean": {"aggregator": "mean"},
    "multi_krum": {"aggregator": {"name": "multi_krum", "f": 1}},
    "nnm+trimmed_mean": {
        "filter": [{"name": "nnm", "f": 1}],
        "aggregator": {"name": "trimmed_mean", "f": 1},
    },
}


def simulated(tree: dict[str, Any]) -> Federation:
    f = build(reader.from_dict(tree), plan=Plan("loop", 1)).federation
    for _ in f.train():
        pass
    for _ in f.finish(1):
        pass
    return f


def several(path: Path) -> dict[str, Any]:
    """Examples that may have several of three labels."""
    random = np.random.default_rng(1)
    x = random.normal(size=(210, 4)).astype(np.float32)
    y = (x[:, :3] + random.normal(size=(210, 3)) > 0).astype(np.int64)
    np.savez(path / "several.npz", x=x, y=y)
    return {"name": "npz", "path": str(path / "several.npz")}


def hub_start(made: Any) -> torch.Tensor:
    return made.restarted().broadcast.w


def rows(path: Path, names: list[str], round_: int, start: torch.Tensor) -> Any:
    kept = [Keeper(path / n / "0123456789abcdef") for n in names]
    return torch.cat([k.before(round_, start[None]) for k in kept])


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", METHODS)
def test_flower_gives_what_a_simulation_gives(
    tmp_path: Path, deployed: Any, tree: Any, method: str, rule: str, precision: str
) -> None:
    tree |= METHODS[method] | RULES[rule]
    tree["train"]["precision"] = precision
    close = {"float32": 1e-5, "float64": 1e-10}[precision]
    made = deployed(tmp_path, tree)
    hub, f = made.run(), simulated(tree)
    start = f.population.start
    assert f.broadcast.w.dtype == getattr(torch, precision)
    assert (hub.broadcast.w - f.broadcast.w).abs().max() < close
    assert (hub.broadcast.extra - f.broadcast.extra).abs().sum() < close
    own = rows(tmp_path, made.experiment.deployment.sites, 5, start)
    theirs = f.population.read(np.arange(7))
    assert own.shape == theirs.shape
    if own.numel():
        assert (own - theirs).abs().max() < close
        assert (theirs - start).abs().max() > 1e-3  # there is something to compare
    assert (f.broadcast.w - hub_start(made)).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["several labels", "regression"])
def test_what_is_predicted_may_be_of_other_kinds(
    tmp_path: Path, deployed: Any, tree: Any, kind: str
) -> None:
    own = {"name": "linear_regression", "clients": 7, "dim": 4}
    if kind == "several labels":
        own = several(tmp_path)
        tree["deployment"] |= {"several": True, "classes": 3}
    else:
        tree["partition"] = {"name": "natural"}
        tree["deployment"]["classes"] = 0
    tree["data"] = own
    tree["deployment"] |= {"shape": [4], "scale": 1.0}
    tree |= METHODS["fedavg+ditto"]
    hub, f = deployed(tmp_path, tree).run(), simulated(tree)
    assert (hub.broadcast.w - f.broadcast.w).abs().max() < 1e-5
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert set(summary["heard"]) == {*tree["deployment"]["sites"]}
