"""The counter-gradient attack, and Theorem 4."""

from typing import Any

import clients_sent
import numpy as np
import pytest
import torch

from troth import build
from troth.config import reader
from troth.engine.engine import Plan
from troth.server import rulebook
from troth.server.attacks.counter_gradient import counter_gradient
from troth.types import Broadcast, Refusal

F64 = torch.float64


@pytest.fixture
def target(tmp_path):
    file = tmp_path / "target.npy"
    np.save(file, np.array([3.0, -1.0]))
    return str(file)


def sent(*rows):
    return clients_sent.messages(torch.tensor(rows, dtype=F64))


def told(w):
    return Broadcast(w, w[:0], torch.ones((), dtype=F64))


def played(target, others, k, rounds, **options):
    """Others send the same in every round; the server adds eta times the sum."""
    w, memory, found = torch.zeros(2, dtype=F64), torch.zeros(0), []
    rows = sent(*others, *[[9.0, 9.0]] * k)
    hostile = torch.arange(len(others) + k) >= len(others)
    for r in rounds:
        messages, memory = counter_gradient(
            rows, hostile, told(w), r, memory, target=target, over="sum", **options
        )
        assert torch.equal(messages.update[~hostile], rows.update[~hostile])
        w = w + options["eta"] * messages.update.sum(0)
        found.append(w)
    return found


@pytest.mark.parametrize("k", [1, 3])
def test_against_steady_clients_it_arrives_in_two_rounds(target, k):
    first, *rest = played(target, [[0.3, 0.2], [-1.0, 0.5]], k, [0, 1, 2], eta=0.1)
    wanted = torch.tensor([3.0, -1.0], dtype=F64)
    steady = torch.tensor([-0.7, 0.7], dtype=F64)  # not known in the first round
    assert torch.allclose(first, wanted + 0.1 * steady, rtol=0, atol=1e-12)
    for w in rest:
        assert torch.allclose(w, wanted, rtol=0, atol=1e-12)


def test_it_goes_no_further_than_the_radius(target):
    found = played(target, [[0.0, 0.0]], 1, [0, 1], eta=0.1, radius=2.0)
    way = torch.tensor([3.0, -1.0], dtype=F64)
    assert torch.allclose(found[0], 0.2 * way / way.norm(), rtol=0, atol=1e-12)
    assert torch.allclose(found[1], 0.4 * way / way.norm(), rtol=0, atol=1e-12)


def test_after_a_round_without_it_the_last_estimate_is_used(target):
    """The way of two rounds would be taken for that of one."""
    found = played(target, [[0.4, -0.2]], 1, [0, 1, 3], eta=0.1)
    wanted = torch.tensor([3.0, -1.0], dtype=F64)
    assert torch.allclose(found[2], wanted, rtol=0, atol=1e-12)
    moved = played(target, [[0.4, -0.2]], 1, [0, 2], eta=0.1)
    assert not torch.allclose(moved[1], wanted, rtol=0, atol=1e-3)  # none was made


def test_a_mean_divides_by_all_rows(target):
    hostile = torch.tensor([False, False, True])
    w = torch.zeros(2, dtype=F64)
    rows = sent([0.0, 0.0], [0.0, 0.0], [1.0, 1.0])
    options: dict[str, Any] = {"target": target, "eta": 0.5, "over": "mean"}
    found, _ = counter_gradient(rows, hostile, told(w), 0, torch.zeros(0), **options)
    moved = 0.5 * found.update.mean(0)
    assert torch.allclose(moved, torch.tensor([3.0, -1.0], dtype=F64))


def test_the_variant_against_local_models_by_hand(target):
    """PROTOCOL of the authors: g = (ρ − θ†)/η − ĝ − ĝ/(λHη), in updates u = −g."""
    others = [[0.4, -0.2], [0.1, 0.1]]
    options: dict[str, Any] = {"eta": 0.1, "aim": "local", "lam": 2.0}
    first, second = played(target, others, 1, [0, 1], **options)
    wanted = torch.tensor([3.0, -1.0], dtype=F64)
    ahead = torch.tensor(others, dtype=F64).sum(0)
    assert torch.allclose(first, wanted + 0.1 * ahead)
    u = (wanted - first) / 0.1 - ahead - ahead / (2.0 * 2 * 0.1)
    assert torch.allclose(second, first + 0.1 * (u + ahead))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"aim": "local"}, "lam = 'auto' is known only with personalizer 'coupled'"),
        ({"target": "nowhere.npy"}, "there is no target 'nowhere.npy'"),
    ],
)
def test_refusals(target, options, words):
    rows, w = sent([1.0, 2.0]), told(torch.zeros(2, dtype=F64))
    given = {"target": target, **options}
    with pytest.raises(Refusal, match=words):
        counter_gradient(rows, torch.tensor([True]), w, 0, torch.zeros(0), **given)


@pytest.mark.parametrize("content", ["size", "nan", "text", "no array"])
def test_a_target_that_does_not_fit(tmp_path, content):
    file = tmp_path / "t.npz"
    if content == "size":
        np.savez(file, target=np.zeros(3))
    elif content == "nan":
        np.savez(file, target=np.array([np.nan, 0]))
    elif content == "text":
        file.write_text("no numbers")
    else:
        np.savez(file, other=np.zeros(2))
    words = {"size": "has 3 numbers, and this model has 2", "nan": "is not finite"}
    rows, w = sent([1.0, 2.0]), told(torch.zeros(2, dtype=F64))
    with pytest.raises(Refusal, match=words.get(content, "holds no target")):
        counter_gradient(
            rows, torch.tensor([True]), w, 0, torch.zeros(0), target=str(file)
        )


def test_what_others_really_sent(target):
    """knows = "others": that of the round before, and no inference from ρ."""
    others, w = [[0.3, 0.2], [-1.0, 0.5]], torch.zeros(2, dtype=F64)
    hostile = torch.tensor([False, False, True])
    wanted = torch.tensor([3.0, -1.0], dtype=F64)
    memory = torch.zeros(0)
    for round_ in range(3):
        scale = 1.0 + round_  # the others change, the shared model does not move
        rows = sent(*([scale * a for a in o] for o in others), [9.0, 9.0])
        options: Any = {"target": target, "over": "sum", "eta": 0.1}
        found, memory = counter_gradient(
            rows, hostile, told(w), round_, memory, knows="others", **options
        )
        before = round_ * torch.tensor([-0.7, 0.7], dtype=F64)
        torch.testing.assert_close(found.update[2], (wanted - w) / 0.1 - before)


def test_at_half_the_pace_half_of_what_is_left_is_gone_each_round(target):
    found = played(target, [[0.0, 0.0]], 1, [0, 1, 2], eta=0.1, pace=0.5)
    wanted = torch.tensor([3.0, -1.0], dtype=F64)
    for w, left in zip(found, (0.5, 0.25, 0.125), strict=True):
        torch.testing.assert_close(wanted - w, left * wanted, rtol=0, atol=1e-12)


def test_without_inference_the_estimate_stays_0(target):
    found = played(target, [[0.4, -0.2]], 1, [0, 1, 2], eta=0.1, infers=False)
    wanted = torch.tensor([3.04, -1.02], dtype=F64)
    for w in found:
        torch.testing.assert_close(w, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({}, (True, "sum", 1 / 12)),
        ({"aggregator": "mean"}, (True, "mean", 1 / 12)),
        ({"aggregator": "median"}, (False, "mean", 1 / 12)),
        ({"server": {"name": "sgd", "lr": 0.1, "momentum": 0.5}}, (False, "sum", 0.1)),
        ({"server": {"name": "adam", "lr": 0.2}}, (False, "sum", 0.2)),
    ],
)
def test_what_it_knows_comes_from_the_experiment(tmp_path, sections, expected):
    tree, _ = federation(tmp_path, "linear", 0)
    regularizer = {"regularizer": "l2", "filter": ["plausible"]}
    e = reader.from_dict(tree | sections | regularizer)
    made = rulebook.of(e, 0)
    known = made.attack.options
    assert tuple(known[k] for k in ("infers", "over", "eta")) == expected
    assert known["lam"] == 1.0 and known["radius"] == 1.0  # λ times l2's reach
    assert made.filters[1].options["radius"] == 1.0
    local = tree | {"personalizer": "local", "regularizer": "l2"}
    options = rulebook.of(reader.from_dict(local), 0).attack.options
    assert (options["lam"], options["radius"]) == ("auto", "auto")


# Theorem 4


def federation(tmp_path, kind, seed):
    """Honest clients, one attacker, exact local solves, η ≤ 1/(3L)."""
    random = np.random.default_rng(seed)
    n, d, lam = 4, 3, 1.0
    owner = np.repeat(np.arange(n), 20)
    x = random.normal(size=(len(owner), d))
    z = (x * random.normal(size=(n, d))[owner]).sum(1)
    y = (random.random(len(z)) < 1 / (1 + np.exp(-z))).astype(np.int64)
    split = np.zeros(len(owner), np.int8)
    split[::5] = 2
    path, wanted = tmp_path / f"{kind}.npz", tmp_path / f"{kind}.npy"
    np.savez(path, x=x, y=z if kind == "linear" else y, owner=owner, split=split)
    size = d + 1 if kind == "linear" else 2 * (d + 1)
    goal = random.normal(size=size)
    np.save(wanted, goal)
    tree = {
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "split": "given"},
        "model": {"name": "linear", "normalize": "none"},
        "train": {"rounds": 60, "batch": 0, "precision": "float64"},
        "personalizer": {
            "name": "coupled",
            "solve": "exact",
            "lam": lam,
            "nu": 0.05,
            "steps": 8,
        },
        "aggregator": "sum",
        "server": {"name": "sgd", "lr": 1 / (3 * lam * n)},  # ∇²Loss(ρ) ≤ λ·n
        "adversary": {"clients": [0]},
        "corruption": "none",
        "attack": {"name": "counter_gradient", "target": str(wanted)},
        "engine": {"device": "cpu"},
    }
    return tree, goal


@pytest.mark.slow("sixty rounds of exact local solves")
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_theorem_4(tmp_path, kind):
    """ρ reaches the target to 1e-6, and geometrically."""
    tree, goal = federation(tmp_path, kind, 0)
    built = build.build(reader.from_dict(tree), plan=Plan("vmap", 4))
    wanted = torch.from_numpy(goal)
    away = [float((r.broadcast.w - wanted).norm()) for r in built.federation.train()]
    assert away[-1] <= 1e-6
    rates = np.diff(np.log([a for a in away if a > 1e-9]))
    assert rates[5:].mean() < -0.05
