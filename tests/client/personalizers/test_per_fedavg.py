import collections
import itertools

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
from ..small import THREADS, agrees, built, done, draws, gradient, models, written_out

BOTH = pytest.mark.parametrize("variant", ["first_order", "hessian_free"])
MAKERS = pytest.mark.parametrize("make", [tasks.functional, tasks.in_place])


def client(task, lr=0.1, **options):
    """One by itself."""
    return per_fedavg(task, by(0.7), by(lr), None, Budget(steps=1), **options)


def moved(one, w, *seen):
    """The update after a round."""
    state = one.init(w)
    reply, after = worked(one.local, state, sent(w), *seen)
    assert all(map(torch.equal, after, state))
    return reply.update


@pytest.mark.parametrize(
    ("variant", "expected"), [("first_order", 0.24), ("hessian_free", 0.144)]
)
def test_a_step_by_hand(variant, expected):
    # L = 2, α = 0.2: ∇F(3) = 2·(3 − 5) = −4, 3 + 0.8 = 3.8, ∇F(3.8) = −2.4; the
    # Hessian gives a factor 1 − αL = 0.6
    one = client(bowl(2.0), alpha=0.2, same_batch=True, variant=variant)
    found = moved(one, number(3.0), batch(5.0)).item()
    assert found == pytest.approx(expected)
    if variant == "first_order":  # the next step starts from where it led
        found = moved(one, number(3.0), batch(5.0), batch(1.0)).item()
        assert found == pytest.approx(0.24 + 0.1 * 2 * 0.6 * (1 - 3.24))


def network(make=tasks.functional, bend=nn.Tanh):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), bend(), nn.Linear(4, 2)).double()
    task = make(tasks.Objective(net, 2), "float64")
    x, y = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1, 0])
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    seen = Batch(x, y, weight, torch.tensor(0), torch.tensor(1))
    return task, tasks.flatten(net).detach(), seen


def test_the_product_is_the_derivative_of_the_objective():
    """∇_w F(w − α∇F(w)), by torch; the error falls with δ²."""
    task, w, seen = network()

    def objective(v):
        return task.loss(v - 0.3 * torch.func.grad(task.loss)(v, seen), seen)

    def error(**options):
        one = client(task, lr=1.0, alpha=0.3, same_batch=True, **options)
        return (moved(one, w, seen) + torch.func.grad(objective)(w)).abs().max().item()

    deltas = (1e-1, 1e-2, 1e-3)
    errors = [error(variant="hessian_free", delta=delta) for delta in deltas]
    assert errors[0] < 1e-2 and error() > 10 * errors[0]
    for rough, fine in itertools.pairwise(errors):
        assert fine == pytest.approx(rough / 100, rel=0.1)
    assert error(variant="exact") < 1e-14


@MAKERS
@pytest.mark.parametrize("bend", [nn.Tanh, nn.ReLU])
def test_the_exact_product_is_that_of_the_whole_hessian(make, bend):
    """Every column of ∇²F by torch; the product is bilinear and has no δ."""
    task, w, seen = network(make, bend)
    pure, _, _ = network(tasks.functional, bend)
    whole = torch.func.jacrev(torch.func.jacrev(pure.loss))(w, seen)
    along = (
        torch.randn(3, len(w), dtype=torch.float64) * number(1.0, 1e-8, 1e8)[:, None]
    )
    for one in along:
        found = task.bend(w, seen, one)
        assert (found - whole @ one).norm() <= 1e-14 * one.norm()


@MAKERS
def test_finite_differences_spike_at_a_kink_and_the_exact_product_does_not(make):
    """F = relu(w)²/2 + relu(w): ∇F jumps by 1 at 0, ∇²F is 1 above and 0 below."""

    class Kink(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x):
            return self.w.relu().expand(len(x), 1)

    def square(outputs, y):
        return outputs[:, 0].square() / 2 + outputs[:, 0]

    task = make(tasks.Objective(Kink(), 0, square), "float64")
    for at in (1e-4, -1e-4):  # nearer to the kink than δ·g
        inner = 0.1 * task.grad(number(at), batch(0.0)).item()
        g = task.grad(number(at - inner), batch(0.0)).item()
        found = {
            variant: -moved(
                client(task, lr=1.0, alpha=0.1, same_batch=True, variant=variant),
                number(at),
                batch(0.0),
            ).item()
            for variant in ("exact", "hessian_free")
        }
        assert found["exact"] == pytest.approx(g * (1 - 0.1 * (at > 0)), abs=1e-14)
        if g:
            assert abs(found["hessian_free"] - found["exact"]) > 10


def test_the_exact_product_of_a_network_with_every_layer():
    """Dropout with the mask of the step, and batch statistics; by differences."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Tanh()]
    layers += [nn.AvgPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, 3)]
    net = nn.Sequential(*layers).double()
    x = torch.randn(6, 1, 8, 8, dtype=torch.float64)
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    seen = Batch(x, y, weight, torch.tensor(0), torch.tensor(1))
    w, one = tasks.flatten(net).detach(), torch.randn(251, dtype=torch.float64)
    found = []
    for make, *how in (
        (tasks.functional,),
        (tasks.functional, True),
        (tasks.in_place,),
    ):
        task = make(tasks.Objective(net, 3), "float64", *how)
        along = one.clone()
        along[-task.tail :] = 0
        forth = task.grad(w + 1e-5 * along, seen).clone()
        expected = (forth - task.grad(w - 1e-5 * along, seen)) / 2e-5
        expected[-task.tail :] = 0
        found.append(task.bend(w, seen, one))
        assert (found[-1] - expected).abs().max() < 1e-7 * expected.abs().max()
    assert torch.equal(found[0], found[1]) and torch.allclose(found[0], found[2])
    many = torch.func.vmap(tasks.functional(tasks.Objective(net, 3)).bend, (0, None, 0))
    both = many(torch.stack([w, w]), seen, torch.stack([one, 2 * one]))
    assert torch.allclose(both, found[0] * number(1.0, 2.0)[:, None])


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
    held = [part.x[part.weight > 0][:, 0].tolist() for part in parts]
    assert len(parts) == many
    for part, mine in zip(parts, held, strict=True):
        assert torch.equal(part.x, part.y) and part.t is whole.t
        assert part.weight.sum().item() == pytest.approx(1.0 if there else 0.0)
        assert not mine or part.weight.max().item() == pytest.approx(1 / len(mine))
    if there >= many:  # every example in one part, and about as many in each
        assert sorted(sum(held, [])) == list(range(there))
        assert max(map(len, held)) - min(map(len, held)) <= 1
    elif there:
        assert {*sum(held, [])} == {*range(there)}
        assert all(mine == held[0] for mine in held[there:])
        assert all(len(mine) == 1 for mine in held)


def quadratic(gram, c):
    """F(v) = ½(v − c)ᵀA(v − c)."""
    return Task(3, 0, lambda v, b: v.sum(), lambda v, b: gram @ (v - c), lambda v, x: x)


def test_parts_keep_the_weights_of_examples():
    whole = batch(1.0, 2.0, 3.0, 4.0)._replace(weight=number(0.1, 0.2, 0.3, 0.4))
    for part in _parts(whole, 2):
        torch.testing.assert_close(part.weight, part.x[:, 0] / part.x.sum())


def test_parts_are_drawn_anew_in_every_step_and_round():
    """All six halves of four examples, each about as often (χ², p < 1e-9 fails)."""
    counts = collections.Counter()
    for key, t in itertools.product(range(60), range(20)):
        first, _ = _parts(batch(1.0, 2.0, 3.0, 4.0, t=t, key=key), 2)
        counts[tuple(sorted(first.x[:, 0].tolist()))] += 1
    assert len(counts) == 6
    assert sum((c - 200) ** 2 / 200 for c in counts.values()) < 50.5


@pytest.mark.parametrize("alpha", [0.1, 0.4])
@BOTH
def test_on_quadratics_it_ends_at_the_minimizer_of_its_objective(alpha, variant):
    """Σ (I − αA)A(I − αA)(w − c) = 0; first-order, without the first factor."""
    draw = np.random.default_rng(1)
    clients, left, right = [], np.zeros((2, 3, 3)), np.zeros((2, 3))
    for _ in range(5):
        x, c = draw.normal(size=(9, 3)), draw.normal(size=3)
        gram = x.T @ x / len(x)
        task = quadratic(torch.from_numpy(gram), torch.from_numpy(c))
        options = {"alpha": alpha, "variant": variant, "same_batch": True}
        clients.append(client(task, lr=0.7, **options))
        inner = np.eye(3) - alpha * gram
        bends = np.stack([gram @ inner, inner @ gram @ inner])
        left, right = left + bends, right + bends @ c
    w = torch.zeros(3, dtype=torch.float64)
    for _ in range(300):
        w = w + torch.stack([moved(one, w, batch(0.0)) for one in clients]).mean(0)
    ends = np.linalg.solve(left, right[..., None])[..., 0]
    np.testing.assert_allclose(
        w.numpy(), ends[int(variant == "hessian_free")], atol=1e-5
    )
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("variant", "same"),
    [
        ("hessian_free", False),
        ("hessian_free", True),
        ("first_order", False),
        ("exact", False),
    ],
)
def test_written_out(tree, variant, same):
    options = {"alpha": 0.2, "variant": variant, "same_batch": same}
    options |= {"name": "per_fedavg", "steps": 1, "lr": 0.3}
    made = built(tree("plain", options), THREADS, 0)
    feed, many = made.federation.engine.feed, 2 if variant == "first_order" else 3
    delta, within = (1e-6, 1e-8) if variant == "exact" else (1e-3, 1e-11)

    def local(k, w, r, slots):
        key, copy = feed.keys(np.array([k]), r)[0], w
        drawn, weight = feed.draw(np.array([k]), 5, r)
        for t, row in enumerate(drawn[:, 0]):
            clock = torch.tensor(t), torch.tensor(1), key
            seen = Batch(row, row, weight[t, 0], *clock)
            parts = [seen] * 3 if same else _parts(seen, many)
            first, second, *third = [b.x[b.weight > 0] for b in parts]
            g = gradient(made, copy - 0.2 * gradient(made, copy, first), second)
            if third:
                forth = gradient(made, copy + delta * g, third[0])
                back = gradient(made, copy - delta * g, third[0])
                g = g - 0.2 * (forth - back) / (2 * delta)
            copy = copy - 0.1 * g
        return copy - w

    w = written_out(made, local)
    agrees(made, w, w, within)
    shared = made.federation.broadcast.w.expand(6, -1)
    assert torch.equal(models(made), shared)  # until the end
    found = done(made)
    for k in range(6):
        [held] = draws(made, k, 3, 1)
        expected = w - 0.3 * gradient(made, w, held)
        assert (found[k] - expected).abs().max() <= within
