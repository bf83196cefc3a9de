"""Personal models pulled towards their mean, by both solvers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.client.personalizers.l2sgd import l2sgd
from troth.engine.engine import Plan
from troth.federation import newcomers
from troth.types import Budget, Client, Descent, Refusal

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
PLANS = [LOOP, VMAP, THREADS]


def tossed(key: int, t: int = 0) -> float:
    """What falls below p where a step goes towards the mean."""
    return seeding.uniform(seeding.fold(torch.tensor(key), t), 1).item()


def key_of(falls: Callable[[float], bool]) -> int:
    """A key whose first toss is such a one."""
    return next(key for key in range(10_000) if falls(tossed(key)))


@pytest.fixture
def made(bowl: Any) -> Callable[..., Client]:
    """(descent, share, **options) of one client by itself."""

    def one(how: Descent | None = None, share: float = 1.0, **options: Any) -> Client:
        by = how or bowl.by(0.1)
        return l2sgd(bowl.task, by, None, Budget(steps=1), share, **options)

    return one


# One client by itself


def test_a_round_by_hand(bowl: Any, made: Any) -> None:
    # λ = 2, lr = 0.1, mean 4: from 1, x = 5: −4 + 2·(−3) = −10 → 2;
    # then x = 3: −1 + 2·(−2) = −5 → 2.5
    one = made(lam=2.0)
    update, state = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0, 3.0)
    assert one.model(bowl.number(4.0), state).item() == pytest.approx(2.5, abs=1e-14)
    assert update == pytest.approx(-1.5, abs=1e-14)
    _, (v,) = bowl.round(one, state, -2.0, 5.0)  # goes on from its own
    assert v.item() == pytest.approx(2.5 - 0.1 * (-2.5 + 2 * 4.5), abs=1e-14)


def test_some_of_the_clients_move_the_mean_by_their_share(bowl: Any, made: Any) -> None:
    one = made(lam=2.0, share=0.25)
    update, (v,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0)
    assert v.item() == pytest.approx(2.0)
    assert update == pytest.approx(0.25 * (2.0 - 4.0))


@pytest.mark.parametrize("w", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("variant", ["partial", "randomised"])
def test_without_pull_no_mean_does_harm(
    bowl: Any, made: Any, variant: str, w: float
) -> None:
    one = made(lam=0.0, variant=variant)
    state = one.init(bowl.number(1.0))
    for key in range(6):
        _, state = bowl.round(one, state, w, 5.0, 4.0, key=key)
    assert 1.0 < state[0].item() < 5.0


def test_the_schedule_scales_the_step(bowl: Any, made: Any) -> None:
    first = bowl.number(1.0)
    one = made(lam=2.0)
    _, (v,) = bowl.round(one, one.init(first), 4.0, 5.0, scale=0.5)
    assert v.item() == pytest.approx(1.5)
    one = made(lam=2.0, variant="randomised", p=0.25)
    towards, away = key_of(lambda u: u < 0.25), key_of(lambda u: u >= 0.25)
    _, (v,) = bowl.round(one, one.init(first), 4.0, 5.0, scale=0.5, key=towards)
    assert v.item() == pytest.approx(1 + 0.05 * 2 / 0.25 * 3)
    _, (v,) = bowl.round(one, one.init(first), 4.0, 5.0, scale=0.5, key=away)
    assert v.item() == pytest.approx(1 + 0.05 / 0.75 * 4)


def test_moments_live_on_in_the_state(bowl: Any, made: Any) -> None:
    one = made(bowl.by(0.1, "momentum"), lam=2.0)
    _, state = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0)
    assert [t.item() for t in state] == pytest.approx([2.0, -10.0])
    _, state = bowl.round(one, state, 4.0, 5.0)
    assert state[1].item() == pytest.approx(0.9 * -10 - 3 - 4)


@pytest.mark.parametrize("variant", ["partial", "randomised"])
def test_it_says_that_the_server_sees_it(bowl: Any, made: Any, variant: str) -> None:
    one = made(lam=0.3, share=0.7, variant=variant)
    assert one.shares_personal and one.finish is None and one.extra == 0
    update, (v,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0)
    assert 4.0 + update / 0.7 == pytest.approx(v.item())


def test_how_long_it_works(bowl: Any) -> None:
    own, round_, by = Budget(epochs=2), Budget(steps=7), bowl.by(0.1)
    for variant in ("partial", "randomised"):
        one = l2sgd(bowl.task, by, own, round_, 1.0, variant=variant)
        assert one.local.budgets == (own,)
        one = l2sgd(bowl.task, by, None, round_, 1.0, variant=variant)
        assert one.local.budgets == (round_,)


# The coin


def test_both_sides_of_the_coin_by_hand(bowl: Any, made: Any) -> None:
    # from 1 with mean 4, x = 5, lr = 0.1, λ = 2, p = 0.4: towards the mean by
    # 0.1·2/0.4 = 0.5 of the way → 2.5; else by 0.1/0.6 along the gradient → 1 + 2/3
    one = made(lam=2.0, variant="randomised", p=0.4)
    first = one.init(bowl.number(1.0))
    _, (v,) = bowl.round(one, first, 4.0, 5.0, key=key_of(lambda u: u < 0.4))
    assert v.item() == pytest.approx(2.5, abs=1e-14)
    _, (v,) = bowl.round(one, first, 4.0, 5.0, key=key_of(lambda u: u >= 0.4))
    assert v.item() == pytest.approx(1 + 2 / 3, abs=1e-14)


def test_on_average_the_randomised_is_the_partial(bowl: Any, made: Any) -> None:
    """On quadratics exactly, over all sequences of tosses of a small federation.

    All is linear in the models and a toss does not depend on them, so the mean over
    sequences follows the mean step: that of "partial".
    """
    lam, p, rounds, x = 1.5, 0.3, 5, [5.0, -2.0, 0.5]
    sides = [key_of(lambda u: u >= p), key_of(lambda u: u < p)]

    def ended(one: Client, keys: list[int]) -> np.ndarray:
        w, states = 1.0, [one.init(bowl.number(1.0)) for _ in x]
        for key in keys:
            pairs = zip(states, x, strict=True)
            out = [bowl.round(one, s, w, b, key=key) for s, b in pairs]
            w += float(np.mean([update for update, _ in out]))
            states = [state for _, state in out]
        return np.array([state[0].item() for state in states] + [w])

    one = made(lam=lam, variant="randomised", p=p)
    mean = np.zeros(4)
    for sides_up in itertools.product([0, 1], repeat=rounds):
        chance = math.prod(p if up else 1 - p for up in sides_up)
        mean += chance * ended(one, [sides[up] for up in sides_up])
    expected = ended(made(lam=lam), [0] * rounds)
    np.testing.assert_allclose(mean, expected, atol=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.85])
def test_the_coin_falls_as_often_as_it_should(bowl: Any, made: Any, p: float) -> None:
    """Of 10⁴ tosses, within 5 standard deviations: 6e-7 of failing, were it drawn."""
    one = made(bowl.by(0.05), lam=1.0, variant="randomised", p=p)
    towards, rounds, steps = 0, 100, 100
    for r in range(rounds):
        key = seeding.keys(7, "common", r, torch.tensor(0))
        tosses = seeding.uniform(seeding.fold(key, torch.arange(steps)), 1)[:, 0]
        falls = (tosses < p).tolist()
        towards += sum(falls)
        if r > 2:
            continue
        v, x = 1.0, [5.0 + t for t in range(20)]  # and that the client goes by it
        for at, up in zip(x, falls, strict=False):
            v += 0.05 / p * (4.0 - v) if up else 0.05 / (1 - p) * (at - v)
        first = one.init(bowl.number(1.0))
        _, (found,) = bowl.round(one, first, 4.0, *x, key=int(key))
        assert found.item() == pytest.approx(v, rel=1e-12)
    n = rounds * steps
    assert abs(towards - n * p) <= 5 * math.sqrt(n * p * (1 - p))


def test_other_rounds_and_other_seeds_toss_anew(small: Any) -> None:
    def keys(seed: int) -> list[int]:
        feed = small.built("l2sgd", LOOP, seed=seed).federation.engine.feed
        return [feed.common(r).item() for r in range(6)]

    assert keys(3) == keys(3)
    assert len({*keys(3), *keys(4)}) == 12


def test_newcomers_toss_anew_in_every_round_of_theirs(small: Any) -> None:
    """Without pull a step towards the mean is none, and the others move v."""
    own = {"name": "l2sgd", "lam": 0.0, "variant": "randomised", "p": 0.5}
    f = small.trained(own, LOOP, train={"steps": 1}).federation
    ids, seen = np.array([2, 5]), []
    states = [
        newcomers.join(f.engine, f.broadcast, ids, f.rounds, [1.0] * count)
        for count in range(9)
    ]
    for j, (before, after) in enumerate(itertools.pairwise(states)):
        still = tossed(int(f.engine.feed.common(f.rounds + 1 + j))) < 0.5
        assert torch.equal(before, after) == still
        seen.append(still)
    assert {*seen} == {True, False}


# Limits, exactly

VARIANTS: list[dict[str, Any]] = [
    {"own": {"optimizer": "momentum", "lr": 0.03}},
    {"own": {"steps": 2}},
    {"own": {"epochs": 1}},
    {"train": {"weight_decay": 0.01}},
    {"adversary": {"fraction": 0.3}, "attack": "model_replacement"},
]
CASES: list[tuple[Plan, dict[str, Any]]] = [(plan, {}) for plan in PLANS]
CASES += [(plan, more) for plan in (LOOP, THREADS) for more in VARIANTS]


@pytest.mark.parametrize(("plan", "more"), CASES, ids=str)
def test_lam_0_is_local(small: Any, plan: Plan, more: dict[str, Any]) -> None:
    own = more.get("own", {})
    sections = {key: value for key, value in more.items() if key != "own"}
    found = small.trained({"name": "l2sgd", "lam": 0.0, **own}, plan, **sections)
    alone = small.trained({"name": "local", **own}, plan, **sections)
    assert torch.equal(small.models(found), small.models(alone))
    w = alone.federation.broadcast.w
    assert not torch.equal(small.models(found)[0], w)


def test_a_strong_pull_is_one_model_for_all(quadratics: Any) -> None:
    found = quadratics({"name": "l2sgd", "lam": 1e4}, 100, lr=1e-4, steps=1)
    assert np.abs(found.v - found.w).max() < 1e-3


# Where it comes to


@pytest.mark.parametrize(("lam", "steps"), [(0.1, 1), (1.0, 3), (3.0, 1)])
def test_it_comes_to_the_minimiser_of_its_objective(
    quadratics: Any, lam: float, steps: int
) -> None:
    own = {"name": "l2sgd", "lam": lam}
    found = quadratics(own, 250, lr=0.3, steps=steps)
    expected = found.coupled(1.0, lam)
    np.testing.assert_allclose(found.v, expected, atol=1e-8)
    np.testing.assert_allclose(found.w, expected.mean(0), atol=1e-8)
    assert np.abs(expected - expected.mean(0)).max() > 1e-3  # they are not all alike


def test_the_published_solver_comes_near_it_and_nearer_with_shorter_steps(
    quadratics: Any,
) -> None:
    """A noise of the order of √η is left: a sixteenth of η leaves a quarter of it."""
    own = {"name": "l2sgd", "lam": 1.0, "variant": "randomised", "p": 0.4}
    schedule = {"name": "steps", "every": 130, "factor": 0.25}
    away = []
    for rounds, more in ((130, {}), (390, {"schedule": schedule})):
        found = quadratics(own, rounds, lr=0.2, steps=1, **more)
        off = found.v - found.coupled(1.0, 1.0)
        away.append(float(np.sqrt(np.mean(off**2))))
    assert 1e-3 < away[0] < 0.2
    assert away[1] < away[0] / 2


# A federation


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
@pytest.mark.parametrize("variant", ["partial", "randomised"])
def test_written_out(small: Any, plan: Plan, variant: str) -> None:
    """The same coin for all clients of a step; a running mean of personal models."""
    lam, lr, p = 0.7, 0.1, 0.4
    own = {"name": "l2sgd", "lam": lam, "variant": variant, "p": p}
    built = small.built(own, plan)
    v = built.federation.broadcast.w.repeat(small.n, 1)
    seen = set()

    def local(k: int, w: Tensor, r: int, gradients: list[Any]) -> Tensor:
        key = int(seeding.keys(3, "common", r, torch.tensor(0)))
        for t, gradient in enumerate(gradients):
            if variant == "partial":
                v[k] = v[k] - lr * (gradient(v[k]) + lam * (v[k] - w))
            elif tossed(key, t) < p:
                v[k] = v[k] - lr * lam / p * (v[k] - w)
            else:
                v[k] = v[k] - lr / (1 - p) * gradient(v[k])
            seen.add(tossed(key, t) < p)
        return small.cohort / small.n * (v[k] - w)

    w = small.written_out(built, local)
    for _ in built.federation.train():
        pass
    assert (built.federation.broadcast.w - w).abs().max() <= 1e-12
    assert (small.models(built) - v).abs().max() <= 1e-12
    assert seen == {True, False}


def test_with_all_clients_the_shared_model_is_their_mean(small: Any) -> None:
    for variant in ("partial", "randomised"):
        own = {"name": "l2sgd", "variant": variant}
        built = small.trained(own, THREADS, train={"cohort": 0})
        mean = small.models(built).mean(0)
        assert (built.federation.broadcast.w - mean).abs().max() <= 1e-14


@pytest.mark.parametrize("variant", ["partial", "randomised"])
def test_running_statistics_are_averaged_and_not_pulled(
    small: Any, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from torch import nn\n"
        "def first(shape, classes):\n"
        "    norm = nn.BatchNorm1d(36)\n"
        "    return nn.Sequential(nn.Flatten(), norm, nn.Linear(36, classes))\n"
    )
    (tmp_path / "pulled.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    sections = {"model": "pulled:first", "train": {"cohort": 0}}
    found, free = (
        small.trained(
            {"name": "l2sgd", "variant": variant, "lam": lam}, THREADS, **sections
        )
        for lam in (4.0, 0.0)
    )
    v, alone = small.models(found), small.models(free)
    assert torch.equal(v[:, -72:], alone[:, -72:])
    assert (v[:, -72:] - v[0, -72:]).abs().max() > 1e-3
    assert not torch.allclose(v[:, :-72], alone[:, :-72], 0, 1e-5)
    mean = v[:, -72:].mean(0)
    assert torch.allclose(found.federation.broadcast.w[-72:], mean, 0, 1e-12)


@pytest.mark.parametrize("variant", ["partial", "randomised"])
def test_resumed_it_gives_the_same_bytes(
    small: Any, variant: str, resumed: Any
) -> None:
    wanted = small.tree({"name": "l2sgd", "variant": variant})
    wanted |= {"checkpoint": {"every": 1}, "engine": {"how": "threads", "workers": 1}}
    resumed(wanted)


# Refusals


@pytest.mark.parametrize("lam", [-0.1, math.nan, math.inf])
@pytest.mark.parametrize("variant", ["partial", "randomised"])
def test_a_lam_that_is_no_weight_is_refused(
    made: Any, variant: str, lam: float
) -> None:
    words = f"l2sgd's lam = {lam} must be a finite number of at least 0"
    with pytest.raises(Refusal, match=re.escape(words)):
        made(lam=lam, variant=variant)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.5, 1.5, math.nan, math.inf])
def test_a_coin_with_one_side_is_refused(made: Any, p: float) -> None:
    words = f"l2sgd's p = {p} must lie strictly between 0 and 1"
    with pytest.raises(Refusal, match=re.escape(words)):
        made(variant="randomised", p=p)
    made(variant="partial", p=p)  # tosses none: a grid may mix both


def test_a_step_that_diverges_is_refused(bowl: Any, made: Any) -> None:
    words = (
        "l2sgd's step diverges: lr·lam = 0.1·20 = 2 must stay below 2; "
        "set personalizer.lr below 0.1"
    )
    with pytest.raises(Refusal, match=re.escape(words)):
        made(lam=20.0)
    made(lam=19.9)
    words = (
        "l2sgd's step diverges: lr·lam/p = 0.1·20 = 2 must stay below 2; "
        "set personalizer.lr below 0.1"
    )
    with pytest.raises(Refusal, match=re.escape(words)):
        made(lam=10.0, variant="randomised", p=0.5)
    made(lam=9.9, variant="randomised", p=0.5)
    made(bowl.by(0.1, "adam"), lam=1e6)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_the_coin_takes_plain_steps(bowl: Any, made: Any, optimizer: str) -> None:
    words = "takes plain gradient steps, and the optimizer keeps moments; set"
    with pytest.raises(Refusal, match=words):
        made(bowl.by(0.01, optimizer), variant="randomised")


def test_options_of_the_wrong_sort_are_refused(small: Any) -> None:
    with pytest.raises(Refusal, match="personalizer.variant = 'none' is not one of"):
        lookup.check("personalizer", "l2sgd", {"variant": "none"})
    full = {"lam": 1.0, "variant": "partial", "p": 0.5}
    assert lookup.check("personalizer", "l2sgd", {}) == full
    with pytest.raises(Refusal, match="'l2sgd' makes the client's update itself"):
        small.built("l2sgd", LOOP, solver="scaffold")
