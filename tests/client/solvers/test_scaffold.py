import math

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.solvers.scaffold import scaffold
from troth.engine.engine import Plan
from troth.types import Carry, Refusal, Reply, Solver

from ..hand import BOWL, TAILED, batch, by, number, sent, solved

OPTIONS = ["I", "II"]
BOTH = pytest.mark.parametrize("option", OPTIONS)


def made(task=BOWL, lr=0.1, **more):
    way = by(lr, decay=more.pop("decay", 0.0), tail=task.tail)
    return scaffold(task, way, **more)


def round_(
    solver: Solver, own: Tensor, c: Tensor, *x: float, w: float = 1.0, scale: float = 1
) -> tuple[Reply, Carry]:
    told = sent(torch.full_like(own, w), scale)._replace(extra=c)
    return solved(solver, told, *map(batch, x), state=(own,))


def test_by_hand():
    """From w = 1 with c_k = 2, c = .5: 1 − .1·(−4 − 1.5) = 1.55, + .1·4.95 = 2.045.

    I: the gradients at 1 are −4 twice, so c_k⁺ = −4. II: 2 − .5 − 1.045/.2 = −3.725,
    the mean of the gradients −4 and −3.45 on the way.
    """
    for option, own in (("I", -4.0), ("II", -3.725)):
        solver = made(option=option)
        reply, (kept,) = round_(solver, number(2.0), number(0.5), 5.0, 5.0)
        assert reply.update.item() == pytest.approx(1.045, abs=1e-12)
        assert kept.item() == pytest.approx(own, abs=1e-12)
        assert reply.extra.item() == pytest.approx(own - 2, abs=1e-12)


def test_the_schedule_is_part_of_the_step():
    """One step: the estimate is the gradient at w, whatever its length."""
    for scale in (1.0, 0.5, 1e-3):
        _, (kept,) = round_(
            made(option="II"), number(2.0), number(0.5), 5.0, scale=scale
        )
        assert kept.item() == pytest.approx(-4.0, abs=1e-9)


@BOTH
def test_rate_takes_a_part_of_the_change(option):
    whole, _ = round_(made(option=option), number(2.0), number(0.5), 5.0, 3.0)
    part = made(option=option, rate=0.25)
    reply, (kept,) = round_(part, number(2.0), number(0.5), 5.0, 3.0)
    assert torch.equal(reply.update, whole.update)
    assert reply.extra.item() == pytest.approx(0.25 * whole.extra.item(), abs=1e-12)
    assert kept.item() == pytest.approx(2 + reply.extra.item(), abs=1e-12)


@BOTH
def test_of_no_step_nothing_is_learnt(option):
    """Nor of steps without length: II would divide by nothing; I has a gradient."""
    solver = made(option=option)
    (never,) = solver.init(number(7.0))  # a client that was never asked
    assert never.tolist() == [0.0] and solver.extra == 1
    reply, (kept,) = round_(solver, number(2.0), number(0.5))
    assert [reply.update.item(), reply.extra.item(), kept.item()] == [0, 0, 2]
    for lr, scale in ((0.0, 1.0), (0.1, 0.0)):
        still = made(lr=lr, option=option)
        reply, (kept,) = round_(still, number(2.0), number(0.5), 5.0, scale=scale)
        assert [reply.update.item(), kept.item()] == [0, -4 if option == "I" else 2]


@BOTH
def test_running_statistics_have_no_variate(option):
    """Even where somebody has smuggled numbers into the tail of c."""
    solver = made(TAILED, option=option)
    reply, (kept,) = round_(solver, number(2.0, 0.0), number(0.5, 99.0), 5.0, 5.0)
    assert reply.update.tolist() == pytest.approx([1.045, 3.0], abs=1e-12)
    assert kept[1] == 0 and reply.extra[1] == 0 and reply.extra[0] != 0
    assert solver.extra == 2


@BOTH
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_steps_to_infinity_teach_nothing(option, rate):
    """One round with a lost model must not cost the client all rounds that follow."""
    task = BOWL._replace(grad=lambda v, batch: v * 1e200)
    solver = made(task, option=option, rate=rate)
    reply, (kept,) = round_(solver, number(2.0), number(0.5), 1.0, 1.0, w=1e200)
    assert not reply.update.isfinite()  # and is dropped
    assert [reply.extra.item(), kept.item()] == [0.0, 2.0]


@BOTH
def test_weight_decay_is_the_same_for_all(option):
    """At the minimiser of ½(v − 5)² + ½v², corrected by its own gradient: no step."""
    solver = made(option=option, decay=1.0)
    state, c = number(0.0), number(0.0)
    for _ in range(200):
        reply, (state,) = round_(solver, state, c, 5.0, 5.0, w=2.5)
        c = c + reply.extra
    assert reply.update.item() == pytest.approx(0.0, abs=1e-12)


# Over whole federations


@pytest.mark.parametrize(
    ("option", "precision", "model", "plan"),
    [
        ("I", "float32", "linear", Plan("vmap", 4)),
        ("II", "float64", "linear", Plan("vmap", 4)),
        ("I", "float32", "odd:normed", Plan("threads", 1, 2)),
        ("II", "float32", "odd:normed", Plan("threads", 1, 2)),
    ],
)
@pytest.mark.usefixtures("strange")
def test_with_variates_held_at_zero_it_is_fedavg_exactly(
    classify, option, precision, model, plan
):
    train = {"precision": precision, "weight_decay": 0.01, "rounds": 5}
    held = {"name": "scaffold", "option": option, "rate": 0.0}
    found = []
    for solver in ("fedavg", held):
        f = classify(
            plan, solver=solver, model=model, train=train, personalizer="ditto"
        ).federation
        records = list(f.train())
        found.append([record.broadcast.w for record in records])
        rows = f.population.read(np.arange(f.population.n))
        own = rows if solver == "fedavg" else rows[:, f.engine.task.d :]
        found[-1].append(own)
        assert not records[-1].broadcast.extra.any()
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@BOTH
@pytest.mark.parametrize("cohort", [0, 2])
def test_reaches_the_minimiser_where_fedavg_does_not(quadratic, option, cohort):
    solver = {"name": "scaffold", "option": option}
    train = {"cohort": cohort, "rounds": 120 if cohort else 40}
    w = quadratic.run(solver=solver, train=train)
    assert np.abs(w - quadratic.best()).max() < 1e-6
    drifted = quadratic.settled(5)
    assert np.abs(drifted - quadratic.best()).max() > 0.05
    if cohort == 0:
        w = quadratic.run(solver="fedavg")
        np.testing.assert_allclose(w, drifted, atol=1e-8)


@BOTH
def test_however_unlike_their_numbers_of_steps_are(quadratic, option):
    """A deadline cuts clients at 1 to 5 steps of 5: FedAvg would favour the fast."""
    slow = {"deadline": 0.9, "speed_spread": 0.4}
    solver = {"name": "scaffold", "option": option}
    f = quadratic.made(
        solver=solver, availability=slow, train={"rounds": 60}
    ).federation
    records = list(f.train())
    made = f.turnout(0, np.arange(6)).steps
    assert len({*made.tolist()}) > 2 and not any(len(r.absent) for r in records)
    assert np.abs(f.broadcast.w.numpy() - quadratic.best()).max() < 1e-6


@BOTH
def test_though_many_do_not_answer(quadratic, option):
    """Who is not heard has changed nothing: c stays the mean of all c_k."""
    f = quadratic.made(
        solver={"name": "scaffold", "option": option},
        availability={"drop": 0.4},
        train={"rounds": 80},
    ).federation
    assert len({len(record.absent) for record in f.train()}) > 3
    assert np.abs(f.broadcast.w.numpy() - quadratic.best()).max() < 1e-6
    own = f.population.read(np.arange(6)).mean(0)
    torch.testing.assert_close(f.broadcast.extra, own, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("strange")
def test_though_a_hostile_client_is_dropped_now_and_then(quadratic):
    """The others' mean: theirs is then the objective."""
    w = quadratic.run(
        solver="scaffold",
        adversary={"clients": [2]},
        corruption="none",
        attack={"name": "odd:falsify", "value": math.inf},
        train={"cohort": 4, "rounds": 60},
    )
    benign = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    assert np.abs(w - quadratic.best(benign)).max() < 1e-6


def test_of_weighted_clients_the_weighted_objective(quadratic):
    w = quadratic.run(
        solver="scaffold", aggregator="weighted_mean", train={"rounds": 50}
    )
    assert np.abs(w - quadratic.best(quadratic.sizes)).max() < 1e-6
    assert np.abs(w - quadratic.best()).max() > 0.01


@pytest.mark.parametrize(
    ("solver", "sections"),
    [
        ({"option": "I"}, {}),
        ({"option": "II"}, {}),
        # four messages become two, behind which stand four clients
        ({}, {"filter": [{"name": "bucketing", "s": 2}]}),
        # a server's momentum and length leave variates alone
        ({}, {"server": {"name": "sgd", "lr": 0.5, "momentum": 0.9}}),
        ({}, {"server": "adam"}),
    ],
)
def test_the_servers_variate_is_the_mean_of_the_clients(classify, solver, sections):
    """Line 17, over all clients, those that were never asked included."""
    f = classify(solver={"name": "scaffold", **solver}, **sections).federation
    for record in f.train():
        own = f.population.read(np.arange(6))
        assert own.shape == (6, f.engine.task.d)
        torch.testing.assert_close(record.broadcast.extra, own.mean(0))
        assert len(record.messages.client) == (2 if "filter" in sections else 4)
    assert record.broadcast.extra.abs().max() > 1e-3


def test_beside_every_aggregator(classify):
    train, wrong = {"cohort": 0, "rounds": 3}, []
    for aggregator in lookup.names("aggregator"):
        f = classify(solver="scaffold", aggregator=aggregator, train=train).federation
        records = list(f.train())
        extra = records[-1].broadcast.extra
        right = all(not r.why and r.broadcast.w.isfinite().all() for r in records)
        wrong += (
            [] if right and extra.isfinite().all() and extra.any() else [aggregator]
        )
    assert not wrong


@pytest.mark.usefixtures("strange")
def test_batch_normalisation_beside_variates(classify):
    built = classify(solver="scaffold", model="odd:normed", train={"cohort": 0})
    f = built.federation
    d, tail = f.engine.task.d, f.engine.task.tail
    assert tail == 8 and len(f.broadcast.extra) == d
    plain = classify(model="odd:normed", train={"cohort": 0}).federation
    record, other = f.step(), plain.step()
    assert record.messages.extra.shape == (6, d + tail)  # statistics travel behind
    assert torch.equal(record.broadcast.w, other.broadcast.w)  # c_k = c = 0 as yet
    for record in f.train():
        own = f.population.read(np.arange(6))
        assert not own[:, -tail:].any() and own[:, :-tail].any()
        assert not record.broadcast.extra[-tail:].any()
        assert (record.broadcast.w[-tail // 2 :] > 0).all()  # variances


@pytest.mark.usefixtures("strange")
@pytest.mark.parametrize("aggregator", ["median", "trimmed_mean", "geometric_median"])
def test_robust_rules_guard_the_variate_too(classify, aggregator):
    sections = {
        "solver": "scaffold",
        "adversary": {"clients": [2]},
        "corruption": "none",
        "attack": "odd:falsify",
        "train": {"cohort": 0, "rounds": 5},
    }
    lost = classify(**sections).federation
    assert lost.step().broadcast.extra.abs().max() > 1e5
    f = classify(aggregator=aggregator, **sections).federation
    for record in f.train():
        assert record.broadcast.extra.abs().max() < 50
        assert record.broadcast.w.abs().max() < 50


@pytest.mark.usefixtures("strange")
def test_a_variate_that_is_no_number_drops_its_message(classify):
    f = classify(
        solver="scaffold",
        adversary={"clients": [2]},
        attack={"name": "odd:falsify", "value": math.nan},
        train={"cohort": 0},
    ).federation
    for record in f.train():
        assert record.dropped == {"drop_invalid": [2]} and not record.why


# Refusals


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_refuses_moments(classify, optimizer):
    with pytest.raises(Refusal, match=r"set train.optimizer = 'sgd'"):
        classify(solver="scaffold", train={"optimizer": optimizer})
    own = {"name": "ditto", "optimizer": optimizer}  # a personalizer's are its own
    f = classify(solver="scaffold", personalizer=own).federation
    assert f.step().moved > 0


def test_refuses_what_is_none():
    for rate in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(Refusal, match=f"rate = {rate} must lie in .* 1 is the pap"):
            made(rate=rate)
    with pytest.raises(Refusal, match="solver.option = 'III' is not one of 'I', 'II'"):
        lookup.check("solver", "scaffold", {"option": "III"})
