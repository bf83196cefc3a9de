"""What holds of every solver in the folder, over whole small federations."""

import copy

import numpy as np
import pytest
import torch

from troth import lookup

from ..small import LOOP, PLANS

SOLVERS = [*lookup.names("solver"), {"name": "scaffold", "option": "I"}]
EVERY = pytest.mark.parametrize("solver", SOLVERS, ids=str)
OTHERS = pytest.mark.parametrize("plan", PLANS[1:], ids=lambda p: p.how)
DITTO = {"name": "ditto", "lam": 0.5}


def run(built):
    """Its records, and the states of all clients after them."""
    f = built.federation
    records = list(f.train())
    return records, f.population.read(np.arange(f.population.n))


SLOW = {"deadline": 0.8, "speed_spread": 1.0, "speed_noise": 0.5}
LATE = {"availability": SLOW, "train": {"cohort": 0}, "model": "odd:normed"}


@EVERY
@OTHERS
@pytest.mark.usefixtures("strange")
@pytest.mark.parametrize(
    "sections", [{"personalizer": DITTO | {"epochs": 3}}, LATE], ids=["ditto", "late"]
)
def test_every_plan_comes_to_the_same(classify, plan, solver, sections):
    """Clients of 1 to 5 batches an epoch, whose own models work an epoch longer.

    And with a deadline, and batch normalization.
    """
    (first, rows), (again, states) = (
        run(classify(how, solver=solver, **copy.deepcopy(sections)))
        for how in (LOOP, plan)
    )
    torch.testing.assert_close(states, rows, rtol=0, atol=1e-10)
    for a, b in zip(again, first, strict=True):
        for field in ("w", "extra"):
            x, y = getattr(a.broadcast, field), getattr(b.broadcast, field)
            torch.testing.assert_close(x, y, rtol=0, atol=1e-10)
        torch.testing.assert_close(a.messages.extra, b.messages.extra)
        assert a.moved > 0
    if sections is LATE:
        assert any(len(r.cut) for r in first) and any(len(r.absent) for r in first)


@EVERY
def test_no_learning_rate_no_step(classify, solver):
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
def test_resumed_bit_for_bit(resumed, labels, solver):
    """What clients keep and what travels beside w goes through the checkpoint."""
    tree = {
        "data": {"name": "npz", "path": str(labels)},
        "partition": {"name": "natural", "split": "given"},
        "train": {"rounds": 4, "cohort": 3, "batch": 4},
        "solver": solver,
        "server": {"name": "sgd", "momentum": 0.5},
        "personalizer": DITTO,
        "engine": {"how": "threads", "device": "cpu"},
        "checkpoint": {"every": 1},
    }
    resumed(tree)
