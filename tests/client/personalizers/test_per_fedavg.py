import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from troth.client.personalizers.per_fedavg import _parts, per_fedavg
from troth.networks import task as tasks
from troth.types import Batch, Budget, Refusal, Task

from ..hand import batch, bowl, by, number, sent, worked
from ..small import (
    LOOP,
    THREADS,
    TRACED,
    VMAP,
    built,
    done,
    draws,
    gradient,
    models,
    rows,
    written_out,
)

VARIANTS = ("first_order", "hessian_free")


def client(task, lr=0.1, **options):
    return per_fedavg(task, by(0.7), by(lr), None, Budget(steps=1), **options)


def moved(one, w, *seen):
    """The update after a round."""
    state = one.init(w)
    reply, after = worked(one.local, state, sent(w), *seen)
    assert all(map(torch.equal, after, state))
    return reply.update


def test_a_step_by_hand():
    # L = 2, α = 0.2: ∇F(3) = 2·(3 − 5) = −4, 3 + 0.8 = 3.8, ∇F(3.8) = −2.4
    options = {"alpha": 0.2, "same_batch": True}
    first = client(bowl(2.0), **options)
    assert moved(first, number(3.0), batch(5.0)).item() == pytest.approx(0.24)
    # times 1 − αL = 0.6
    whole = client(bowl(2.0), variant="hessian_free", **options)
    assert moved(whole, number(3.0), batch(5.0)).item() == pytest.approx(0.144)


def test_different_batches_by_hand():
    """Of two examples one makes the inner step and the other is asked after it."""
    # from 3, α = 0.5: by x = 5 to 4, then 4 − 1 = 3; by x = 1 to 2, then 2 − 5 = −3
    one, found = client(bowl(), alpha=0.5), set()
    for t in range(20):
        found.add(round(moved(one, number(3.0), batch(5.0, 1.0, t=t)).item(), 12))
    assert found == {-0.3, 0.3}


def test_three_batches_by_hand():
    """F = ¼·Σ weight·x·v⁴ at v = 1: x, y, z are the slopes of D, D' and D''."""

    def loss(v, b):
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


def test_every_step_starts_from_where_the_last_led():
    one = client(bowl(2.0), alpha=0.2, same_batch=True)
    found = moved(one, number(3.0), batch(5.0), batch(1.0))
    second = 0.1 * 2 * 0.6 * (1 - 3.24)
    assert found.item() == pytest.approx(0.24 + second)


def network():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    task = tasks.functional(tasks.Objective(net, 2), "float64")
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1, 0])
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    seen = Batch(x, y, weight, torch.tensor(0), torch.tensor(1))
    return task, tasks.flatten(net).detach(), seen


def test_the_product_is_the_derivative_of_the_objective():
    """∇_w F(w − α∇F(w)), by torch; the error falls with δ²."""
    task, w, seen = network()

    def objective(v):
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
def test_a_small_inner_step_is_nearly_none(variant):
    task, w, seen = network()
    options = {"variant": variant, "same_batch": True}
    near = moved(client(task, alpha=1e-9, **options), w, seen)
    none = moved(client(task, alpha=0.0, **options), w, seen)
    assert 0 < (near - none).abs().max() < 1e-9


@given(
    there=st.integers(0, 9),
    padding=st.integers(0, 5),
    many=st.sampled_from([2, 3]),
    t=st.integers(0, 100),
    key=st.integers(-(2**63), 2**63 - 1),
)
@settings(max_examples=150, deadline=None)
def test_parts(there, padding, many, t, key):
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


def test_parts_keep_the_weights_of_examples():
    whole = batch(1.0, 2.0, 3.0, 4.0)._replace(weight=number(0.1, 0.2, 0.3, 0.4))
    for part in _parts(whole, 2):
        expected = part.x[:, 0] / part.x.sum()
        torch.testing.assert_close(part.weight, expected)


def test_parts_are_drawn_anew_in_every_step_and_round():
    """All six halves of four examples, each about as often (χ², p < 1e-9 fails)."""
    counts = {}
    for key in range(60):
        for t in range(20):
            first, _ = _parts(batch(1.0, 2.0, 3.0, 4.0, t=t, key=key), 2)
            half = tuple(sorted(first.x[:, 0].tolist()))
            counts[half] = counts.get(half, 0) + 1
    assert len(counts) == 6
    assert sum((c - 200) ** 2 / 200 for c in counts.values()) < 50.5


@pytest.mark.parametrize("alpha", [0.1, 0.4])
@pytest.mark.parametrize("variant", VARIANTS)
def test_on_quadratics_it_ends_at_the_minimiser_of_its_objective(alpha, variant):
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


def quadratic(gram, c):
    """F(v) = ½(v − c)ᵀA(v − c)."""

    def grad(v, batch):
        return gram @ (v - c)

    return Task(3, 0, lambda v, batch: v.sum(), grad, lambda v, x: x)


@pytest.mark.parametrize(
    ("plan", "variant", "same"),
    [
        (LOOP, "hessian_free", False),
        pytest.param(VMAP, "hessian_free", False, marks=TRACED),
        (THREADS, "hessian_free", True),
        (THREADS, "first_order", False),
    ],
)
def test_written_out(tree, plan, variant, same):
    own = {"name": "per_fedavg", "alpha": 0.2, "variant": variant, "same_batch": same}
    made = built(tree("plain", {**own, "steps": 1, "lr": 0.3}), plan, 0)
    feed, many = made.federation.engine.feed, 3 if variant == "hessian_free" else 2

    def local(k, w, r, slots):
        key, copy = feed.keys(np.array([k]), r)[0], w
        drawn, weight = feed.draw(np.array([k]), 5, r)
        for t, row in enumerate(drawn[:, 0]):
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
        return copy - w

    w, f = written_out(made, local), made.federation
    list(f.train())
    assert (f.broadcast.w - w).abs().max() <= 1e-11
    assert torch.equal(models(made), f.broadcast.w.expand(6, -1))  # until the end
    found = done(made)
    for k in range(6):
        [held] = draws(made, k, 3, 1)
        expected = w - 0.3 * gradient(made, w, held)
        assert (found[k] - expected).abs().max() <= 1e-11


def test_one_step_with_alpha_on_all_data_is_what_it_was_trained_for(tree):
    own = {"name": "per_fedavg", "alpha": 0.25, "lr": 0.25, "steps": 1}
    made = built(tree("plain", own, train={"batch": 0}))
    for k, v in enumerate(done(made)):
        w = made.federation.broadcast.w
        g = gradient(made, w, rows(made.data.train, k))
        assert (v - (w - 0.25 * g)).abs().max() <= 1e-13


def test_all_clients_adapt(tree):
    made = built(tree("plain", "per_fedavg", train={"cohort": 2, "rounds": 2}))
    assert len(made.federation.population.visited) < 6
    found, w = done(made), made.federation.broadcast.w
    assert not any(torch.equal(v, w) for v in found)
