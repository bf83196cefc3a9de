"""Eq. 4 and 5 of the certified-robustness paper."""

import math

import numpy as np
import pytest
import torch

from troth.client.personalizers.mixture import mixture
from troth.networks import flat
from troth.types import Budget

from ..hand import BOWL, by, number, round_
from ..small import THREADS, agrees, built, gradient, models, quadratics, written_out


def made(how=None, share=1.0, **options):
    """One client by itself."""
    return mixture(BOWL, how or by(0.1), None, Budget(steps=1), share, **options)


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_a_round_by_hand(share):
    # λ = 0.25, lr = 0.1, mean 4: from 1, x = 5: 0.25·(−4) + 1.5·(−3) = −5.5 → 1.55;
    # then x = 3: 0.25·(−1.45) + 1.5·(−2.45) = −4.0375 → 1.95375
    one, w = made(lam=0.25, share=share), number(4.0)
    update, state = round_(one, one.init(number(1.0)), 4.0, 5.0, 3.0)
    assert one.model(w, state).item() == pytest.approx(1.95375, abs=1e-14)
    assert update == pytest.approx(share * (1.95375 - 4.0), abs=1e-14)
    _, state = round_(one, state, -2.0, 5.0)  # goes on from its own
    expected = 1.95375 - 0.1 * (0.25 * (1.95375 - 5) + 1.5 * (1.95375 + 2))
    assert state[0].item() == pytest.approx(expected, abs=1e-14)


def test_from_the_mean_by_hand():
    # from 4 whatever its own is: x = 5: 0.25·(−1) = −0.25 → 4.025; then x = 3:
    # 0.25·1.025 + 1.5·0.025 = 0.29375 → 3.995625
    one = made(lam=0.25, start="mean", share=0.5)
    for own in (1.0, -7.0, math.nan):
        update, state = round_(one, (number(own),), 4.0, 5.0, 3.0)
        assert state[0].item() == pytest.approx(3.995625, abs=1e-14)
        assert update == pytest.approx(-0.004375, abs=1e-14)  # no running mean


def test_lam_0_does_not_look_at_the_data():
    one, first = made(lam=0.0), (number(1.0),)
    seen = [round_(one, first, 4.0, x)[1][0].item() for x in (5.0, -100.0)]
    assert seen == pytest.approx([1.6, 1.6])
    assert round_(one, first, 1.0, 5.0)[1][0].item() == 1.0


@pytest.mark.parametrize("w", [math.inf, -math.inf, math.nan])
def test_lam_1_of_its_own_never_looks_at_the_mean(w):
    (v,) = round_(made(lam=1.0), (number(1.0),), w, 5.0)[1]
    assert v.item() == pytest.approx(1.4)


def test_moments_live_on_with_its_own_and_start_anew_from_the_mean():
    heavy, first = by(0.1, "momentum"), number(1.0)
    own, mean = (made(heavy, lam=0.25, start=s) for s in ("own", "mean"))
    state = own.init(first)
    for expected in ([1.0, 0.0], [1.55, -5.5]):
        assert [x.item() for x in state] == pytest.approx(expected)
        _, state = round_(own, state, 4.0, 5.0)
    g = 0.25 * (1.55 - 5) + 1.5 * (1.55 - 4)
    assert state[1].item() == pytest.approx(0.9 * -5.5 + g)
    state = mean.init(first)
    for _ in range(3):  # round after round the same
        _, state = round_(mean, state, 4.0, 5.0)
        assert [x.item() for x in state] == pytest.approx([4.025])


@pytest.mark.parametrize(
    ("lam", "lr", "steps", "rounds"),
    [(0.1, 1.0, 1, 500), (0.5, 0.4, 4, 150), (0.9, 0.4, 2, 150)],
)
def test_it_comes_to_the_minimizer_of_its_objective(lam, lr, steps, rounds):
    own = {"name": "mixture", "lam": lam}
    found = quadratics(own, rounds, lr=lr, steps=steps)
    expected = found.coupled(lam, 2 * (1 - lam))
    np.testing.assert_allclose(found.v, expected, atol=1e-8)
    np.testing.assert_allclose(found.w, expected.mean(0), atol=1e-8)
    assert np.abs(expected - expected.mean(0)).max() > 1e-3  # they are not all alike


@pytest.mark.parametrize(
    ("start", "distance"), [("own", "sum"), ("mean", "sum"), ("own", "mean")]
)
def test_written_out(tree, start, distance):
    lam, lr = 0.3, 0.1
    own = {"name": "mixture", "lam": lam, "start": start, "distance": distance}
    ready = built(tree("plain", own), THREADS, 0)
    sizes = torch.tensor(flat.layout(ready.network).sizes)
    divisor = sizes.repeat_interleave(sizes) if distance == "mean" else 1.0
    theta = ready.federation.broadcast.w.repeat(6, 1)

    def local(k, w, r, slots):
        at = theta[k] if start == "own" else w
        for held in slots:
            pull = (at - w) / divisor
            at = at - lr * (lam * gradient(ready, at, held) + 2 * (1 - lam) * pull)
        theta[k] = at
        return (4 / 6 if start == "own" else 1.0) * (at - w)

    agrees(ready, written_out(ready, local), theta)


def test_of_its_own_it_is_l2sgd_in_other_units(tree):
    lam = 0.4
    other = {"name": "l2sgd", "lam": 2 * (1 - lam) / lam, "lr": 0.1 * lam}
    same = built(tree("linear", other))
    found = built(tree("linear", {"name": "mixture", "lam": lam, "lr": 0.1}))
    within = {"rtol": 0, "atol": 1e-13}
    torch.testing.assert_close(models(found), models(same), **within)
    a, b = found.federation.broadcast.w, same.federation.broadcast.w
    torch.testing.assert_close(a, b, **within)
