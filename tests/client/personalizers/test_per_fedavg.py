from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from troth import build, lookup
from troth.client.client import descent
from troth.client.personalizers.per_fedavg import _parts, per_fedavg
from troth.config import reader
from troth.config.schema import Part
from troth.engine.engine import Plan
from troth.networks import task as tasks
from troth.types import Batch, Broadcast, Budget, Client, Descent, Refusal, Task

Tree = Callable[..., dict[str, Any]]
ONE = torch.ones((), dtype=torch.float64)
NAN, INF = float("nan"), float("inf")
LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
VARIANTS = ("first_order", "hessian_free")


# One client by itself


def bowl(curvature: float = 1.0) -> Task:
    """F(v) = ½·L·Σ weight·(v − x)²."""

    def loss(v: Tensor, batch: Batch) -> Tensor:
        away = (v - batch.x).square().sum(-1)
        return 0.5 * curvature * (batch.weight * away).sum()

    return Task(1, 0, loss, torch.func.grad(loss), lambda v, x: x)


def number(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def batch(*x: float, padding: int = 0, t: int = 0, key: int = 0) -> Batch:
    rows = number(*x, *[1e9] * padding)[:, None]
    there = number(*[1.0] * len(x), *[0.0] * padding) / max(1, len(x))
    when, per_epoch = torch.tensor(t), torch.tensor(1)
    return Batch(rows, rows, there, when, per_epoch, torch.tensor(key))


def by(lr: float, optimizer: str = "sgd") -> Descent:
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    return descent(part, lr, 0.0)


def client(task: Task, lr: float = 0.1, **options: Any) -> Client:
    own, budget = options.pop("own", by(0.7)), options.pop("budget", None)
    return per_fedavg(task, own, by(lr), budget, Budget(steps=1), **options)


def moved(one: Client, w: Tensor, *seen: Batch, scale: Tensor = ONE) -> Tensor:
    """The update after a round."""
    sent, state = Broadcast(w, w[:0], scale), one.init(w)
    carry = one.local.begin(sent, state)
    for b in seen:
        carry = one.local.step(sent, carry, b, b)
    reply, after = one.local.end(sent, carry, state, seen[0])
    assert all(torch.equal(a, b) for a, b in zip(after, state, strict=True))
    return reply.update


def test_a_step_by_hand() -> None:
    # L = 2, α = 0.2: ∇F(3) = 2·(3 − 5) = −4, 3 + 0.8 = 3.8, ∇F(3.8) = −2.4
    options: dict[str, Any] = {"alpha": 0.2, "same_batch": True}
    first = client(bowl(2.0), **options)
    assert moved(first, number(3.0), batch(5.0)).item() == pytest.approx(0.24)
    # times 1 − αL = 0.6
    whole = client(bowl(2.0), variant="hessian_free", **options)
    assert moved(whole, number(3.0), batch(5.0)).item() == pytest.approx(0.144)


def test_different_batches_by_hand() -> None:
    """Of two examples one makes the inner step and the other is asked after it."""
    # from 3, α = 0.5: by x = 5 to 4, then 4 − 1 = 3; by x = 1 to 2, then 2 − 5 = −3
    one, found = client(bowl(), alpha=0.5), set()
    for t in range(20):
        found.add(round(moved(one, number(3.0), batch(5.0, 1.0, t=t)).item(), 12))
    assert found == {-0.3, 0.3}


def test_three_batches_by_hand() -> None:
    """F = ¼·Σ weight·x·v⁴ at v = 1: x, y, z are the slopes of D, D' and D''."""

    def loss(v: Tensor, b: Batch) -> Tensor:
        return (b.weight * b.x[:, 0] * v**4).sum() / 4

    task = bowl()._replace(loss=loss, grad=torch.func.grad(loss))
    one = client(task, variant="hessian_free", alpha=0.1, delta=1e-4)
    found = {
        round(moved(one, number(1.0), batch(1.0, 2.0, 3.0, t=t)).item(), 6)
        for t in range(60)
    }
    expected = set()
    for x, y, z in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)):
        g = y * (1 - 0.1 * x) ** 3
        expected.add(round(-0.1 * (1 - 0.1 * 3 * z) * g, 6))
    assert found == expected


def test_the_schedule_scales_the_outer_step_alone() -> None:
    one = client(bowl(2.0), alpha=0.2, same_batch=True)
    found = moved(one, number(3.0), batch(5.0), scale=0.5 * ONE)
    assert found.item() == pytest.approx(0.12)


def test_every_step_starts_from_where_the_last_led() -> None:
    one = client(bowl(2.0), alpha=0.2, same_batch=True)
    found = moved(one, number(3.0), batch(5.0), batch(1.0))
    second = 0.1 * 2 * 0.6 * (1 - 3.24)
    assert found.item() == pytest.approx(0.24 + second)


def network() -> tuple[Task, Tensor, Batch]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    task = tasks.functional(tasks.Objective(net, 2), "float64")
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1, 0])
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    seen = Batch(x, y, weight, torch.tensor(0), torch.tensor(1))
    return task, tasks.flatten(net).detach(), seen


def test_the_product_is_the_derivative_of_the_objective() -> None:
    """∇_w F(w − α∇F(w)), by torch; the error falls with δ²."""
    task, w, seen = network()

    def objective(v: Tensor) -> Tensor:
        return task.loss(v - 0.3 * torch.func.grad(task.loss)(v, seen), seen)

    expected, errors = torch.func.grad(objective)(w), []
    for delta in (1e-1, 1e-2, 1e-3):
        options = {"alpha": 0.3, "delta": delta, "same_batch": True}
        one = client(task, lr=1.0, variant="hessian_free", **options)
        errors.append((moved(one, w, seen) + expected).abs().max().item())
    assert errors[0] < 1e-2
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.1)
    assert errors[2] == pytest.approx(errors[1] / 100, rel=0.1)
    first = client(task, lr=1.0, alpha=0.3, same_batch=True)
    assert (moved(first, w, seen) + expected).abs().max() > 10 * errors[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_small_inner_step_is_nearly_none(variant: str) -> None:
    task, w, seen = network()
    options = {"variant": variant, "same_batch": True}
    near = moved(client(task, alpha=1e-9, **options), w, seen)
    none = moved(client(task, alpha=0.0, **options), w, seen)
    assert 0 < (near - none).abs().max() < 1e-9


# Parts of a batch


@given(
    there=st.integers(0, 9),
    padding=st.integers(0, 5),
    many=st.sampled_from([2, 3]),
    t=st.integers(0, 100),
    key=st.integers(-(2**63), 2**63 - 1),
)
@settings(max_examples=150, deadline=None)
def test_parts(there: int, padding: int, many: int, t: int, key: int) -> None:
    whole = batch(*map(float, range(there)), padding=padding, t=t, key=key)
    if there + padding < many:
        with pytest.raises(Refusal, match=f"needs {many} different batches a step"):
            _parts(whole, many)
        return
    parts = _parts(whole, many)
    assert len(parts) == many
    held = [part.x[part.weight > 0][:, 0].tolist() for part in parts]
    for part, own in zip(parts, held, strict=True):
        assert torch.equal(part.x, part.y) and part.t is whole.t
        assert part.weight.sum().item() == pytest.approx(1.0 if there else 0.0)
        assert not own or part.weight.max().item() == pytest.approx(1 / len(own))
    if there >= many:  # every example in one part, and about as many in each
        assert sorted(sum(held, [])) == list(range(there))
        assert max(map(len, held)) - min(map(len, held)) <= 1
    elif there:
        assert sorted({*sum(held, [])}) == list(range(there))
        assert all(own == held[0] for own in held[there:])
        assert all(len(own) == 1 for own in held)


def test_parts_keep_the_weights_of_examples() -> None:
    whole = batch(1.0, 2.0, 3.0, 4.0)._replace(weight=number(0.1, 0.2, 0.3, 0.4))
    for part in _parts(whole, 2):
        expected = part.x[:, 0] / part.x.sum()
        torch.testing.assert_close(part.weight, expected)


def test_parts_are_drawn_anew_in_every_step_and_round() -> None:
    """All six halves of four examples, each about as often (χ², p < 1e-9 fails)."""
    counts: dict[tuple[float, ...], int] = {}
    for key in range(60):
        for t in range(20):
            first, _ = _parts(batch(1.0, 2.0, 3.0, 4.0, t=t, key=key), 2)
            half = tuple(sorted(first.x[:, 0].tolist()))
            counts[half] = counts.get(half, 0) + 1
    assert len(counts) == 6
    assert sum((c - 200) ** 2 / 200 for c in counts.values()) < 50.5


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -0.1}, "per_fedavg's alpha = -0.1 must be a finite number of at le"),
        ({"alpha": NAN}, "per_fedavg's alpha = nan must be a finite number"),
        ({"alpha": INF}, "per_fedavg's alpha = inf must be a finite number"),
        ({"delta": 0.0}, "per_fedavg's delta = 0.0 must be a finite number above 0"),
        ({"delta": -1e-3}, "per_fedavg's delta = -0.001 must be a finite number above"),
        ({"delta": NAN}, "per_fedavg's delta = nan must be a finite number above 0"),
    ],
)
def test_refusals(options: dict[str, Any], words: str) -> None:
    with pytest.raises(Refusal, match=re.escape(words)) as refusal:
        client(bowl(), variant="hessian_free", **options)
    assert "\n" not in str(refusal.value)
    if "delta" in options:
        client(bowl(), **options)  # nobody asks for it


@pytest.mark.parametrize(
    ("variant", "size", "least"), [("first_order", 1, 2), ("hessian_free", 2, 3)]
)
@pytest.mark.parametrize("plan", [VMAP, THREADS], ids=lambda p: p.how)
def test_a_batch_that_cannot_be_divided_is_refused(
    tree: Tree, variant: str, size: int, least: int, plan: Plan
) -> None:
    own = {"name": "per_fedavg", "variant": variant}
    words = (
        f"per_fedavg needs {least} different batches a step, parts of the one that "
        f"train.batch makes, and that has {size}; set train.batch to at least {least}, "
        "or personalizer.same_batch = true to use it whole"
    )
    with pytest.raises(Refusal, match=f"^{re.escape(words)}$"):
        built(tree("plain", own, train={"batch": size}), plan)
    built(tree("plain", {**own, "same_batch": True}, train={"batch": size}), LOOP)


def test_a_solver_is_refused(tree: Tree) -> None:
    wanted = tree("plain", "per_fedavg", solver="scaffold")
    with pytest.raises(Refusal, match="'per_fedavg' makes the client's update itself"):
        build.build(reader.from_dict(wanted), plan=LOOP)


def test_options_and_references() -> None:
    assert lookup.check("personalizer", "per_fedavg", {}) == {
        "variant": "first_order",
        "alpha": 0.01,
        "delta": 0.001,
        "same_batch": False,
    }
    [entry] = lookup.about("personalizer", "per_fedavg").citations
    assert entry.startswith("@inproceedings{fallah2020personalized,")
    with pytest.raises(Refusal, match="'full' is not one of 'first_order', 'hessian_f"):
        lookup.check("personalizer", "per_fedavg", {"variant": "full"})


# At convergence


@pytest.mark.parametrize("alpha", [0.1, 0.4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_on_quadratics_it_ends_at_the_minimiser_of_its_objective(
    alpha: float, variant: str
) -> None:
    """Σ (I − αA)A(I − αA)(w − c) = 0; first-order, without the first factor."""
    draw = np.random.default_rng(1)
    clients, ends = [], {name: (np.zeros((3, 3)), np.zeros(3)) for name in VARIANTS}
    for _ in range(5):
        x, c = draw.normal(size=(9, 3)), draw.normal(size=3)
        gram = x.T @ x / len(x)
        task = quadratic(torch.from_numpy(gram), torch.from_numpy(c))
        options = {"alpha": alpha, "variant": variant, "same_batch": True}
        clients.append(client(task, lr=0.7, **options))
        inner = np.eye(3) - alpha * gram
        bends = {"first_order": gram @ inner, "hessian_free": inner @ gram @ inner}
        for name, (left, right) in ends.items():
            left += bends[name]
            right += bends[name] @ c
    w = torch.zeros(3, dtype=torch.float64)
    for _ in range(300):
        w = w + torch.stack([moved(one, w, batch(0.0)) for one in clients]).mean(0)
    found = {name: np.linalg.solve(*end) for name, end in ends.items()}
    np.testing.assert_allclose(w.numpy(), found[variant], atol=1e-5)
    assert np.abs(found["first_order"] - found["hessian_free"]).max() > 1e-3


def quadratic(gram: Tensor, c: Tensor) -> Task:
    """F(v) = ½(v − c)ᵀA(v − c)."""

    def grad(v: Tensor, batch: Batch) -> Tensor:
        return gram @ (v - c)

    return Task(3, 0, lambda v, batch: v.sum(), grad, lambda v, x: x)


# A federation


def built(wanted: dict[str, Any], plan: Plan, finish: bool = False) -> build.Built:
    made = build.build(reader.from_dict(wanted), plan=plan)
    for _ in made.federation.train():
        pass
    for _ in made.federation.finish(4) if finish else ():
        pass
    return made


def models(made: build.Built) -> Tensor:
    f = made.federation
    rows = f.population.read(np.arange(f.population.n))
    return f.engine.models(f.broadcast.w, rows)


@pytest.mark.parametrize(
    ("plan", "model", "variant"),
    [
        (LOOP, "normed", "hessian_free"),
        (VMAP, "plain", "first_order"),
        (THREADS, "normed", "first_order"),
    ],
)
def test_without_an_inner_step_it_is_fedavg_bit_for_bit(
    tree: Tree, plan: Plan, model: str, variant: str
) -> None:
    train = {"optimizer": "momentum", "lr": 0.02}
    mine = {"name": "per_fedavg", "alpha": 0.0, "same_batch": True, "variant": variant}
    found = built(tree(model, mine, train=train), plan)
    expected = built(tree(model, "none", train=train), plan)
    assert torch.equal(found.federation.broadcast.w, expected.federation.broadcast.w)
    assert torch.equal(models(found), models(expected))
    if plan is VMAP:  # one trace more, for what the others show
        return
    tuned = built(
        tree(model, {"name": "finetune", "epochs": 1}, train=train), plan, True
    )
    for _ in found.federation.finish(4):
        pass
    assert torch.equal(models(found), models(tuned))
    assert not torch.equal(models(found), models(expected))


@pytest.mark.parametrize(
    ("plan", "variant", "same"),
    [
        (LOOP, "hessian_free", False),
        (VMAP, "hessian_free", False),
        (THREADS, "hessian_free", True),
        (VMAP, "first_order", False),
        (THREADS, "first_order", False),
    ],
)
def test_written_out(
    gradient: Any, tree: Tree, plan: Plan, variant: str, same: bool
) -> None:
    own = {"name": "per_fedavg", "alpha": 0.2, "variant": variant, "same_batch": same}
    wanted = tree("plain", {**own, "steps": 1, "lr": 0.3})
    made = build.build(reader.from_dict(wanted), plan=plan)
    f, many = made.federation, 3 if variant == "hessian_free" else 2
    feed = f.engine.feed
    w = f.broadcast.w.clone()
    for r in range(3):
        updates = []
        for k in f.sample(r):
            slots, weight = feed.draw(np.array([k]), 5, r)
            key, copy = feed.keys(np.array([k]), r)[0], w.clone()
            for t, row in enumerate(slots[:, 0]):
                one = torch.tensor(1)
                seen = Batch(row, row, weight[t, 0], torch.tensor(t), one, key)
                parts = [seen] * 3 if same else _parts(seen, many)
                first, second, *third = [b.x[b.weight > 0] for b in parts]
                g = gradient(made, copy - 0.2 * gradient(made, copy, first), second)
                if variant == "hessian_free":
                    forth = gradient(made, copy + 1e-3 * g, third[0])
                    back = gradient(made, copy - 1e-3 * g, third[0])
                    g = g - 0.2 * (forth - back) / 2e-3
                copy = copy - 0.1 * g
            updates.append(copy - w)
        w = w + torch.stack(updates).mean(0)
    for _ in f.train():
        pass
    assert (f.broadcast.w - w).abs().max() <= 1e-11
    assert torch.equal(models(made), f.broadcast.w.expand(6, -1))  # until the end
    for _ in f.finish(4):
        pass
    expected = []
    for k in range(6):
        slots, weight = feed.draw(np.array([k]), 1, 3)
        expected.append(w - 0.3 * gradient(made, w, slots[0, 0][weight[0, 0] > 0]))
    assert (models(made) - torch.stack(expected)).abs().max() <= 1e-11


def test_plans_agree(tree: Tree) -> None:
    """With batch normalisation, whose statistics no difference of gradients moves."""
    own = {"name": "per_fedavg", "alpha": 0.2, "variant": "hessian_free"}
    wanted = tree("normed", own, train={"steps": 3, "batch": 5, "rounds": 2})
    expected = built(wanted, LOOP)
    tail = expected.federation.engine.task.tail
    assert (expected.federation.broadcast.w[-tail:] != 0).all()
    for plan in (VMAP, THREADS):
        found = built(wanted, plan)
        w = expected.federation.broadcast.w
        assert (found.federation.broadcast.w - w).abs().max() <= 1e-9


def test_one_step_with_alpha_on_all_data_is_what_it_was_trained_for(
    gradient: Any,
    tree: Tree,
) -> None:
    own = {"name": "per_fedavg", "alpha": 0.25, "lr": 0.25, "steps": 1}
    made = built(tree("plain", own, train={"batch": 0}), LOOP, finish=True)
    w, split = made.federation.broadcast.w, made.data.train
    for k, v in enumerate(models(made)):
        held = torch.arange(int(split.size[k])) + split.start[k]
        assert (v - (w - 0.25 * gradient(made, w, held))).abs().max() <= 1e-13


# A run


def test_all_clients_adapt_and_resuming_gives_the_same_bytes(
    tree: Tree, resumed: Any
) -> None:
    engine = {"device": "cpu", "how": "threads", "workers": 2}
    train = {"cohort": 2, "rounds": 3, "precision": "float32"}
    wanted = tree("plain", "per_fedavg", train=train, engine=engine)
    wanted |= {"checkpoint": {"every": 1}}
    run = resumed(wanted)
    assert (run.clients["asked"] == 0).any()
    shared = tasks.flatten(run.shared())
    for k in range(6):
        assert not torch.equal(tasks.flatten(run.model(k)), shared)


def test_nothing_but_the_update_is_sent() -> None:
    one = client(bowl())
    assert not one.shares_personal and one.extra == 0 and one.idle
    assert one.finish is not None and one.finish.budgets == (Budget(epochs=1),)
    own = client(bowl(), budget=Budget(steps=4)).finish
    assert own is not None and own.budgets == (Budget(steps=4),)
