import numpy as np
import pytest
import torch

from troth.client.personalizers.mapper import mapper
from troth.types import Budget

from ..hand import BOWL, INF, NAN, batch, by, number, round_, sent
from ..hand import worked as worked_
from ..small import (
    THREADS,
    agrees,
    built,
    draws,
    gradient,
    loss,
    models,
    told,
    written_out,
)


def client(weights, lr=0.1, **more):
    """One by itself."""
    how = more.get("own", by(lr)), more.get("by", by(lr))
    work = Budget(steps=more.get("steps", 1))
    solve = more.get("solve", "together")
    return mapper(BOWL, *how, None, work, weights=weights, solve=solve)


def worked(one, v, w, *xs):
    """A round from v and w, a step each of these examples: update, v and weight."""
    update, state = round_(one, one.init(number(v)), w, *xs)
    return update, state[0].item(), one.tell(state).item()


def test_a_step_by_hand():
    # ½(1 + 4) = 2.5, g = −2.5: both move by 0.1·½·2.5
    one = client([0.5])
    update, state = round_(one, one.init(number(1.0)), 4.0, 5.0)
    assert update == pytest.approx(0.125, abs=1e-14)
    assert state[0].item() == pytest.approx(1.125, abs=1e-14)
    # read with another w: ½(1.125 + 8)
    assert one.model(number(8.0), state).item() == pytest.approx(4.5625, abs=1e-14)
    # each with its own rate
    assert worked(client([0.5], own=by(0.3)), 1.0, 4.0, 5.0)[:2] == (0.125, 1.375)


@pytest.mark.parametrize(
    ("x", "expected"), [(2.0, 0.75), (2.4, 0.5), (3.0, 0.25), (9.0, 0.25), (0.0, 0.75)]
)
def test_the_weight_with_the_lowest_loss_is_taken(x, expected):
    """Between 1 and 4: 3.25, 2.5 or 1.75; each moves by its share."""
    update, v, weight = worked(client([0.5, 0.75, 0.25, 0.5]), 1.0, 4.0, x)
    g = expected * 1 + (1 - expected) * 4 - x
    assert update == pytest.approx(-0.1 * (1 - expected) * g, abs=1e-14)
    assert v == pytest.approx(1 - 0.1 * expected * g, abs=1e-14)
    assert weight == expected


@pytest.mark.parametrize("x", [5.0, NAN, INF])
def test_of_equal_losses_or_none_the_largest_weight_is_taken(x):
    assert worked(client([0.25, 0.75, 0.5]), 4.0, 4.0, x)[2] == 0.75


@pytest.mark.parametrize("w", [INF, -INF, NAN])
def test_a_loss_that_is_not_finite_is_never_taken(w):
    one = client([0.25, 1.0])
    _, state = round_(one, one.init(number(1.0)), w, 5.0)
    assert one.tell(state).tolist() == [1.0]
    assert one.model(number(w), state).item() == pytest.approx(1.4)


def test_moments_of_v_live_on():
    heavy, first = by(0.1, "momentum"), number(1.0)
    one = client([0.5], own=heavy, by=heavy)
    update, state = round_(one, one.init(first), 4.0, 5.0)
    assert state[2].item() == pytest.approx(-1.25)  # ½·g
    _, after = round_(one, state, 4.0, 5.0)
    # ½(1.125 + 4) = 2.5625, ½·g = −1.21875
    assert after[2].item() == pytest.approx(0.9 * -1.25 - 1.21875)
    assert round_(one, one.init(first), 4.0, 5.0)[0] == update  # w's do not


def test_who_was_never_asked_has_the_shared_model():
    one = client([0.25, 0.5])
    state = one.init(number(NAN))
    assert one.model(number(4.0), state).item() == 4.0
    assert one.tell(state).tolist() == [0.0]


def test_a_single_weight_asks_for_no_loss():
    task = BOWL._replace(loss=None)
    one = mapper(task, by(0.1), by(0.1), None, Budget(1), weights=[0.5])
    assert worked(one, 1.0, 4.0, 5.0)[0] == pytest.approx(0.125)


@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_in_turn_by_hand(optimizer):
    """For each λ two steps of v with w fixed, a pass of two, then one step of w."""
    how, weights, lr = by(0.3, optimizer), [0.25, 0.5, 1.0], 0.3
    one = client(weights, own=how, solve="in_turn", steps=2)
    state, v0, w, moment = one.init(number(1.0)), 1.0, 4.0, 0.0
    for xs, best in (((5.0, 6.0), (2.2, 2.4)), ((2.0, 1.0), (9.0, 8.0))):
        seen = [batch(x, t=t, per_epoch=2) for t, x in enumerate((*xs, *best))]
        reply, state = worked_(one.local, state, sent(number(w)), *seen)
        ends = {}
        for lam in weights:
            v, m = v0, moment
            for x in xs:
                g = lam * (lam * v + (1 - lam) * w - x)
                m = g + (0.9 * m if optimizer == "momentum" else 0.0)
                v -= lr * m
            mix = lam * v + (1 - lam) * w
            ends[sum((mix - x) ** 2 for x in best)] = lam, v, m, mix
        lam, v0, moment, mix = ends[min(ends)]
        assert one.tell(state).tolist() == [lam]
        assert state[0].item() == pytest.approx(v0, abs=1e-14)
        update = -0.1 * (1 - lam) * (mix - best[1])
        assert reply.update.item() == pytest.approx(update, abs=1e-14)
        w += reply.update.item() + 0.5


def test_in_turn_by_the_size_of_batches_and_of_equal_losses_the_largest():
    one = client([0.0, 0.5], solve="in_turn", steps=0)
    # v = 1, w = 4: mixtures 2.5 and 4; two examples at 4 outweigh one at 1
    seen = batch(4.0, 4.0, per_epoch=2), batch(2.0, padding=3, t=1, per_epoch=2)
    _, state = worked_(one.local, one.init(number(1.0)), sent(number(4.0)), *seen)
    assert one.tell(state).tolist() == [0.0]
    for x in (3.25, NAN):
        seen = batch(x, x), batch(x, x, t=1)
        _, state = worked_(one.local, one.init(number(1.0)), sent(number(4.0)), *seen)
        assert one.tell(state).tolist() == [0.5]


@pytest.mark.parametrize("weights", [[0.1, 0.5, 0.9], [0.0, 0.4, 0.7]])
def test_in_turn_written_out(tree, weights):
    own = {"name": "mapper", "weights": weights, "lr": 0.0005, "solve": "in_turn"}
    made = built(tree("plain", own), THREADS, 0)
    feed = made.federation.engine.feed
    v = made.federation.broadcast.w.repeat(6, 1)
    lams, taken = [0.0] * 6, set()

    def local(k, w, r, slots):
        steps = len(slots)
        every = draws(made, k, r, steps + int(feed.per_epoch[k]))
        ends = []
        for lam in weights:
            mine = v[k]
            for held in every[:steps]:
                at = lam * mine + (1 - lam) * w
                mine = mine - 0.0005 * lam * gradient(made, at, held)
            at = lam * mine + (1 - lam) * w
            total = sum(len(h) * loss(made, at, h).item() for h in every[steps:])
            ends.append((total, lam, mine, at))
        _, lams[k], v[k], at = min(ends, key=lambda end: end[:2])
        taken.add(lams[k])
        return -0.1 * (1 - lams[k]) * gradient(made, at, every[-1])

    w = written_out(made, local)
    lam = torch.tensor(lams, dtype=w.dtype)[:, None]
    agrees(made, w, lam * v + (1 - lam) * w)
    assert [x for (x,) in told(made)] == lams
    assert len(taken) >= 2  # it is not the same all the time


def test_at_convergence_every_client_has_its_own_minimizer():
    """It is the minimizer of the objective: any weight can reach every model."""
    targets, w, one = [3.0, -1.0, 7.0], 0.5, client([0.25, 0.5], lr=0.9)
    states = [one.init(number(w)) for _ in targets]
    for _ in range(120):
        pairs = zip(states, targets, strict=True)
        ends = [round_(one, state, w, x) for state, x in pairs]
        states = [state for _, state in ends]
        w += float(np.mean([update for update, _ in ends]))
    found = [one.model(number(w), state).item() for state in states]
    assert found == pytest.approx(targets, abs=1e-5)


def test_written_out(tree):
    weights = [0.1, 0.5, 0.9]
    own = {"name": "mapper", "weights": weights, "lr": 0.3}
    made = built(tree("plain", own), THREADS, 0)
    v = made.federation.broadcast.w.repeat(6, 1)
    lams, taken = [0.0] * 6, set()

    def local(k, w, r, slots):
        copy, total = w, np.zeros(3)
        for held in slots:
            # so written equal models mix to the very same: a tie, on any machine
            for i, lam in enumerate(weights):
                there = copy + lam * (v[k] - copy)
                total[i] += loss(made, there, held).item()
            lam = weights[2 - int(np.argmin(total[::-1]))]
            g = gradient(made, copy + lam * (v[k] - copy), held)
            v[k], copy = v[k] - 0.3 * lam * g, copy - 0.1 * (1 - lam) * g
            lams[k] = lam
            taken.add(lam)
        return copy - w

    w = written_out(made, local)  # of all of them, not of the last
    lam = torch.tensor(lams, dtype=w.dtype)[:, None]
    agrees(made, w, lam * v + (1 - lam) * w)
    assert [x for (x,) in told(made)] == lams
    assert len(taken) >= 2  # it is not the same all the time


def test_statistics_are_those_of_the_mixed_model(tree):
    """Of positive variance, and not between those of v and of w."""
    made = built(tree("normed", "mapper"))
    f = made.federation
    tail = f.engine.task.tail
    own = f.engine.packing.unpack(f.population.read(np.arange(6)))[0]
    assert torch.equal(models(made)[:, -tail:], own[:, -tail:])
    assert not torch.equal(own[0, -tail:], f.broadcast.w[-tail:])
