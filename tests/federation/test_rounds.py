"""Rounds: what is sent, what the rules make of it, and what stays."""

import importlib
import math
import sys
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from troth.engine.local_training import Plan
from troth.networks import task
from troth.types import Record, Refusal

N, COHORT = 6, 4

MODULE = """
import torch


def nan(messages, hostile, *, value: float = float("nan")):
    update = messages.update.clone()
    update[hostile, 0] = value
    return messages._replace(update=update)


def everyone_nan(messages):
    return messages._replace(update=messages.update * float("nan"))


def jealous(messages, loss):
    return messages._replace(update=messages.update * (1 + loss[:, None]))


seen = []


def look(messages):
    seen.append(messages)
    return messages


def nobody(messages):
    return type(messages)(*(field[:0] for field in messages))


def heavy_ball(broadcast, step, memory):
    memory = step if memory.numel() == 0 else 0.5 * memory + step
    return broadcast.w + memory, memory


def curious(broadcast, step, messages):
    return broadcast.w + step * len(messages.client)


def by_loss(messages, loss):
    return (messages.update * loss[:, None]).sum(0)


keys = []


def noisy(messages, key, round_):
    keys.append((int(round_), int(key)))
    return messages.update.mean(0)
"""


@pytest.fixture
def mod(tmp_path, monkeypatch):
    """Rules of somebody else, named `guests.mod:function`."""
    (tmp_path / "guests").mkdir()
    (tmp_path / "guests" / "mod.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("guests.mod")
    for name in ("guests.mod", "guests"):
        sys.modules.pop(name, None)


@pytest.fixture
def made(built):
    """Makes federations that train four rounds."""

    def make(**sections):
        four = {"rounds": 4} | sections.pop("train", {})
        return built(train=four, **sections).federation

    return make


def test_a_record_says_what_happened(made):
    federation = made(personalizer="ditto")
    before = federation.broadcast.w.clone()
    for r, record in enumerate(federation.train()):
        assert isinstance(record, Record)
        assert (record.round, federation.round) == (r, r + 1)
        assert record.cohort.tolist() == federation.sample(r).tolist()
        assert record.messages.client.tolist() == record.cohort.tolist()
        assert record.messages.update.shape == (COHORT, len(before))
        assert record.dropped == {}
        step = record.broadcast.w - before
        assert record.moved == pytest.approx(float(step.norm()), rel=1e-12)
        assert record.moved > 0
        assert torch.allclose(step, record.messages.update.mean(0), 0, 1e-14)
        assert record.broadcast is federation.broadcast
        before = record.broadcast.w.clone()
    assert federation.round == 4
    assert [*federation.train()] == []  # finished


def test_stopping_and_going_on_changes_nothing(made):
    whole, parts = made(), made()
    assert len([*whole.train()]) == 4
    assert len([*islice(parts.train(), 2), *parts.train()]) == 4
    assert torch.equal(whole.broadcast.w, parts.broadcast.w)


def test_a_schedule_scales_the_round(made):
    train = {"schedule": {"name": "cosine"}, "rounds": 2}
    federation = made(train=train)
    scales = [float(record.broadcast.scale) for record in federation.train()]
    assert scales == [1.0, pytest.approx(0.5)]
    assert [made(train=train).scale(r) for r in range(2)] == scales


@pytest.mark.parametrize("personalizer", ["local", "ditto"])
def test_a_client_asked_late_starts_from_the_first_shared_model(made, personalizer):
    federation = made(train={"cohort": 1}, personalizer=personalizer)
    engine = federation.engine
    start, fresh = engine.start(federation.broadcast.w), []
    for r in range(4):
        before, ids = federation.broadcast, federation.sample(r)
        new = ids[0] not in federation.population.visited
        federation.step()
        if new:
            fresh.append(r)
            _, row = engine.run("local", before, start[None], ids, r)
            assert torch.equal(federation.population.read(ids), row)
    assert len(fresh) > 1  # the first, and others late
    never = np.setdiff1d(np.arange(N), federation.population.visited)
    assert len(never) > 0
    assert all(torch.equal(row, start) for row in federation.population.read(never))


def hostile_in(federation, record):
    """The malicious clients of a round's cohort, and the others."""
    cohort = record.cohort.tolist()
    bad = [k for k in cohort if federation.hostile[k]]
    return bad, [k for k in cohort if k not in bad]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_never_reaches_the_model(made, mod, value):
    federation = made(
        adversary={"count": 2},
        attack={"name": "guests.mod:nan", "value": value},
        filter=["guests.mod:look"],
    )
    mod.seen.clear()  # of what the build tried out
    dropped = 0
    for record in federation.train():
        bad, benign = hostile_in(federation, record)
        dropped += len(bad)
        assert record.dropped == ({"drop_invalid": bad} if bad else {})
        assert record.messages.client.tolist() == benign
        assert record.messages.update.isfinite().all()
        assert record.broadcast.w.isfinite().all()
        assert mod.seen[-1].client.tolist() == benign  # drop_invalid comes first
    assert dropped > 0


@pytest.mark.parametrize(
    "sections",
    [
        {"attack": "guests.mod:everyone_nan", "adversary": {"count": 1}},
        {"filter": ["guests.mod:nobody"]},
        {"filter": ["guests.mod:nobody"], "server": "guests.mod:heavy_ball"},
    ],
)
def test_when_all_are_dropped_the_model_stays_exactly(made, mod, sections):
    federation = made(personalizer="local", **sections)
    w0 = federation.broadcast.w.clone()
    for record in federation.train():
        assert torch.equal(record.broadcast.w, w0) and record.moved == 0
        assert len(record.messages.client) == 0
        assert sum(map(len, record.dropped.values())) == COHORT
        rows = federation.population.read(record.cohort)  # personal work went on
        assert (rows - w0).abs().amax(1).min() > 0


def test_losses_are_those_of_the_shared_model_on_all_training_data(made, built, mod):
    assert not made().serving.asks_loss
    ready = built(aggregator="guests.mod:by_loss")
    federation, data = ready.federation, ready.data
    assert federation.serving.asks_loss
    for _ in range(2):
        w = federation.broadcast.w
        record = federation.step()
        task.assign(ready.network, w)
        for k, found in zip(record.cohort, record.messages.loss, strict=True):
            own = slice(
                first := int(data.train.start[k]), first + int(data.train.size[k])
            )
            x, y = data.x[data.train.row[own]], data.train.y[own]
            expected = cross_entropy(ready.network(x), y).detach()
            assert float(found) == pytest.approx(float(expected), abs=1e-12)
        weighted = record.messages.update * record.messages.loss[:, None].double()
        assert torch.allclose(record.broadcast.w, w + weighted.sum(0), 0, 1e-12)


@pytest.mark.parametrize(
    "sections",
    [
        {"attack": "guests.mod:jealous", "adversary": {"count": 1}},
        {"server": "guests.mod:curious"},
    ],
)
def test_a_rule_that_asks_for_too_much_is_refused_before_the_first_round(
    made, mod, sections
):
    with pytest.raises(Refusal):
        made(**sections)


def test_every_round_and_run_has_its_key(made, mod):
    drawn = []
    for seed in (0, 1, 0):
        federation = made(seed=seed, aggregator="guests.mod:noisy")
        mod.keys.clear()  # of what the build tried out
        assert [record.round for record in federation.train()] == [0, 1, 2, 3]
        drawn.append([*mod.keys])
    assert [r for r, _ in drawn[0]] == [0, 1, 2, 3]
    assert len({key for _, key in drawn[0] + drawn[1]}) == 8
    assert drawn[2] == drawn[0]


def test_the_attack_sees_who_is_hostile_in_the_cohort(made):
    bad = {"adversary": {"clients": [1, 4]}}
    record, plain = made(**bad, attack="model_replacement").step(), made(**bad).step()
    times = [COHORT if k in (1, 4) else 1 for k in record.cohort]
    expected = torch.tensor(times)[:, None] * plain.messages.update
    assert torch.allclose(record.messages.update, expected, 0, 1e-14)


def finetuned(ready, k, steps, rounds):
    data, feed = ready.data, ready.federation.engine.feed
    v = ready.federation.broadcast.w.clone()
    slots, weight = feed.draw(np.array([k]), steps, rounds)
    for row, part in zip(slots[:, 0], weight[:, 0], strict=True):
        own = row[part > 0]
        task.assign(ready.network, v)
        x, y = data.x[data.train.row[own]], data.train.y[own]
        loss = cross_entropy(ready.network(x), y)
        found = torch.autograd.grad(loss, list(ready.network.parameters()))
        v = v - 0.1 * torch.cat([g.reshape(-1) for g in found])
    return v


@pytest.mark.parametrize(
    "plan", [Plan("loop", 1), Plan("vmap", 2), Plan("threads", 1, 2)]
)
@pytest.mark.parametrize(("chunk", "sizes"), [(4, [4, 2]), (100, [6])])
def test_finish_works_on_every_client_once(built, plan, chunk, sizes):
    tuned = {"name": "finetune", "steps": 3, "lr": 0.1}
    ready = built(plan, personalizer=tuned, train={"rounds": 2})
    federation = ready.federation
    assert len([*federation.train()]) == 2
    w = federation.broadcast.w.clone()
    assert [*federation.finish(chunk)] == sizes
    assert torch.equal(federation.broadcast.w, w)
    expected = torch.stack([finetuned(ready, k, 3, 2) for k in range(N)])
    found = federation.engine.models(w, federation.population.read(np.arange(N)))
    assert torch.allclose(found, expected, 0, 1e-12)


@pytest.mark.parametrize(("device", "drawn"), [("cuda", [1, 2, 3]), ("cpu", [])])
def test_on_a_gpu_the_next_round_is_drawn_while_one_is_computed(made, device, drawn):
    f, asked = made(), []

    def draw_ahead(name, ids, round_, limit):
        assert (name, limit) == ("local", None)
        assert ids.tolist() == f.sample(round_).tolist()
        asked.append(round_)

    f.engine = SimpleNamespace(device=torch.device(device), draw_ahead=draw_ahead)
    for f.round in range(4):
        f._draw_ahead()
    assert asked == drawn
