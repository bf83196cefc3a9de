import pytest
import torch

from troth.client.client import combined
from troth.client.personalizers.ditto import ditto
from troth.client.personalizers.local import local
from troth.client.regularizers.l2sq import l2sq
from troth.client.solvers.fedavg import fedavg
from troth.types import Anchor, Batch, Budget, Refusal, Regularizer

from ..hand import INF, NAN, ONE, OPTIMIZERS, bowl, by, drawn, number, sent, stepped


@pytest.mark.parametrize(
    ("anchor", "steps", "expected"),
    [
        ("shared", 1, 2.0),  # ∇F(1) = 1 − 5 = −4, 2·(1 − 4) = −6: 1 + 0.1·10
        ("shared", 2, 2.7),  # at 2: −3 + 2·(−2) = −7
        ("moving", 1, 16.6),  # λ(v − w_k) = 2·(1 − 77): 1 + 0.1·156
    ],
)
def test_steps_by_hand(anchor, steps, expected):
    one = ditto(bowl(), by(0.1), l2sq(), lam=2.0, anchor=anchor)
    state = one.init(number(1.0))
    assert one.model(number(9.0), state).item() == 1.0  # begins at the first w
    (v,) = stepped(one, state, 4.0, *[5.0] * steps)
    assert v.item() == pytest.approx(expected, abs=1e-12)


def moved(*x, lam, how=None, task=None, pull=None, w=4.0):
    """From 1, by steps on these examples."""
    one = ditto(task or bowl(), how or by(0.1), pull or l2sq(), lam=lam)
    return stepped(one, one.init(number(1.0)), w, *x)[0].item()


def test_any_regularizer_is_pulled_by_its_gradient():
    steep = Regularizer(lambda v, w, b: (v - w).sum() * 3, lambda v, w, b: 0 * v + 3)
    found = moved(5.0, lam=2.0, pull=steep)
    assert found == pytest.approx(1 - 0.1 * (-4 + 6), abs=1e-14)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_without_pull_it_is_local_exactly(optimizer):
    """However far the shared model was driven, and whichever anchor there is."""
    how = by(0.1, optimizer)
    for w in (4.0, 1e30, INF, -INF, NAN):
        for anchor in ("shared", "moving"):
            one = ditto(bowl(), how, l2sq(), lam=0.0, anchor=anchor)
            start = one.init(number(1.0))
            found = stepped(one, start, w, 5.0, 3.0, 5.0, 4.0)
            expected = stepped(local(bowl(), how), start, w, 5.0, 3.0, 5.0, 4.0)
            assert torch.equal(found[0], expected[0]) and found[0].isfinite()


@pytest.mark.parametrize("lam", [0.01, 1.0, 3.0, 30.0])
def test_what_is_refused_diverges_and_what_is_not_does_not(lam):
    flat = bowl(0.0)  # no curvature of the data: the pull alone
    assert abs(moved(*[0.0] * 50, lam=lam, how=by(1.999 / lam), task=flat, w=0.0)) < 1
    with pytest.raises(Refusal, match="diverges"):
        ditto(flat, by(2.0 / lam * 1.0001), l2sq(), lam=lam)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.9])
def test_momentum_bears_more_and_adam_all(beta):
    limit, heavy = 2 * (1 + beta), by(0.1, "momentum", beta=beta)
    ditto(bowl(), heavy, l2sq(), lam=9.99 * limit)
    with pytest.raises(Refusal, match=f"must stay below {limit:g}"):
        ditto(bowl(), heavy, l2sq(), lam=10.01 * limit)
    assert moved(5.0, lam=1e6, how=by(0.1, "adam")) == pytest.approx(1.1)


def vectors(*x):
    """An example or several, of unequal weight."""
    weight = torch.arange(1, len(x) + 1) / torch.arange(1, len(x) + 1).sum()
    zero = torch.tensor(0)
    return Batch(torch.stack(x), torch.stack(x), weight.double(), zero, zero + 1)


@pytest.mark.parametrize("lam", [0.0, 0.01, 1.0, 30.0, 1e6])
def test_converges_to_the_optimum_between(lam):
    """lr·(L + λ) < 2: v → (L·c + λ·w)/(L + λ), and so ‖v − w‖ ≤ ‖∇F(w)‖/λ."""
    curvature, d = 3.0, 4
    start, w, c = drawn(3, d, seed=5)
    task, seen = bowl(curvature, d), vectors(c)
    for share in (0.3, 1.0, 1.9):
        one = ditto(task, by(share / (curvature + lam)), l2sq(), lam=lam)
        state = one.init(start)
        for _ in range(400):
            state = one.step(state, Anchor(w, w, w), seen, seen, ONE)
        expected = (curvature * c + lam * w) / (curvature + lam)
        torch.testing.assert_close(state[0], expected, rtol=1e-10, atol=1e-10)
        steep = torch.linalg.vector_norm(task.grad(w, seen))
        assert lam * torch.linalg.vector_norm(state[0] - w) <= steep + 1e-9


@pytest.mark.parametrize("steps", [(3, 3), (2, 5), (5, 2)])
def test_the_moving_anchor_is_fmtls_algorithm(steps):
    """Line 5, w_k and then v, for three rounds; the server is that of one client."""
    d, lr, lam, task = 5, 0.1, 0.8, bowl(0.9, d=5)
    w = drawn(d, seed=2)
    own = ditto(task, by(lr), l2sq(), lam=lam, anchor="moving")
    budgets = Budget(steps=steps[0]), Budget(steps=steps[1])
    client = combined(fedavg(task, by(lr)), own, budgets)
    state, v, found = client.init(w), w.clone(), w.clone()
    for r in range(3):
        carry, moved = client.local.begin(sent(found), state), w.clone()
        for t in range(max(steps)):
            seen = vectors(*drawn(4, d, seed=10 * r + t))._replace(t=torch.tensor(t))
            carry = client.local.step(sent(found), carry, seen, seen)
            if t < steps[0]:
                moved = moved - lr * task.grad(moved, seen)
            if t < steps[1]:
                v = v - lr * (task.grad(v, seen) + lam * (v - moved))
        reply, state = client.local.end(sent(found), carry, state, seen)
        w, found = moved, found + reply.update
        torch.testing.assert_close(found, w, rtol=0, atol=1e-13)
        torch.testing.assert_close(client.model(w, state), v, rtol=0, atol=1e-13)
