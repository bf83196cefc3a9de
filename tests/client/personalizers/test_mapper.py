from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import troth
from troth import build, files, lookup
from troth.client.client import descent
from troth.client.personalizers.mapper import mapper
from troth.config import reader
from troth.config.schema import Part
from troth.engine.engine import Plan
from troth.networks import task
from troth.types import Batch, Broadcast, Budget, Client, Descent, Refusal, Reply, Task

Tree = Callable[..., dict[str, Any]]
ONE = torch.ones((), dtype=torch.float64)
NAN, INF = float("nan"), float("inf")
LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)


# One client by itself


def loss(v: Tensor, batch: Batch) -> Tensor:
    return 0.5 * (batch.weight[:, None] * (v - batch.x).square()).sum()


BOWL = Task(1, 0, loss, torch.func.grad(loss), lambda v, x: x)


def number(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def batch(x: float) -> Batch:
    zero = torch.tensor(0)
    return Batch(number(x)[None], number(x)[None], number(1.0), zero, zero + 1)


def by(lr: float, optimizer: str = "sgd") -> Descent:
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    return descent(part, lr, 0.0)


def client(weights: list[float], lr: float = 0.1, **more: Any) -> Client:
    own = more.pop("own", by(lr))
    return mapper(BOWL, own, by(lr), None, Budget(steps=1), weights=weights)


def worked(one: Client, v: float, w: float, *xs: float) -> tuple[Reply, Any]:
    """A round from v and w, a step each of these examples."""
    sent, state = Broadcast(number(w), number(), ONE), one.init(number(v))
    carry = one.local.begin(sent, state)
    for x in xs:
        carry = one.local.step(sent, carry, batch(x), batch(x))
    return one.local.end(sent, carry, state, batch(0.0))


def test_a_step_by_hand() -> None:
    # ½(1 + 4) = 2.5, g = −2.5: both move by 0.1·½·2.5
    one = client([0.5])
    reply, state = worked(one, 1.0, 4.0, 5.0)
    assert reply.update.item() == pytest.approx(0.125, abs=1e-14)
    assert state[0].item() == pytest.approx(1.125, abs=1e-14)
    assert one.tell(state).tolist() == [0.5]
    # read with another w: ½(1.125 + 8)
    assert one.model(number(8.0), state).item() == pytest.approx(4.5625, abs=1e-14)


def test_every_model_moves_by_its_share() -> None:
    # 0.2·1 + 0.8·4 = 3.4, g = −1.6
    reply, state = worked(client([0.2]), 1.0, 4.0, 5.0)
    assert reply.update.item() == pytest.approx(0.1 * 0.8 * 1.6, abs=1e-14)
    assert state[0].item() == pytest.approx(1 + 0.1 * 0.2 * 1.6, abs=1e-14)


@pytest.mark.parametrize(
    ("x", "expected"), [(2.0, 0.75), (2.4, 0.5), (3.0, 0.25), (9.0, 0.25), (0.0, 0.75)]
)
def test_the_weight_with_the_lowest_loss_is_taken(x: float, expected: float) -> None:
    """Between 1 and 4: 0.25 is 3.25, 0.5 is 2.5, 0.75 is 1.75."""
    one = client([0.5, 0.75, 0.25, 0.5])
    reply, state = worked(one, 1.0, 4.0, x)
    assert one.tell(state).tolist() == [expected]
    between = expected * 1 + (1 - expected) * 4
    g = between - x
    assert reply.update.item() == pytest.approx(-0.1 * (1 - expected) * g, abs=1e-14)
    assert state[0].item() == pytest.approx(1 - 0.1 * expected * g, abs=1e-14)


def test_losses_of_the_round_add_up() -> None:
    """The second example alone would take 0.25, the first weighs more."""
    one = client([0.25, 0.75], lr=1e-9)
    for xs, expected in (((1.0, 3.0), 0.75), ((3.0,), 0.25), ((1.0, 3.0, 9.0), 0.25)):
        _, state = worked(one, 1.0, 4.0, *xs)
        assert one.tell(state).tolist() == [expected]


def test_every_round_chooses_anew() -> None:
    one = client([0.25, 0.75], lr=1e-9)
    _, state = worked(one, 1.0, 4.0, 1.0)
    sent = Broadcast(number(4.0), number(), ONE)
    carry = one.local.step(sent, one.local.begin(sent, state), batch(4.0), batch(4.0))
    _, state = one.local.end(sent, carry, state, batch(0.0))
    assert one.tell(state).tolist() == [0.25]


@pytest.mark.parametrize("x", [5.0, NAN, INF])
def test_of_equal_losses_or_none_the_smallest_weight_is_taken(x: float) -> None:
    one = client([0.75, 0.25, 0.5])
    _, state = worked(one, 4.0, 4.0, x)
    assert one.tell(state).tolist() == [0.25]


def test_a_loss_that_is_not_finite_is_never_taken() -> None:
    one = client([0.25, 1.0])
    for w in (INF, -INF, NAN):
        _, state = worked(one, 1.0, w, 5.0)
        assert one.tell(state).tolist() == [1.0]
        assert state[0].item() == pytest.approx(1.4)
        assert one.model(number(w), state).isfinite()


def test_who_was_never_asked_has_the_shared_model() -> None:
    one = client([0.25, 0.5])
    state = one.init(number(NAN))
    assert one.model(number(4.0), state).item() == 4.0
    assert one.tell(state).tolist() == [0.0]


def test_a_single_weight_asks_for_no_loss() -> None:
    def never(v: Tensor, batch: Batch) -> Tensor:
        raise AssertionError

    one = mapper(
        BOWL._replace(loss=never), by(0.1), by(0.1), None, Budget(1), weights=[0.5]
    )
    assert worked(one, 1.0, 4.0, 5.0)[0].update.item() == pytest.approx(0.125)


@pytest.mark.parametrize("lam", [0.25, 0.5, 0.75])
def test_the_reply_gives_the_personal_model_away(lam: float) -> None:
    one = client([lam])
    assert one.shares_personal
    reply, state = worked(one, 1.0, 4.0, 5.0, 2.0, -3.0)
    guessed = 1.0 + lam / (1 - lam) * reply.update.item()
    assert state[0].item() == pytest.approx(guessed, abs=1e-13)


def test_how_long_and_with_which_rate() -> None:
    work, own = Budget(steps=7), Budget(epochs=2)
    assert mapper(BOWL, by(0.1), by(0.1), None, work).local.budgets == (work,)
    assert mapper(BOWL, by(0.1), by(0.1), own, work).local.budgets == (own,)
    reply, state = worked(client([0.5], own=by(0.3)), 1.0, 4.0, 5.0)
    assert reply.update.item() == pytest.approx(0.125)
    assert state[0].item() == pytest.approx(1.375)


def test_the_schedule_scales_both() -> None:
    one = client([0.5])
    sent, state = Broadcast(number(4.0), number(), 0.5 * ONE), one.init(number(1.0))
    carry = one.local.step(sent, one.local.begin(sent, state), batch(5.0), batch(5.0))
    reply, state = one.local.end(sent, carry, state, batch(0.0))
    assert reply.update.item() == pytest.approx(0.0625)
    assert state[0].item() == pytest.approx(1.0625)


def test_moments_of_v_live_on_and_those_of_w_do_not() -> None:
    one = mapper(
        BOWL,
        by(0.1, "momentum"),
        by(0.1, "momentum"),
        None,
        Budget(1),
        weights=[0.5],
    )
    _, state = worked(one, 1.0, 4.0, 5.0)
    assert state[2].item() == pytest.approx(-1.25)  # ½·g
    sent = Broadcast(number(4.0), number(), ONE)
    carry = one.local.begin(sent, state)
    assert torch.equal(carry[0][2], state[2]) and carry[1][1].item() == 0


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([], "mapper's weights = [] leave nothing to choose; give some in [0, 1]"),
        ([0.5, -0.1], "mapper's weights[1] = -0.1 must lie in [0, 1]: how much of a"),
        ([1.1], "mapper's weights[0] = 1.1 must lie in [0, 1]"),
        ([NAN], "mapper's weights[0] = nan must lie in [0, 1]"),
        ([0.5, INF], "mapper's weights[1] = inf must lie in [0, 1]"),
    ],
)
def test_refusals(weights: list[float], words: str) -> None:
    with pytest.raises(Refusal, match=re.escape(words)) as refusal:
        client(weights)
    assert "\n" not in str(refusal.value)


def test_options_and_references() -> None:
    assert lookup.check("personalizer", "mapper", {}) == {"weights": [0.25, 0.5, 0.75]}
    assert lookup.check("personalizer", "mapper", {"weights": [0, 1]})["weights"] == [
        0.0,
        1.0,
    ]
    [entry] = lookup.about("personalizer", "mapper").citations
    assert entry.startswith("@article{mansour2020three,")
    with pytest.raises(Refusal, match="weights = 0.5 is a number; it must be a list"):
        lookup.check("personalizer", "mapper", {"weights": 0.5})
    with pytest.raises(
        Refusal, match=r"weights\[1\] = 'a' is a text; it must be a num"
    ):
        lookup.check("personalizer", "mapper", {"weights": [0.5, "a"]})


def test_at_convergence_every_client_has_its_own_minimiser() -> None:
    """It is the minimiser of the objective: any weight can reach every model."""
    targets, w, one = [3.0, -1.0, 7.0], number(0.5), client([0.25, 0.5], lr=0.9)
    states = [one.init(w) for _ in targets]
    for _ in range(120):
        sent, updates = Broadcast(w, number(), ONE), []
        for k, x in enumerate(targets):
            carry = one.local.begin(sent, states[k])
            carry = one.local.step(sent, carry, batch(x), batch(x))
            reply, states[k] = one.local.end(sent, carry, states[k], batch(0.0))
            updates.append(reply.update)
        w = w + torch.stack(updates).mean(0)
    found = [one.model(w, state).item() for state in states]
    assert found == pytest.approx(targets, abs=1e-5)


# A federation


def built(wanted: dict[str, Any], plan: Plan) -> build.Built:
    made = build.build(reader.from_dict(wanted), plan=plan)
    for _ in made.federation.train():
        pass
    return made


def models(made: build.Built) -> Tensor:
    f = made.federation
    rows = f.population.read(np.arange(f.population.n))
    return f.engine.models(f.broadcast.w, rows)


@pytest.mark.parametrize(
    ("plan", "model"), [(LOOP, "normed"), (VMAP, "plain"), (THREADS, "normed")]
)
def test_without_an_own_part_it_is_fedavg_bit_for_bit(
    tree: Tree, plan: Plan, model: str
) -> None:
    train = {"optimizer": "momentum", "lr": 0.02}
    found = built(tree(model, {"name": "mapper", "weights": [0.0]}, train=train), plan)
    expected = built(tree(model, "none", train=train), plan)
    w = expected.federation.broadcast.w
    assert torch.equal(found.federation.broadcast.w, w)
    assert torch.equal(models(found), w.expand(6, -1))


@pytest.mark.parametrize(
    ("plan", "model"), [(LOOP, "normed"), (VMAP, "plain"), (THREADS, "normed")]
)
def test_without_a_shared_part_it_is_local_bit_for_bit(
    tree: Tree, plan: Plan, model: str
) -> None:
    found = built(tree(model, {"name": "mapper", "weights": [1.0]}), plan)
    expected = built(tree(model, "local"), plan)
    f = found.federation
    head = f.engine.task.d - f.engine.task.tail
    assert torch.equal(f.broadcast.w[:head], f.population.start[:head])
    asked = f.population.visited
    assert torch.equal(models(found)[asked], models(expected)[asked])
    assert len(asked) == 6


def by_hand(made: build.Built, v: Tensor, slots: Tensor) -> Tensor:
    split = made.data.train
    task.assign(made.network, v)
    x, y = made.data.x[split.row[slots]], split.y[slots]
    return cross_entropy(made.network(x), y)


def gradient(made: build.Built, v: Tensor, slots: Tensor) -> Tensor:
    f = by_hand(made, v, slots)
    found = torch.autograd.grad(f, list(made.network.parameters()))
    return torch.cat([g.reshape(-1) for g in found])


@pytest.mark.parametrize("plan", [LOOP, VMAP, THREADS], ids=lambda p: p.how)
def test_written_out(tree: Tree, plan: Plan) -> None:
    weights = [0.1, 0.5, 0.9]
    own = {"name": "mapper", "weights": weights, "lr": 0.3}
    made = build.build(reader.from_dict(tree("plain", own)), plan=plan)
    f = made.federation
    w = f.broadcast.w.clone()
    v, lams, taken = w.repeat(6, 1), [0.0] * 6, set()
    for r in range(3):
        updates = []
        for k in f.sample(r):
            slots, weight = f.engine.feed.draw(np.array([k]), 5, r)
            copy, total = w.clone(), np.zeros(3)
            for t, row in enumerate(slots[:, 0]):
                held = row[weight[t, 0] > 0]
                # so written equal models mix to the very same: a tie, on any machine
                for i, lam in enumerate(weights):
                    there = copy + lam * (v[k] - copy)
                    total[i] += by_hand(made, there, held).item()
                lam = weights[int(np.argmin(total))]
                g = gradient(made, copy + lam * (v[k] - copy), held)
                v[k], copy = v[k] - 0.3 * lam * g, copy - 0.1 * (1 - lam) * g
                lams[k] = lam
                taken.add(lam)
            updates.append(copy - w)
        w = w + torch.stack(updates).mean(0)  # of all of them, not of the last
    for _ in f.train():
        pass
    lam = torch.tensor(lams, dtype=w.dtype)[:, None]
    assert (f.broadcast.w - w).abs().max() <= 1e-12
    assert (models(made) - (lam * v + (1 - lam) * w)).abs().max() <= 1e-12
    told = f.engine.told(f.population.read(np.arange(6)))
    assert told[:, 0].tolist() == lams
    assert len(taken) >= 2  # it is not the same all the time


@pytest.mark.parametrize(
    ("plan", "own"),
    [(VMAP, {"steps": 3}), (THREADS, {"epochs": 1, "optimizer": "momentum"})],
)
def test_plans_agree(tree: Tree, plan: Plan, own: dict[str, Any]) -> None:
    train = {"steps": 3, "rounds": 2}
    wanted = tree("normed", {"name": "mapper", **own}, train=train)
    found, expected = built(wanted, plan), built(wanted, LOOP)
    assert (models(found) - models(expected)).abs().max() <= 1e-11
    w = expected.federation.broadcast.w
    assert (found.federation.broadcast.w - w).abs().max() <= 1e-11


def test_statistics_are_those_of_the_mixed_model(tree: Tree) -> None:
    """Of positive variance, and not between those of v and of w."""
    made = built(tree("normed", "mapper"), LOOP)
    f = made.federation
    tail = f.engine.task.tail
    own = f.engine.packing.unpack(f.population.read(np.arange(6)))[0]
    assert torch.equal(models(made)[:, -tail:], own[:, -tail:])
    assert not torch.equal(own[0, -tail:], f.broadcast.w[-tail:])


def test_a_solver_is_refused(tree: Tree) -> None:
    wanted = tree("plain", "mapper", solver="fedprox")
    with pytest.raises(Refusal, match="'mapper' makes the client's update itself"):
        build.build(reader.from_dict(wanted), plan=LOOP)


# A run


def as_run(tree: Tree) -> dict[str, Any]:
    engine = {"device": "cpu", "how": "threads", "workers": 2}
    train = {"cohort": 2, "rounds": 3, "precision": "float32"}
    own = {"name": "mapper", "weights": [0.1, 0.7]}
    wanted = tree("plain", own, train=train, engine=engine)
    return wanted | {"checkpoint": {"every": 1}}


def test_clients_csv_has_the_weight(tree: Tree, tmp_path: Path) -> None:
    [run] = troth.run(as_run(tree), out=tmp_path / "run")
    weight, asked = run.clients["weight"], run.clients["asked"] > 0
    assert not asked.all()
    assert {*weight[asked].tolist()} <= {0.1, 0.7}  # not float32's 0.1
    assert {*weight[~asked].tolist()} == {0.0}
    shared = task.flatten(run.shared())
    for k in range(6):
        same = torch.equal(task.flatten(run.model(k)), shared)
        assert same != bool(asked[k])


def test_resumed_it_gives_the_same_bytes(tree: Tree, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(progress: Any) -> None:
        if progress.done == 2:
            raise Killed

    troth.run(as_run(tree), out=tmp_path / "whole")
    with pytest.raises(Killed):
        troth.run(as_run(tree), out=tmp_path / "cut", watch=kill)
    troth.resume(tmp_path / "cut")
    for name in (files.CLIENTS, files.ROUNDS, files.SHARED, files.PERSONAL):
        whole, cut = (tmp_path / part / name for part in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes(), name
