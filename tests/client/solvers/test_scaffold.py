import math

import numpy as np
import pytest
import torch

from troth.client.solvers.scaffold import scaffold
from troth.engine.local_training import Plan
from troth.types import Refusal

from ..hand import BOWL, TAILED, batch, by, number, sent, solved
from ..small import THREADS

BOTH = pytest.mark.parametrize("option", ["I", "II"])
FALSE = {"adversary": {"clients": [2]}, "corruption": "none"}


def made(option="II", task=BOWL, lr=0.1, decay=0.0, **more):
    return scaffold(task, by(lr, decay=decay, tail=task.tail), option=option, **more)


def round_(solver, own, c, *x, w=1.0, scale=1.0):
    """The update, what travels beside it and what the client keeps."""
    told = sent(torch.full_like(own, w), scale)._replace(extra=c)
    reply, (kept,) = solved(solver, told, *map(batch, x), state=(own,))
    return reply.update, reply.extra, kept


C_K, C = number(2.0), number(0.5)


@pytest.mark.parametrize(("option", "own"), [("I", -4.0), ("II", -3.725)])
def test_by_hand(option, own):
    """From w = 1 with c_k = 2, c = .5: 1 − .1·(−4 − 1.5) = 1.55, + .1·4.95 = 2.045.

    I: the gradients at 1 are −4 twice: c_k⁺ = −4. II: 2 − .5 − 1.045/.2 = −3.725,
    the mean of the gradients −4 and −3.45 on the way. `rate` is a part of the change.
    """
    for rate in (1.0, 0.25):
        found = round_(made(option, rate=rate), C_K, C, 5.0, 5.0)
        change = rate * (own - 2)
        expected = [1.045, change, 2 + change]
        assert [x.item() for x in found] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.5, 1e-3])
def test_the_schedule_is_part_of_the_step(scale):
    """One step: the estimate is the gradient at w, whatever its length."""
    *_, kept = round_(made(), C_K, C, 5.0, scale=scale)
    assert kept.item() == pytest.approx(-4.0, abs=1e-9)


@BOTH
def test_of_no_step_nothing_is_learnt(option):
    """Nor of steps without length: II would divide by nothing; I has a gradient."""
    solver = made(option)
    (never,) = solver.init(number(7.0))  # a client that was never asked
    assert never.tolist() == [0.0] and solver.extra == 1
    assert [x.item() for x in round_(solver, C_K, C)] == [0, 0, 2]
    for lr, scale in ((0.0, 1.0), (0.1, 0.0)):
        update, _, kept = round_(made(option, lr=lr), C_K, C, 5.0, scale=scale)
        assert [update.item(), kept.item()] == [0, -4 if option == "I" else 2]


@BOTH
def test_running_statistics_have_no_variate(option):
    """Even where somebody has smuggled numbers into the tail of c."""
    solver = made(option, TAILED)
    own, c = number(2.0, 0.0), number(0.5, 99.0)
    update, extra, kept = round_(solver, own, c, 5.0, 5.0)
    assert update.tolist() == pytest.approx([1.045, 3.0], abs=1e-12)
    assert kept[1] == 0 and extra[1] == 0 and extra[0] != 0
    assert solver.extra == 2


@BOTH
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_steps_to_infinity_teach_nothing(option, rate):
    """One round with a lost model must not cost the client all rounds that follow."""
    task = BOWL._replace(grad=lambda v, batch: v * 1e200)
    found = round_(made(option, task, rate=rate), C_K, C, 1.0, 1.0, w=1e200)
    assert not found[0].isfinite()  # and is dropped
    assert [x.item() for x in found[1:]] == [0.0, 2.0]


@BOTH
def test_weight_decay_is_the_same_for_all(option):
    """At the minimizer of ½(v − 5)² + ½v², corrected by its own gradient: no step."""
    solver, state, c = made(option, decay=1.0), number(0.0), number(0.0)
    for _ in range(200):
        update, extra, state = round_(solver, state, c, 5.0, 5.0, w=2.5)
        c = c + extra
    assert update.item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("option", "precision", "model", "plan"),
    [
        ("I", "float32", "linear", Plan("vmap", 4)),
        ("II", "float64", "linear", Plan("vmap", 4)),
        ("I", "float32", "odd:normed", THREADS),
        ("II", "float32", "odd:normed", THREADS),
    ],
)
@pytest.mark.usefixtures("strange")
def test_with_variates_held_at_zero_it_is_fedavg_exactly(
    classify, option, precision, model, plan
):
    train = {"precision": precision, "weight_decay": 0.01, "rounds": 5}
    found = []
    for solver in ("fedavg", {"name": "scaffold", "option": option, "rate": 0.0}):
        wanted = {"model": model, "train": train, "personalizer": "ditto"}
        f = classify(plan, solver=solver, **wanted).federation
        found.append([record.broadcast.w for record in f.train()])
        rows = f.population.read(np.arange(f.population.n))
        found[-1].append(rows if solver == "fedavg" else rows[:, f.engine.task.d :])
        assert not f.broadcast.extra.any()
    assert all(map(torch.equal, *found))


@BOTH
@pytest.mark.parametrize(("cohort", "rounds"), [(0, 40), (2, 120)])
def test_reaches_the_minimizer_where_fedavg_does_not(quadratic, option, cohort, rounds):
    solver, train = {"name": "scaffold", "option": option}, {"rounds": rounds}
    w = quadratic.run(solver=solver, train=train | {"cohort": cohort})
    assert quadratic.off(w) < 1e-6
    assert quadratic.off(quadratic.settled(5)) > 0.05  # where fedavg ends


@BOTH
def test_however_unlike_their_numbers_of_steps_are(quadratic, option):
    """A deadline cuts clients at 1 to 5 steps of 5: FedAvg would favour the fast."""
    f = quadratic.made(
        solver={"name": "scaffold", "option": option},
        availability={"deadline": 0.9, "speed_spread": 0.4},
        train={"rounds": 60},
    ).federation
    assert not any(len(record.absent) for record in f.train())
    assert len({*f.turnout(0, np.arange(6)).steps.tolist()}) > 2
    assert quadratic.off(f.broadcast.w.numpy()) < 1e-6


@pytest.mark.slow("hundreds of rounds")
@BOTH
def test_though_many_do_not_answer(quadratic, option):
    """Who is not heard has changed nothing: c stays the mean of all c_k."""
    f = quadratic.made(
        solver={"name": "scaffold", "option": option},
        availability={"drop": 0.4},
        train={"rounds": 80},
    ).federation
    assert len({len(record.absent) for record in f.train()}) > 3
    assert quadratic.off(f.broadcast.w.numpy()) < 1e-6
    own = f.population.read(np.arange(6)).mean(0)
    torch.testing.assert_close(f.broadcast.extra, own, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("strange")
def test_whose_minimizer_it_is(quadratic):
    """Of the others, where a malicious client is dropped; of weighted clients."""
    w = quadratic.run(
        solver="scaffold",
        attack={"name": "odd:falsify", "value": math.inf},
        train={"cohort": 4, "rounds": 60},
        **FALSE,
    )
    assert quadratic.off(w, [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]) < 1e-6
    how = {"aggregator": "weighted_mean", "train": {"rounds": 50}}
    w = quadratic.run(solver="scaffold", **how)
    assert quadratic.off(w, quadratic.sizes) < 1e-6 < 0.01 < quadratic.off(w)


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


@pytest.mark.usefixtures("strange")
def test_a_falsified_variate(classify):
    """Robust rules guard it as they do the model; no number drops its message."""

    def under(attack, aggregator="mean"):
        train = {"cohort": 0, "rounds": 5}
        rule = {"attack": attack, "aggregator": aggregator, "train": train}
        return classify(solver="scaffold", **FALSE, **rule).federation.train()

    assert next(under("odd:falsify")).broadcast.extra.abs().max() > 1e5
    for aggregator in ("median", "trimmed_mean", "geometric_median"):
        for record in under("odd:falsify", aggregator):
            assert record.broadcast.extra.abs().max() < 50, aggregator
            assert record.broadcast.w.abs().max() < 50, aggregator
    for record in under({"name": "odd:falsify", "value": math.nan}):
        assert record.dropped == {"drop_invalid": [2]} and not record.why


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_refuses_moments(classify, optimizer):
    with pytest.raises(Refusal, match=r"set train.optimizer = 'sgd'"):
        classify(solver="scaffold", train={"optimizer": optimizer})
    own = {"name": "ditto", "optimizer": optimizer}  # a personalizer's are its own
    assert classify(solver="scaffold", personalizer=own).federation.step().moved > 0


def test_refuses_a_rate_that_is_no_share():
    for rate in (-0.1, 1.1, math.nan, math.inf):
        with pytest.raises(Refusal, match=f"rate = {rate} must lie in .* 1 is the pap"):
            made(rate=rate)
