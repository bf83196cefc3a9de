"""Personal models pulled towards their mean, by both solvers."""

import itertools
import math

import numpy as np
import pytest
import torch

from troth import seeding
from troth.client.personalizers.l2sgd import l2sgd
from troth.federation import newcomers
from troth.types import Budget

from ..hand import BOWL, by, number, round_
from ..small import agrees, built, gradient, own, quadratics, written_out

BOTH = pytest.mark.parametrize("variant", ["partial", "randomised"])


def made(how=None, share=1.0, **options):
    """One client by itself."""
    return l2sgd(BOWL, how or by(0.1), None, Budget(steps=1), share, **options)


def tossed(key, t=0):
    """What falls below p where a step goes towards the mean."""
    return seeding.uniform(seeding.fold(torch.tensor(key), t), 1).item()


def key_of(falls):
    """A key whose first toss is such a one."""
    return next(key for key in range(10_000) if falls(tossed(key)))


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_a_round_by_hand(share):
    # λ = 2, lr = 0.1, mean 4: from 1, x = 5: −4 + 2·(−3) = −10 → 2;
    # then x = 3: −1 + 2·(−2) = −5 → 2.5
    one = made(lam=2.0, share=share)
    update, state = round_(one, one.init(number(1.0)), 4.0, 5.0, 3.0)
    assert one.model(number(4.0), state).item() == pytest.approx(2.5, abs=1e-14)
    assert update == pytest.approx(-1.5 * share, abs=1e-14)
    _, (v,) = round_(one, state, -2.0, 5.0)  # goes on from its own
    assert v.item() == pytest.approx(2.5 - 0.1 * (-2.5 + 2 * 4.5), abs=1e-14)


@pytest.mark.parametrize("w", [math.inf, -math.inf, math.nan])
@BOTH
def test_without_pull_no_mean_does_harm(variant, w):
    one = made(lam=0.0, variant=variant)
    state = one.init(number(1.0))
    for key in range(6):
        _, state = round_(one, state, w, 5.0, 4.0, key=key)
    assert 1.0 < state[0].item() < 5.0


def test_both_sides_of_the_coin_by_hand():
    # from 1 with mean 4, x = 5, lr = 0.1, λ = 2, p = 0.4: towards the mean by
    # 0.1·2/0.4 = 0.5 of the way → 2.5; else by 0.1/0.6 along the gradient → 1 + 2/3
    one = made(lam=2.0, variant="randomised", p=0.4)
    for up, expected in ((True, 2.5), (False, 1 + 2 / 3)):
        key = key_of(lambda u, up=up: (u < 0.4) == up)
        _, (v,) = round_(one, one.init(number(1.0)), 4.0, 5.0, key=key)
        assert v.item() == pytest.approx(expected, abs=1e-14)


def test_on_average_the_randomised_is_the_partial():
    """On quadratics exactly, over all sequences of tosses of a small federation.

    All is linear in the models and a toss does not depend on them, so the mean over
    sequences follows the mean step: that of "partial".
    """
    lam, p, x, mean = 1.5, 0.3, [5.0, -2.0, 0.5], np.zeros(4)
    sides = [key_of(lambda u: u >= p), key_of(lambda u: u < p)]

    def ended(one, keys):
        w, states = 1.0, [one.init(number(1.0)) for _ in x]
        for key in keys:
            pairs = zip(states, x, strict=True)
            out = [round_(one, s, w, b, key=key) for s, b in pairs]
            w += float(np.mean([update for update, _ in out]))
            states = [state for _, state in out]
        return np.array([state[0].item() for state in states] + [w])

    one = made(lam=lam, variant="randomised", p=p)
    for ups in itertools.product([0, 1], repeat=5):
        chance = math.prod(p if up else 1 - p for up in ups)
        mean += chance * ended(one, [sides[up] for up in ups])
    np.testing.assert_allclose(mean, ended(made(lam=lam), [0] * 5), atol=1e-12)


def test_a_strong_pull_is_one_model_for_all():
    found = quadratics({"name": "l2sgd", "lam": 1e4}, 100, lr=1e-4, steps=1)
    assert np.abs(found.v - found.w).max() < 1e-3


@pytest.mark.parametrize(("lam", "steps"), [(0.1, 1), (1.0, 3), (3.0, 1)])
def test_it_comes_to_the_minimizer_of_its_objective(lam, steps):
    found = quadratics(own("l2sgd", lam=lam), 250, lr=0.3, steps=steps)
    expected = found.coupled(1.0, lam)
    np.testing.assert_allclose(found.v, expected, atol=1e-8)
    np.testing.assert_allclose(found.w, expected.mean(0), atol=1e-8)
    assert np.abs(expected - expected.mean(0)).max() > 1e-3  # they are not all alike


@BOTH
def test_written_out(tree, variant):
    """The same coin for all clients of a step; a running mean of personal models."""
    lam, lr, p = 0.7, 0.1, 0.4
    wanted = own("l2sgd", lam=lam, variant=variant, p=p)
    ready = built(tree("linear", wanted), rounds=0)
    v, seen = ready.federation.broadcast.w.repeat(6, 1), set()

    def local(k, w, r, slots):
        key = int(seeding.keys(5, "common", r, torch.tensor(0)))
        for t, held in enumerate(slots):
            if variant == "partial":
                v[k] = v[k] - lr * (gradient(ready, v[k], held) + lam * (v[k] - w))
            elif tossed(key, t) < p:
                v[k] = v[k] - lr * lam / p * (v[k] - w)
            else:
                v[k] = v[k] - lr / (1 - p) * gradient(ready, v[k], held)
            seen.add(tossed(key, t) < p)
        return 4 / 6 * (v[k] - w)

    agrees(ready, written_out(ready, local), v)
    assert seen == {True, False}


def test_newcomers_toss_anew_in_every_round_of_theirs(tree):
    """Without pull a step towards the mean is none, and the others move v."""
    wanted = own("l2sgd", lam=0.0, variant="randomised", p=0.5)
    f = built(tree("linear", wanted, train={"steps": 1})).federation
    ids, seen = np.array([2, 5]), set()
    states = [
        newcomers.join(f.engine, f.broadcast, ids, f.rounds, [1.0] * count)
        for count in range(9)
    ]
    for r, (before, after) in enumerate(itertools.pairwise(states), f.rounds + 1):
        still = tossed(int(f.engine.feed.common(r))) < 0.5
        assert torch.equal(before, after) == still
        seen.add(still)
    assert seen == {True, False}
