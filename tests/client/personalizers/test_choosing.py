"""λ chosen by each client: `ditto` with lam = "auto", by all three rules."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import troth
from troth.client.personalizers._choosing import Asked, _choice, largest, lowest, tried
from troth.client.personalizers.ditto import ditto
from troth.client.personalizers.local import local
from troth.client.regularizers.l2sq import l2sq
from troth.config import reader
from troth.engine.local_training import Plan
from troth.runs import results
from troth.types import Anchor

from ..hand import BOWL, INF, NAN, ONE, OPTIMIZERS, batch, by, number
from ..small import (
    LOOP,
    PLANS,
    THREADS,
    agrees,
    built,
    gradient,
    loss,
    models,
    on_file,
    own,
    rows,
    states,
    told,
    written_out,
)

RULES = ("side_by_side", "paper", "code")


# One client by itself


def auto(rule, candidates, fallback, **more):
    how = more.pop("descent", by(0.1))
    options = {"lam": "auto", "choose": rule, "candidates": candidates} | more
    return ditto(BOWL, how, l2sq(), fallback=fallback, **options)


def rounds(one, ws, valid, steps=3, x=5.0):
    """The state, as it is read, after a round beside each of these shared models."""
    state = one.init(number(1.0))
    for r, w in enumerate(ws):
        anchor = Anchor(number(w), number(w + 1), number(w))
        for t in range(steps):
            state = one.step(state, anchor, batch(x + r, x - t), valid, ONE)
    return one.settle(state, valid) if one.settle else state


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("anchor", ["shared", "moving"])
@pytest.mark.parametrize("lam", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("rule", RULES)
def test_a_single_candidate_is_that_lam_exactly(rule, lam, anchor, optimizer):
    how, ws = by(0.1, optimizer), [4.0, -3.0, 0.5]
    fixed = ditto(BOWL, how, l2sq(), lam=lam, anchor=anchor)
    one = auto(rule, [lam], lam, anchor=anchor, descent=how)
    for valid in (batch(2.0, 3.0, 1.0, 0.0, 7.0), batch(padding=3)):
        found, expected = rounds(one, ws, valid), rounds(fixed, ws, valid)
        assert torch.equal(one.model(ONE, found), fixed.model(ONE, expected))
        assert one.tell(found).tolist() == [lam]


@pytest.mark.parametrize("rule", ["side_by_side", "code"])
def test_a_choice_by_hand(rule):
    # from v = 1, w = 4, x = 5, lr = 0.1: λ = 0 → 1.4, λ = 2 → 2, λ = 5 → 2.9
    one, w = auto(rule, [5.0, 0.0, 2.0], 0.0), number(4.0)
    state = one.init(number(1.0))
    assert one.tell(state).tolist() == [0.0]
    state = one.step(state, Anchor(w, w, w), batch(5.0), batch(2.2), ONE)
    state = one.settle(state, batch(2.2)) if one.settle else state
    assert one.tell(state).tolist() == [2.0]
    assert one.model(w, state).item() == pytest.approx(2.0, abs=1e-14)


@pytest.mark.parametrize(("lam", "valid"), [(0.0, 1.4), (2.0, 2.0), (5.0, 2.9)])
def test_the_code_rule_keeps_the_moments_of_its_choice(lam, valid):
    heavy, w, b = by(0.1, "momentum"), number(4.0), batch(5.0)
    one = auto("code", [0.0, 2.0, 5.0], 1.0, descent=heavy)
    fixed = ditto(BOWL, heavy, l2sq(), lam=lam)
    state = one.step(one.init(number(1.0)), Anchor(w, w, w), b, batch(valid), ONE)
    expected = fixed.step(fixed.init(number(1.0)), Anchor(w, w, w), b, b, ONE)
    assert state[:2] == expected and one.tell(state).tolist() == [lam]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("far", [INF, -INF, NAN])
def test_without_pull_no_shared_model_does_harm(rule, far):
    """λ = 0 among the candidates: its model is `local`'s, and it is chosen."""
    valid = batch(900.0, 901.0, 902.0, 903.0)  # a loss that is large, and finite
    one, alone = auto(rule, [0.0, 0.5, 2.0], 1.0), local(BOWL, by(0.1))
    found = rounds(one, [far, far], valid)
    expected = rounds(alone, [far, far], valid)
    assert torch.equal(one.model(ONE, found), alone.model(ONE, expected))
    assert one.model(ONE, found).isfinite().all()
    assert one.tell(found).tolist() == [0.0]


LOSSES = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([NAN, INF, -INF, 0.0, 1.0]))


@settings(max_examples=200, deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=6), st.integers(0, 7), st.data())
def test_the_choice_by_an_oracle(found, n, data):
    """Of the finite losses the lowest, the first of equals; else the fallback."""
    candidates = [0.5 * (i + 1) for i in range(len(found))]
    fallback = data.draw(st.sampled_from([*candidates, 0.25, 99.0]))
    rule, few = data.draw(st.sampled_from(RULES)), data.draw(st.integers(0, 5))
    shuffled = data.draw(st.permutations([*candidates, *candidates[:2]]))
    asked = Asked(rule, shuffled, fallback, few, "shared")
    task = BOWL._replace(loss=lambda v, b: v[0])  # a model is its own loss
    models = [number(one) for one in found]
    models += [number(-1e9)] * (fallback not in candidates)
    chosen = asked.lams[int(_choice(models, task, batch(*[1.0] * n), asked))]
    pairs = zip(found, candidates, strict=True)
    able = [(one, lam) for one, lam in pairs if math.isfinite(one)]
    tells = n >= (max(1, few) if rule == "paper" else 1)
    assert chosen == (min(able)[1] if able and tells else fallback)


@settings(max_examples=200, deadline=None)
@given(st.lists(LOSSES, min_size=1, max_size=6))
def test_the_lowest_loss_by_an_oracle(found):
    """Of the finite losses the lowest, the last of equals; else the last."""
    able = [(-one, i) for i, one in enumerate(found) if math.isfinite(one)]
    chosen = int(lowest(torch.tensor(found, dtype=torch.float64)))
    assert chosen == (max(able)[1] if able else len(found) - 1)


# A federation


TRAIN, VALID = [5, 9, 16, 26, 2, 14, 21], [0, 1, 3, 4, 7, 9, 2]  # of each client
COHORT = 5
CANDIDATES, FALLBACK = [0.0, 0.4, 3.0], 1.0


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Pictures in three classes; some clients' labels are at odds with the others'."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "clients.npz"
    sizes = [(a, b, 4) for a, b in zip(TRAIN, VALID, strict=True)]
    owner = np.repeat(np.arange(len(sizes)), [sum(size) for size in sizes])
    split = np.concatenate([np.repeat([0, 1, 2], size) for size in sizes])
    x = random.integers(0, 256, (len(owner), 6, 6), dtype=np.uint8)
    y = (x[:, 0, :3].argmax(1) + owner % 2) % 3
    np.savez(path, x=x, y=y, owner=owner, split=split.astype(np.int8))
    return path


def tree(data, options, **sections):
    """An experiment; `options` are the personalizer's."""
    train = {"rounds": 4, "cohort": COHORT, "batch": 4, "lr": 0.1, "steps": 4}
    attack = {"adversary": {"fraction": 0.2}, "attack": "model_replacement"}
    usual = {"seed": 3, "model": "linear"} | attack
    return on_file(data, own("ditto", **options), train, **usual | sections)


def asked(rule, **more):
    auto = {"lam": "auto", "choose": rule, "candidates": CANDIDATES}
    return auto | {"fallback": FALLBACK} | more


def apart(made):
    """Every candidate's models, [n, d] each, and the fallback's."""
    *each, _ = made.federation.engine.packing.unpack(states(made))[1]
    return [v for (v,) in each]


@pytest.mark.slow("a run per candidate")
@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
def test_every_candidate_has_the_model_of_a_run_of_its_own(data, plan):
    """Bit for bit one by one; lifted, sums may be taken in another order."""
    side = built(tree(data, asked("side_by_side")), plan)
    for lam, found in zip([*CANDIDATES, FALLBACK], apart(side), strict=True):
        alone = built(tree(data, {"lam": lam}), plan)
        expected = models(alone)
        assert (expected - alone.federation.population.start).abs().max() > 1e-3
        within = 0 if plan.apart else 1e-12
        assert (found - expected).abs().max() <= within, lam
        assert torch.equal(side.federation.broadcast.w, alone.federation.broadcast.w)


def lams(made):
    return [one for (one,) in told(made)]


def on_valid(made, v, k):
    """The loss of a model on a client's validation data."""
    return loss(made, v, rows(made.data.valid, k), "valid").item()


@pytest.mark.parametrize(("rule", "least"), [("side_by_side", 1), ("paper", 4)])
def test_the_choice_is_the_lowest_validation_loss(data, rule, least):
    side = built(tree(data, asked(rule, few=4)))
    each, visited, chosen = apart(side), side.federation.population.visited, lams(side)
    assert len(visited) >= 6
    for k, best in enumerate(chosen):
        expected = FALLBACK
        if VALID[k] >= least and k in visited:
            losses = [on_valid(side, v[k], k) for v in each[:3]]
            expected = CANDIDATES[int(np.argmin(losses))]
        assert best == expected
        at = [*CANDIDATES, FALLBACK].index(best)
        assert torch.equal(models(side)[k], each[at][k])
    assert len({*chosen}) >= 3  # it is not the same for all


@pytest.mark.parametrize(
    ("rule", "optimizer", "fallback", "many", "width"),
    [  # in units of d, and beside them
        ("side_by_side", "sgd", FALLBACK, 4, 1),
        ("paper", "momentum", FALLBACK, 8, 1),
        ("side_by_side", "adam", 3.0, 9, 4),
        ("code", "adam", FALLBACK, 3, 2),
    ],
)
def test_how_wide_the_state_is(data, rule, optimizer, fallback, many, width):
    wanted = tree(data, asked(rule, optimizer=optimizer, fallback=fallback))
    ready = built(wanted, rounds=0)
    d = ready.federation.engine.task.d
    assert ready.federation.population.width == many * d + width
    assert ready.need.rows == len(TRAIN) * 8 * (many * d + width)
    [auto_], [plain] = troth.cost(wanted), troth.cost(tree(data, {"lam": 1.0}))
    more = (many - 1) * d + width  # kept by all, and moved by the cohort
    assert auto_.memory - plain.memory == 8 * more * (len(TRAIN) + COHORT)
    assert auto_.client_steps == plain.client_steps


def test_unequal_validation_sets_are_traced_in_few_shapes(data):
    """1, 2, 4, 8 and 9 for clients with 0 to 9 examples, and nothing else changes."""
    ready = built(tree(data, asked("side_by_side")), Plan("vmap", 1), 0)
    f = ready.federation
    for k, n in enumerate(VALID):
        ids = np.array([k])
        f.engine.settled(f.population.read(ids), ids)
        padded = f.engine.feed.whole(ids, ready.data.valid, few_shapes=True)
        plain = f.engine.feed.whole(ids, ready.data.valid)
        assert padded.x.shape[1] == {0: 1, 3: 4, 7: 8}.get(n, n)
        assert torch.equal(padded.x[:, : max(1, n)], plain.x)
        assert padded.weight.sum().item() == pytest.approx(1.0 if n else 0.0)


def test_reading_does_not_change_what_is_trained(data):
    """Side by side: settled or not on the way, states and models are the same."""
    wanted, ids = tree(data, asked("side_by_side")), np.arange(len(TRAIN))
    ready = built(wanted, THREADS, 0)
    f = ready.federation
    for _ in f.train():
        before = f.population.read(ids).clone()
        assert not torch.equal(f.engine.settled(before, ids), before)
        results.evaluate(ready)
        assert torch.equal(f.population.read(ids), before)
    assert torch.equal(states(ready), states(built(wanted, THREADS)))


# A run on disk


@pytest.mark.parametrize(("plan", "anchor"), [(THREADS, "shared"), (LOOP, "moving")])
def test_the_code_rule_written_out(data, plan, anchor):
    """Every step: a step with each candidate, and the one that validates best."""
    made = built(tree(data, asked("code", anchor=anchor)), plan, 0)
    v = made.federation.broadcast.w.repeat(len(TRAIN), 1)
    chosen, taken = [FALLBACK] * len(TRAIN), set()

    def local(k, w, r, slots):
        moving = w
        for held in slots:
            moving = moving - 0.1 * gradient(made, moving, held)
            pull = v[k] - (w if anchor == "shared" else moving)
            g, lam = gradient(made, v[k], held), FALLBACK
            if VALID[k]:
                tried = {c: v[k] - 0.1 * (g + c * pull) for c in CANDIDATES}
                lam = min(tried, key=lambda c: on_valid(made, tried[c], k))
            v[k] = v[k] - 0.1 * (g + lam * pull)
            chosen[k] = lam
            taken.add(lam)
        return (COHORT if made.hostile[k] else 1) * (moving - w)

    agrees(made, written_out(made, local), v)
    assert lams(made) == chosen
    assert len(taken) >= 3  # it is not the same λ all the time


@pytest.mark.parametrize("rule", RULES)
def test_clients_csv_has_what_was_chosen(data, rule, tmp_path):
    wanted = tree(
        data,
        asked(rule, candidates=[0.1, 2.0, 0.0]),
        train={"precision": "float32", "rounds": 3, "cohort": 2},
        engine={"how": "threads", "workers": 2, "device": "cpu"},
    )
    [run] = troth.run(wanted, out=tmp_path / "run")
    lam, asked_ = run.clients["lam"], run.clients["asked"] > 0
    assert not asked_.all() and {*lam[~asked_].tolist()} == {FALLBACK}
    assert {*lam.tolist()} <= {0.1, 2.0, 0.0, FALLBACK}  # 0.1, not float32's 0.1
    assert len({*lam.tolist()}) >= 2
    ready = built(wanted, THREADS)
    assert lam.tolist() == lams(ready)
    # what the table and the last round's evaluation say is of that model
    table = results.evaluate(ready)["personal"]
    assert run.clients["loss"].tolist() == table["loss"].tolist()
    benign = ~run.clients["malicious"].astype(bool)
    last = run.rounds[-1]["evaluation"]["personal"]["accuracy_mean"]
    assert last == pytest.approx(run.clients["accuracy"][benign].mean())


def test_clients_are_asked_some_at_a_time(data, monkeypatch):
    ready = built(tree(data, asked("code")))
    for many in (results._NUMBERS, 2 * ready.federation.population.width):
        monkeypatch.setattr(results, "_NUMBERS", many)
        found = results._revealed(ready.federation)["lam"]
        assert found.dtype == np.float64 and found.tolist() == lams(ready)


# How it is said


def test_in_a_file_by_override_and_in_a_grid(data, tmp_path):
    file, wanted = tmp_path / "experiment.toml", tree(data, asked("code"))
    file.write_text(reader.dumps(wanted))
    assert 'lam = "auto"' in file.read_text()
    full = reader.from_dict(reader.read(file))
    again = reader.parse(reader.dumps(reader.to_dict(full)), "")
    assert reader.from_dict(again) == full
    for text in ("auto", "'auto'", "0.25"):
        back = reader.override(wanted, [f"personalizer.lam={text}"])
        lam = reader.from_dict(back).personalizer.options["lam"]
        assert lam == (0.25 if text == "0.25" else "auto")
    how = {"train": {"rounds": 2, "cohort": 3}, "engine": {"how": "loop"}}
    grid = {"personalizer.lam": [0.5, 2, "auto"]}
    runs = troth.run(tree(data, {"lam": 0.5}, grid=grid, **how), out=tmp_path / "grid")
    assert ["lam" in run.clients for run in runs] == [False, False, True]


# The weights of `transfer`


def test_the_last_that_does_not_lower_accuracy():
    right = [torch.tensor(r) for r in (8.0, 9.0, 7.0)]
    for reference, at in ((9.5, 0), (9.0, 1), (8.5, 1), (7.0, 2), (0.0, 2)):
        assert largest(right, torch.tensor(reference)).item() == at
    many = [torch.tensor([3.0, 1.0]), torch.tensor([2.0, 1.0])]
    assert largest(many, torch.tensor([3.0, 1.0])).tolist() == [0, 1]


def test_pairs_from_weak_to_strong():
    every = [(0.1, 0.1), (0.1, 1.0), (1.0, 0.1), (1.0, 1.0)]
    assert tried("auto", "auto", [1.0, 0.1], by(0.01)) == every
    assert tried("auto", 2.0, [3.0, 0.0], by(0.01)) == [(0, 2), (3, 2)]
    assert tried(0.5, 2.0, [], by(0.01)) == [(0.5, 2)]
