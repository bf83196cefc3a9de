"""The counter-gradient attack, and Theorem 4."""

import clients_sent
import numpy as np
import pytest
import torch
from clients_sent import broadcast, natural

from troth import build
from troth.config import reader
from troth.engine.local_training import Plan
from troth.server import rules
from troth.server.attacks.counter_gradient import counter_gradient
from troth.types import Refusal

F64 = torch.float64
WANTED = torch.tensor([3.0, -1.0], dtype=F64)
ZERO = torch.zeros(2, dtype=F64)


@pytest.fixture
def target(tmp_path):
    np.save(tmp_path / "target.npy", WANTED)
    return str(tmp_path / "target.npy")


def attacked(rows, hostile, w=ZERO, round_=0, memory=ZERO[:0], **options):
    sent = clients_sent.messages(torch.tensor(rows, dtype=F64))
    return counter_gradient(sent, hostile, broadcast(w), round_, memory, **options)


def played(target, others, k, rounds, eta=0.1, **options):
    """Others send the same in every round; the server adds eta times the sum."""
    w, memory, found = ZERO, ZERO[:0], []
    hostile, rows = (
        torch.arange(len(others) + k) >= len(others),
        others + [[9.0] * 2] * k,
    )
    options |= {"target": target, "over": "sum", "eta": eta}
    for r in rounds:
        messages, memory = attacked(rows, hostile, w, r, memory, **options)
        assert messages.update[~hostile].tolist() == others
        w = w + eta * messages.update.sum(0)
        found.append(w)
    return torch.stack(found)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_against_steady_clients_it_arrives_in_two_rounds(target, k):
    found = played(target, [[0.3, 0.2], [-1.0, 0.5]], k, [0, 1, 2])
    steady = torch.tensor([-0.7, 0.7], dtype=F64)  # not known in the first round
    close(found, torch.stack([WANTED + 0.1 * steady, WANTED, WANTED]))


def test_it_goes_no_further_than_the_radius(target):
    found = played(target, [[0.0, 0.0]], 1, [0, 1], radius=2.0)
    close(found, torch.tensor([[0.2], [0.4]], dtype=F64) * WANTED / WANTED.norm())


def test_after_a_round_without_it_the_last_estimate_is_used(target):
    """The way of two rounds would be taken for that of one."""
    close(played(target, [[0.4, -0.2]], 1, [0, 1, 3])[2], WANTED)
    moved = played(target, [[0.4, -0.2]], 1, [0, 2])
    assert not torch.allclose(moved[1], WANTED, rtol=0, atol=1e-3)  # none was made


def test_a_mean_divides_by_all_rows(target):
    rows, hostile = [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], torch.arange(3) == 2
    found, _ = attacked(rows, hostile, target=target, eta=0.5, over="mean")
    assert torch.allclose(0.5 * found.update.mean(0), WANTED)


def test_the_variant_against_local_models_by_hand(target):
    """PROTOCOL of the authors: g = (ρ − θ†)/η − ĝ − ĝ/(λHη), in updates u = −g."""
    others = [[0.4, -0.2], [0.1, 0.1]]
    first, second = played(target, others, 1, [0, 1], aim="local", lam=2.0)
    ahead = torch.tensor(others, dtype=F64).sum(0)
    assert torch.allclose(first, WANTED + 0.1 * ahead)
    u = (WANTED - first) / 0.1 - ahead - ahead / (2.0 * 2 * 0.1)
    assert torch.allclose(second, first + 0.1 * (u + ahead))


AUTO = "lam = 'auto' is known only with personalizer 'coupled'"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"target": WANTED}, AUTO),
        ({"target": np.zeros(3)}, "has 3 numbers, and this model has 2"),
        ({"target": np.array([np.nan, 0])}, "is not finite"),
        ({"other": np.zeros(2)}, "holds no target"),
        ("no numbers", "holds no target"),
        (None, "there is no target '.*t.npz'"),
    ],
)
def test_refusals(tmp_path, content, words):
    file = tmp_path / "t.npz"
    if isinstance(content, dict):
        np.savez(file, **content)
    elif content:
        file.write_text(content)
    options = {"aim": "local"} if words == AUTO else {}
    with pytest.raises(Refusal, match=words):
        attacked([[1.0, 2.0]], torch.tensor([True]), target=str(file), **options)


def test_what_others_really_sent(target):
    """knows = "others": that of the round before, and no inference from ρ."""
    others = torch.tensor([[0.3, 0.2], [-1.0, 0.5], [9.0, 9.0]], dtype=F64)
    options = {"target": target, "over": "sum", "eta": 0.1, "knows": "others"}
    hostile, memory = torch.arange(3) == 2, ZERO[:0]
    for r in range(3):  # the others change, the shared model does not move
        rows = ((1.0 + r) * others).tolist()
        found, memory = attacked(rows, hostile, ZERO, r, memory, **options)
        before = r * torch.tensor([-0.7, 0.7], dtype=F64)
        torch.testing.assert_close(found.update[2], WANTED / 0.1 - before)


def test_at_half_the_pace_half_of_what_is_left_is_gone_each_round(target):
    found = played(target, [[0.0, 0.0]], 1, [0, 1, 2], pace=0.5)
    left = torch.tensor([[0.5], [0.25], [0.125]], dtype=F64)
    close(WANTED - found, left * WANTED)


def test_without_inference_the_estimate_stays_0(target):
    found = played(target, [[0.4, -0.2]], 1, [0, 1, 2], infers=False)
    close(found, torch.tensor([[3.04, -1.02]] * 3, dtype=F64))


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
    tree = federation(tmp_path, "linear")[0] | {"regularizer": "l2"}
    e = reader.from_dict(tree | sections | {"filter": ["plausible"]})
    made = rules.of(e, 0)
    known = made.attack.options
    assert tuple(known[k] for k in ("infers", "over", "eta")) == expected
    assert known["lam"] == 1.0 and known["radius"] == 1.0  # λ times l2's reach
    assert made.filters[1].options["radius"] == 1.0
    local = reader.from_dict(tree | {"personalizer": "local"})
    options = rules.of(local, 0).attack.options
    assert (options["lam"], options["radius"]) == ("auto", "auto")


# Theorem 4


def federation(tmp_path, kind):
    """Honest clients, one attacker, exact local solves, η ≤ 1/(3L)."""
    random = np.random.default_rng(0)
    n, d, lam = 4, 3, 1.0
    owner = np.repeat(np.arange(n), 20)
    x = random.normal(size=(len(owner), d))
    z = (x * random.normal(size=(n, d))[owner]).sum(1)
    y = (random.random(len(z)) < 1 / (1 + np.exp(-z))).astype(np.int64)
    split = np.where(np.arange(len(owner)) % 5 == 0, 2, 0).astype(np.int8)
    path, wanted = tmp_path / f"{kind}.npz", tmp_path / f"{kind}.npy"
    arrays = {"x": x, "y": z if kind == "linear" else y, "owner": owner, "split": split}
    goal = random.normal(size=d + 1 if kind == "linear" else 2 * (d + 1))
    np.save(wanted, goal)
    exact = {"name": "coupled", "solve": "exact", "lam": lam, "nu": 0.05, "steps": 8}
    tree = natural(path, "given", **arrays) | {
        "model": {"name": "linear", "normalize": "none"},
        "train": {"rounds": 60, "batch": 0, "precision": "float64"},
        "personalizer": exact,
        "aggregator": "sum",
        "server": {"name": "sgd", "lr": 1 / (3 * lam * n)},  # ∇²Loss(ρ) ≤ λ·n
        "adversary": {"clients": [0]},
        "corruption": "none",
        "attack": {"name": "counter_gradient", "target": str(wanted)},
        "engine": {"device": "cpu"},
    }
    return tree, torch.from_numpy(goal)


@pytest.mark.slow("sixty rounds of exact local solves")
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_theorem_4(tmp_path, kind):
    """ρ reaches the target to 1e-6, and geometrically."""
    tree, wanted = federation(tmp_path, kind)
    built = build.build(reader.from_dict(tree), plan=Plan("vmap", 4))
    away = [float((r.broadcast.w - wanted).norm()) for r in built.federation.train()]
    assert away[-1] <= 1e-6
    rates = np.diff(np.log([a for a in away if a > 1e-9]))
    assert rates[5:].mean() < -0.05
