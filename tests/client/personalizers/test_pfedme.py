"""Personal models by Moreau envelopes."""

import math

import numpy as np
import pytest
import torch

from troth.client.personalizers.pfedme import pfedme
from troth.types import Budget

from ..hand import BOWL, OPTIMIZERS, batch, by, number, round_, sent
from ..small import THREADS, agrees, built, gradient, quadratics, written_out


def made(own=None, outer=None, task=BOWL, **options):
    """One client by itself."""
    both = own or by(0.1), outer or by(0.05)
    return pfedme(task, *both, None, Budget(steps=1), **options)


def test_a_round_by_hand():
    # w = 4, λ = 2, inner lr 0.1, two inner steps on x = 5:
    # θ: 4 − 0.1·(−1 + 0) = 4.1; 4.1 − 0.1·(−0.9 + 0.2) = 4.17
    # w: 4 − 0.05·2·(4 − 4.17) = 4.017
    # then x = 3, θ from 4.17: 4.17 − 0.1·(1.17 + 0.306) = 4.0224;
    # 4.0224 − 0.1·(1.0224 + 0.0108) = 3.91908; w: 4.017 − 0.1·0.09792 = 4.007208
    one = made(lam=2.0, inner=2)
    for own in (1.0, -50.0, math.nan):  # a round begins at the shared model
        update, state = round_(one, (number(own),), 4.0, 5.0)
        assert one.model(number(4.0), state).item() == pytest.approx(4.17, abs=1e-14)
        assert update == pytest.approx(0.017, abs=1e-14)
    # and the reply of one step gives the personal model
    assert 4.0 + update / (0.05 * 2.0) == pytest.approx(4.17)
    update, (theta,) = round_(one, state, 4.0, 5.0, 3.0)
    assert theta.item() == pytest.approx(3.91908, abs=1e-14)
    assert update == pytest.approx(0.007208, abs=1e-14)


def test_moments_of_theta_start_anew_and_those_of_w_last_a_round():
    one = made(by(0.1, "momentum"), by(0.05, "momentum"), lam=2.0, inner=2)
    update, (theta,) = round_(one, one.init(number(1.0)), 4.0, 5.0, 3.0)
    w, at, pace = 4.0, 4.0, 0.0
    for x in (5.0, 3.0):
        m = 0.0
        for _ in range(2):
            m = 0.9 * m + (at - x) + 2 * (at - w)
            at -= 0.1 * m
        pace = 0.9 * pace + 2 * (w - at)
        w -= 0.05 * pace
    assert theta.item() == pytest.approx(at, abs=1e-14)
    assert update == pytest.approx(w - 4.0, abs=1e-14)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_theta_stops_at_the_first_small_gradient(optimizer):
    """As many steps as it takes, and none after; it is off by tol/(1 + λ) at most."""
    lam, w, x, path = 2.0, 4.0, 5.0, []
    recording = BOWL._replace(grad=lambda v, b: path.append(v) or BOWL.grad(v, b))

    def ended(start=w, **options):
        one = made(by(0.1, optimizer), lam=lam, inner=25, **options)
        return round_(one, one.init(number(1.0)), start, x)[1][0]

    path.append(ended(task=recording))
    sizes = [abs((at.item() - x) + lam * (at.item() - w)) for at in path]
    for tol in (10.0, 0.5, 1e-3):
        first = next((i for i, size in enumerate(sizes) if size <= tol), -1)
        theta = ended(tol=tol)
        assert torch.equal(theta, path[first])
        if first >= 0:
            assert abs(theta.item() - (x + lam * w) / (1 + lam)) <= tol / (1 + lam)
        assert ended(math.nan, tol=tol).isnan()  # which no tolerance hides


def test_clients_stop_each_in_its_own_time():
    """Lifted, one client's last step is not another's."""
    one = made(lam=2.0, inner=30, tol=0.05)
    xs = [4.001, 5.0, 80.0]

    def lifted(x):
        seen = batch(0.0)._replace(x=x, y=x)
        told = sent(number(4.0))
        carry = one.local.begin(told, one.init(number(1.0)))
        return one.local.step(told, carry, seen, seen)[1]

    found = torch.func.vmap(lifted)(number(*xs)[:, None, None])
    for k, x in enumerate(xs):
        _, (theta,) = round_(one, one.init(number(1.0)), 4.0, x)
        assert found[k].item() == pytest.approx(theta.item(), abs=1e-13)
    assert found[0].item() == 4.0  # it was near enough from the start


@pytest.mark.slow("hundreds of rounds")
@pytest.mark.parametrize(("lam", "server", "rounds"), [(0.5, 1.0, 50), (2.0, 0.8, 100)])
def test_it_comes_to_the_minimizer_of_its_objective(lam, server, rounds):
    """θ_k = (A_k + λ)⁻¹(b_k + λw), and w is their mean: one linear system in w."""
    best = 1 / (lam + 1.2)  # curvatures are 0.66 to 1.67
    own = {"name": "pfedme", "lam": lam, "inner": 12, "lr": best}
    found = quadratics(own, rounds, lr=0.8 / lam, steps=1, server=server)
    a, b, eye = np.stack(found.a), np.stack(found.b), np.eye(3)
    back = np.linalg.inv(a + lam * eye)
    right = np.einsum("nij,nj->i", back, b)
    w = np.linalg.solve(5 * eye - lam * back.sum(0), right)
    theta = np.einsum("nij,nj->ni", back, b + lam * w)
    np.testing.assert_allclose(w, theta.mean(0), atol=1e-10)
    np.testing.assert_allclose(found.w, w, atol=1e-5)
    np.testing.assert_allclose(found.v, theta, atol=1e-5)
    plain = np.linalg.solve(a.sum(0), b.sum(0))  # that of fedavg is another
    assert np.abs(w - plain).max() > 1e-3


@pytest.mark.parametrize("tol", [0.0, 0.9])
def test_written_out(tree, tol):
    lam, inner, fast, slow = 1.5, 4, 0.2, 0.1
    own = {"name": "pfedme", "lam": lam, "inner": inner, "tol": tol, "lr": fast}
    ready = built(tree("linear", own, train={"lr": slow}), THREADS, 0)
    models = ready.federation.broadcast.w.repeat(6, 1)
    stopped = []

    def local(k, w, r, slots):
        at, theta = w, w
        for held in slots:
            for _ in range(inner):
                g = gradient(ready, theta, held) + lam * (theta - at)
                stopped.append(bool(g.norm() <= tol))
                if stopped[-1]:
                    break
                theta = theta - fast * g
            at = at - slow * lam * (at - theta)
        models[k] = theta
        return at - w

    w = written_out(ready, local)
    agrees(ready, w, models)
    assert {*stopped} == ({False, True} if tol else {False})
