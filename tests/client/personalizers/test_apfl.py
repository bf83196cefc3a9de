import numpy as np
import pytest
import torch

from troth.client.client import combined
from troth.client.personalizers._mixed import mixed, through
from troth.client.personalizers.apfl import apfl
from troth.client.solvers.fedavg import fedavg
from troth.types import Budget, Task

from ..hand import BOWL, F64, INF, NAN, ONE, batch, by, number, sent, stepped, worked
from ..small import THREADS, agrees, built, gradient, told, written_out


@pytest.mark.parametrize(
    ("mix", "before", "expected"),
    [
        # v̄ = ¼·1 + ¾·4 = 3.25, ∇F = 3.25 − 5 = −1.75: v = 1 + 0.1·¼·1.75
        ("shared", 77.0, 1.04375),
        # v̄ = ¼·1 + ¾·8 = 6.25, ∇F = 1.25: v = 1 − 0.1·¼·1.25
        ("moving", 8.0, 0.96875),
    ],
)
def test_a_step_by_hand(mix, before, expected):
    one = apfl(BOWL, by(0.1), alpha=0.25, mix=mix)
    state = stepped(one, one.init(number(1.0)), 4.0, 5.0, before=before)
    assert state[0].item() == pytest.approx(expected, abs=1e-14)
    read = one.model(number(8.0), state).item()  # with another w
    assert read == pytest.approx(0.25 * expected + 0.75 * 8, abs=1e-14)


def test_alpha_follows_its_own_gradient_at_the_first_step_of_a_round():
    # ⟨v − w, ∇F(v̄)⟩ = (1 − 4)·(−1.75) = 5.25: α = 0.25 − 0.01·5.25 = 0.1975, and v
    # moved by the α there was: 1 + 0.01·¼·1.75
    one = apfl(BOWL, by(0.01), alpha=0.25, adaptive=True, mix="shared")
    first = one.init(number(1.0))
    v, alpha = state = stepped(one, first, 4.0, 5.0)
    assert [v.item(), alpha.item()] == pytest.approx([1.004375, 0.1975], abs=1e-14)
    again = stepped(one, first, 4.0, 5.0, 5.0)
    assert again[1] == alpha and again[0] != v
    assert one.columns == ("alpha",) and one.tell(state) == alpha


@pytest.mark.parametrize(("x", "expected"), [(50.0, 0.0), (-50.0, 1.0)])
def test_alpha_stays_between_0_and_1(x, expected):
    one = apfl(BOWL, by(1.0), alpha=0.5, adaptive=True, mix="shared")
    state = stepped(one, one.init(number(1.0)), 4.0, x)
    assert state[1].item() == expected
    assert one.model(number(4.0), state).item() in (4.0, state[0].item())


@pytest.mark.parametrize("w", [INF, -INF, NAN])
def test_a_shared_model_that_is_lost(w):
    """α stays a share; with α = 1 nothing is felt of it, and with α = 0 all is."""
    for mix in ("moving", "shared"):
        one = apfl(BOWL, by(0.1), adaptive=True, mix=mix)
        state = stepped(one, one.init(number(1.0)), w, 5.0, before=w)
        assert 0 <= state[1].item() <= 1
    alone = apfl(BOWL, by(0.1), alpha=1.0)
    state = stepped(alone, alone.init(number(1.0)), w, 5.0, before=w)
    assert alone.model(number(w), state).item() == pytest.approx(1.4)
    one = apfl(BOWL, by(0.1), alpha=0.0)
    assert one.idle and one.model(number(4.0), one.init(number(w))).item() == 4.0


def test_the_ends_of_a_mixture_are_exact_whatever_the_other_is():
    v, lost = number(0.1, 0.7, 0.3), number(NAN, INF, -INF)
    for tail in (0, 1):
        assert torch.equal(mixed(v, lost, ONE, tail), v)
        assert torch.equal(mixed(lost, v, 0 * ONE, tail), v)
        assert mixed(v, lost, 1.0, tail) is v and mixed(lost, v, 0.0, tail) is v
    for weight in (0.25, 0.25 * ONE):
        found = mixed(v, number(1.0, 1.0, 9.0), weight, 1)
        assert found.tolist() == pytest.approx([0.775, 0.925, 0.3])  # statistics: v's


def test_statistics_go_where_those_of_the_mixture_go():
    v, w, g = number(1.0, 2.0), number(5.0, 6.0), number(0.4, 0.3)
    between = mixed(v, w, 0.25 * ONE, 1)
    for part, share in ((v, 0.25), (w, 0.75)):
        pull = through(g, between, part, share * ONE, 1)
        assert pull[0].item() == pytest.approx(share * 0.4)
        assert (part - pull)[1].item() == pytest.approx(2.0 - 0.3)  # a whole step
    assert torch.equal(through(g, v, v, ONE, 1), g)


# At convergence (FMTL's D.1): F_k(v) = ½(v − c_k)ᵀ·diag(L_k)·(v − c_k)

LR = 0.4
DRAW = np.random.default_rng(0)
CURVATURES = torch.from_numpy(DRAW.uniform(0.3, 2.0, (4, 3)))
MINIMISERS = torch.from_numpy(DRAW.normal(size=(4, 3)))


def quadratic(k):
    def grad(v, batch):
        return CURVATURES[k] * (v - MINIMISERS[k])

    return Task(3, 0, lambda v, batch: v.sum(), grad, lambda v, x: x)


def converged(steps, alpha, mix):
    """w and all clients' models: every client in every round, whole gradients."""
    clients, budget = [], Budget(steps=steps)
    for k in range(4):
        own = apfl(quadratic(k), by(LR), alpha=alpha, mix=mix)
        clients.append(combined(fedavg(quadratic(k), by(LR)), own, (budget, budget)))
    w = torch.zeros(3, dtype=F64)
    states = [client.init(w) for client in clients]
    for _ in range(1200 // steps):
        pairs = zip(clients, states, strict=True)
        often = [batch(0.0)] * steps
        ends = [worked(c.local, state, sent(w), *often) for c, state in pairs]
        states = [state for _, state in ends]
        w = w + torch.stack([reply.update for reply, _ in ends]).mean(0)
    models = [c.model(w, s) for c, s in zip(clients, states, strict=True)]
    return w, torch.stack(models)


@pytest.mark.parametrize(
    ("steps", "alpha", "mix"),
    [(4, alpha, "shared") for alpha in (0.3, 0.5, 0.8)] + [(1, 0.5, "moving")],
)
def test_mixed_with_a_w_that_does_not_move_it_ends_where_local_does(steps, alpha, mix):
    """With one step a round the copy that moves has not moved yet."""
    w, models = converged(steps, alpha, mix)
    torch.testing.assert_close(models, MINIMISERS, rtol=0, atol=1e-5)
    assert (models - w).norm(dim=1).min() > 0.1  # w is elsewhere
    assert (share_of_w(0.5, 1, CURVATURES) == 0).all()


def share_of_w(alpha, steps, curvature):
    """How much of w − c stays, as the docstring says."""
    slow, fast = 1 - LR * alpha**2 * curvature, 1 - LR * curvature
    p = torch.stack([slow ** (steps - 1 - s) for s in range(steps)])
    p = p / p.sum(0)
    gained = sum(p[s] * fast**s for s in range(steps))
    return (1 - alpha) * (1 - gained)


@pytest.mark.parametrize(("alpha", "steps"), [(0.3, 4), (0.5, 4), (0.8, 4), (0.5, 20)])
def test_mixed_with_the_moving_copy_a_share_of_w_stays(alpha, steps):
    """In long rounds the model lies between local and shared by α."""
    w, models = converged(steps, alpha, "moving")
    share = share_of_w(alpha, steps, CURVATURES)
    expected = MINIMISERS + share * (w - MINIMISERS)
    torch.testing.assert_close(models, expected, rtol=0, atol=1e-5)
    assert (share > 0.03).all() and (share < 1 - alpha).all()
    assert share_of_w(0.4, 3000, CURVATURES).min() > 0.59  # of 1 − α = 0.6


@pytest.mark.parametrize("mix", ["moving", "shared"])
@pytest.mark.parametrize("adaptive", [True, False])
def test_written_out(tree, mix, adaptive):
    own = {"name": "apfl", "alpha": 0.4, "mix": mix, "adaptive": adaptive, "lr": 0.2}
    made = built(tree("plain", own), THREADS, 0)
    v, alpha = made.federation.broadcast.w.repeat(6, 1), [0.4] * 6

    def local(k, w, r, slots):
        copy = w
        for t, held in enumerate(slots):
            a, against = alpha[k], copy if mix == "moving" else w
            g = gradient(made, a * v[k] + (1 - a) * against, held)
            if adaptive and t == 0:
                step = a - 0.2 * ((v[k] - against) @ g).item()
                alpha[k] = min(1.0, max(0.0, step))
            v[k] = v[k] - 0.2 * a * g
            copy = copy - 0.1 * gradient(made, copy, held)
        return copy - w

    w = written_out(made, local)
    a = torch.tensor(alpha, dtype=w.dtype)[:, None]
    agrees(made, w, a * v + (1 - a) * w)
    if adaptive:
        assert len({*alpha}) >= 4
        assert [x for (x,) in told(made)] == pytest.approx(alpha, abs=1e-12)
