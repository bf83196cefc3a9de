from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import build, lookup
from troth.config import reader
from troth.engine.engine import Plan
from troth.types import Budget

N = 5


def built(personalizer: Any, plan: Plan, **sections: Any) -> build.Built:
    tree: dict[str, Any] = {
        "partition": {
            "name": "classes",
            "clients": N,
            "per_client": 6,
            "split": [0.6, 0.2, 0.2],
        },
        "model": "linear",
        "train": {"rounds": 2, "steps": 2, "batch": 8, "precision": "float64"},
        "personalizer": personalizer,
    }
    return build.build(reader.from_dict(tree | sections), plan=plan)


def done(ready: build.Built) -> tuple[Tensor, Tensor]:
    f = ready.federation
    for _ in f.train():
        pass
    list(f.finish(N))
    rows = f.population.read(np.arange(N))
    return f.broadcast.w, f.engine.models(f.broadcast.w, rows)


@pytest.mark.parametrize(
    ("plan", "keep", "regularizer"),
    [(Plan("loop", 1), "best", "l2sq"), (Plan("threads", 1, 2), "last", "l2")],
)
def test_is_ditto_finetune_with_kl_exactly(
    plan: Plan, keep: str, regularizer: str
) -> None:
    """Whatever `[regularizer]` says."""
    own = {"lam": 0.8, "steps": 5, "keep": keep, "lr": 0.2}
    skl = done(built({"name": "skl", **own}, plan, regularizer=regularizer))
    two = done(built({"name": "ditto_finetune", **own}, plan, regularizer="kl"))
    assert all(torch.equal(a, b) for a, b in zip(skl, two, strict=True))
    free = done(built({"name": "finetune", "steps": 5, "lr": 0.2}, plan))
    assert not torch.allclose(skl[1], free[1], 0, 1e-5)


def test_without_pull_it_is_finetune_exactly() -> None:
    plan = Plan("loop", 1)
    skl = done(built({"name": "skl", "lam": 0.0, "steps": 3}, plan))
    free = done(built({"name": "finetune", "steps": 3}, plan))
    assert all(torch.equal(a, b) for a, b in zip(skl, free, strict=True))


def test_keeps_predictions_near() -> None:
    """The stronger the pull, the nearer to what the shared model predicts."""
    plan, away = Plan("loop", 1), []
    for lam in (0.0, 0.5, 2.0):
        own = {"name": "skl", "lam": lam, "steps": 30, "lr": 0.2}
        ready = built(own, plan)
        w, v = done(ready)
        engine, x = ready.federation.engine, ready.data.x[:200]
        p = engine.task.predict(w, x).softmax(1)
        each = [(engine.task.predict(u, x).softmax(1) - p).abs().sum(1) for u in v]
        away.append(torch.stack(each).mean().item())
    assert away[0] > 1.2 * away[1] > 1.2 * 1.2 * away[2] > 0


def test_fifty_epochs_unless_told() -> None:
    finish = built("skl", Plan("loop", 1)).federation.engine.client.finish
    assert finish is not None and finish.budgets == (Budget(epochs=50),)


def test_options_and_reference() -> None:
    expected = {"lam": 1.0, "keep": "last"}
    assert lookup.check("personalizer", "skl", {}) == expected
    (entry,) = lookup.about("personalizer", "skl").citations
    assert entry.startswith("@article{yu2020salvaging")
