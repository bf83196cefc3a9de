"""What holds of every solver in the folder, over whole small federations."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import troth
from troth import files, lookup
from troth.engine.engine import Plan
from troth.types import Record

SOLVERS: list[Any] = [*lookup.names("solver"), {"name": "scaffold", "option": "I"}]
EVERY = pytest.mark.parametrize("solver", SOLVERS, ids=str)
APART = Plan("threads", 1, 2)
PLANS = [Plan("loop", 1), Plan("vmap", 4), APART]
DITTO = {"name": "ditto", "lam": 0.5}


def run(built: Any) -> tuple[list[Record], torch.Tensor]:
    """Its records, and the states of all clients after them."""
    f = built.federation
    records = list(f.train())
    return records, f.population.read(np.arange(f.population.n))


def agree(classify: Any, **sections: Any) -> list[Record]:
    """Runs by every plan, which must come to the same; gives the records."""
    first, rows = run(classify(PLANS[0], **copy.deepcopy(sections)))
    for plan in PLANS[1:]:
        again, states = run(classify(plan, **copy.deepcopy(sections)))
        torch.testing.assert_close(states, rows, rtol=0, atol=1e-10)
        for a, b in zip(again, first, strict=True):
            for field in ("w", "extra"):
                x, y = getattr(a.broadcast, field), getattr(b.broadcast, field)
                torch.testing.assert_close(x, y, rtol=0, atol=1e-10)
            torch.testing.assert_close(a.messages.extra, b.messages.extra)
            assert a.moved > 0
    return first


@EVERY
def test_every_plan_comes_to_the_same(classify: Any, solver: Any) -> None:
    """Clients of 1 to 5 batches an epoch, whose own models work an epoch longer."""
    agree(classify, solver=solver, personalizer=DITTO | {"epochs": 3})


@EVERY
@pytest.mark.usefixtures("strange")
def test_with_a_deadline_and_batch_normalisation_too(
    classify: Any, solver: Any
) -> None:
    slow = {"deadline": 0.8, "speed_spread": 1.0, "speed_noise": 0.5}
    train, model = {"cohort": 0}, "odd:normed"
    records = agree(
        classify, solver=solver, availability=slow, train=train, model=model
    )
    assert any(len(r.cut) for r in records) and any(len(r.absent) for r in records)


@EVERY
def test_a_personalizer_does_not_change_the_shared_model(
    classify: Any, solver: Any
) -> None:
    """Ditto's modularity (E.1): v leans on w, and w does not know of v."""
    plain, _ = run(classify(solver=solver))
    for personal in (DITTO, DITTO | {"epochs": 3}):
        beside, _ = run(classify(solver=solver, personalizer=personal))
        for a, b in zip(plain, beside, strict=True):
            assert torch.equal(a.broadcast.w, b.broadcast.w)
            assert torch.equal(a.broadcast.extra, b.broadcast.extra)


@EVERY
def test_no_learning_rate_no_step(classify: Any, solver: Any) -> None:
    """Of the clients' lr = 0, and of a schedule that comes down to nothing."""
    built = classify(solver=solver, personalizer=DITTO, train={"lr": 0.0})
    w0 = built.federation.broadcast.w.clone()
    records, states = run(built)
    assert all(torch.equal(r.broadcast.w, w0) and not r.why for r in records)
    assert states.isfinite().all()
    built = classify(solver=solver)
    built.federation.scale = lambda r: float(r != 1)
    records, states = run(built)
    assert [r.moved == 0 for r in records] == [False, True, False]
    assert states.isfinite().all() and not any(r.dropped for r in records)


@EVERY
def test_resumed_bit_for_bit(tmp_path: Path, labels: Path, solver: Any) -> None:
    """What clients keep and what travels beside w goes through the checkpoint."""
    tree = {
        "data": {"name": "npz", "path": str(labels)},
        "partition": {"name": "natural", "split": "given"},
        "train": {"rounds": 4, "cohort": 3, "batch": 4},
        "solver": solver,
        "server": {"name": "sgd", "momentum": 0.5},
        "personalizer": DITTO,
        "engine": {"how": "threads", "device": "cpu"},
        "checkpoint": {"every": 2},
    }
    troth.run(tree, out=tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(progress: Any) -> None:
        if progress.done == 3:
            raise Killed

    with pytest.raises(Killed):
        troth.run(tree, out=tmp_path / "cut", watch=kill)
    troth.resume(tmp_path / "cut")
    names = (files.ROUNDS, files.CLIENTS, files.SHARED, files.PERSONAL)
    for name in names:
        whole, cut = (tmp_path / run / name for run in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes(), name
