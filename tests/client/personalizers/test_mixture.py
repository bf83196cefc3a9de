"""Eq. 4 and 5 of the certified-robustness paper."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.client.personalizers.mixture import mixture
from troth.engine.engine import Plan
from troth.networks import flat
from troth.types import Budget, Client, Descent, Refusal

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
PLANS = [LOOP, VMAP, THREADS]
MORE: list[dict[str, Any]] = [
    {"optimizer": "momentum", "lr": 0.03},
    {"steps": 2},
    {"epochs": 1},
]
SECTIONS: list[dict[str, Any]] = [
    {"train": {"optimizer": "momentum", "lr": 0.03}},
    {"train": {"weight_decay": 0.01, "epochs": 1, "steps": 0}},
    {"aggregator": "median", "server": {"name": "sgd", "lr": 0.5}},
    {"adversary": {"fraction": 0.3}, "attack": "sign_flip"},
]


def on_plans(variants: list[dict[str, Any]]) -> list[tuple[Plan, dict[str, Any]]]:
    """Without any on all plans; every variant on those that need no trace."""
    plain: list[tuple[Plan, dict[str, Any]]] = [(plan, {}) for plan in PLANS]
    return plain + [(plan, more) for plan in (LOOP, THREADS) for more in variants]


@pytest.fixture
def made(bowl: Any) -> Callable[..., Client]:
    """(descent, share, **options) of one client by itself."""

    def mixed(how: Descent | None = None, share: float = 1.0, **options: Any) -> Client:
        by = how or bowl.by(0.1)
        return mixture(bowl.task, by, None, Budget(steps=1), share, **options)

    return mixed


# One client by itself


def test_a_round_by_hand(bowl: Any, made: Any) -> None:
    # λ = 0.25, lr = 0.1, mean 4: from 1, x = 5: 0.25·(−4) + 1.5·(−3) = −5.5 → 1.55;
    # then x = 3: 0.25·(−1.45) + 1.5·(−2.45) = −4.0375 → 1.95375
    one, w = made(lam=0.25), bowl.number(4.0)
    update, state = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0, 3.0)
    assert one.model(w, state).item() == pytest.approx(1.95375, abs=1e-14)
    assert update == pytest.approx(1.95375 - 4.0, abs=1e-14)
    _, state = bowl.round(one, state, -2.0, 5.0)  # goes on from its own
    expected = 1.95375 - 0.1 * (0.25 * (1.95375 - 5) + 1.5 * (1.95375 + 2))
    assert state[0].item() == pytest.approx(expected, abs=1e-14)


def test_from_the_mean_by_hand(bowl: Any, made: Any) -> None:
    # from 4 whatever its own is: x = 5: 0.25·(−1) = −0.25 → 4.025; then x = 3:
    # 0.25·1.025 + 1.5·0.025 = 0.29375 → 3.995625
    one = made(lam=0.25, start="mean", share=0.5)
    for own in (1.0, -7.0, math.nan):
        update, state = bowl.round(one, (bowl.number(own),), 4.0, 5.0, 3.0)
        assert state[0].item() == pytest.approx(3.995625, abs=1e-14)
        assert update == pytest.approx(-0.004375, abs=1e-14)  # no running mean


def test_some_of_the_clients_move_the_mean_by_their_share(bowl: Any, made: Any) -> None:
    one = made(lam=0.25, share=0.4)
    update, _ = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0)
    assert update == pytest.approx(0.4 * (1.55 - 4.0), abs=1e-14)


def test_lam_0_does_not_look_at_the_data(bowl: Any, made: Any) -> None:
    one = made(lam=0.0)
    first = one.init(bowl.number(1.0))
    seen = [bowl.round(one, first, 4.0, x)[1][0].item() for x in (5.0, -100.0)]
    assert seen == pytest.approx([1.6, 1.6])
    assert bowl.round(one, first, 1.0, 5.0)[1][0].item() == 1.0


@pytest.mark.parametrize("w", [math.inf, -math.inf, math.nan])
def test_lam_1_of_its_own_never_looks_at_the_mean(
    bowl: Any, made: Any, w: float
) -> None:
    one = made(lam=1.0)
    _, (v,) = bowl.round(one, one.init(bowl.number(1.0)), w, 5.0)
    assert v.item() == pytest.approx(1.4)


def test_the_schedule_scales_the_step(bowl: Any, made: Any) -> None:
    one = made(lam=0.25)
    _, (v,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0, scale=0.5)
    assert v.item() == pytest.approx(1.275)


def test_moments_live_on_with_its_own_and_start_anew_from_the_mean(
    bowl: Any, made: Any
) -> None:
    heavy, first = bowl.by(0.1, "momentum"), bowl.number(1.0)
    own, mean = (made(heavy, lam=0.25, start=s) for s in ("own", "mean"))
    assert len(own.init(first)) == 2 and len(mean.init(first)) == 1
    _, (v, m) = bowl.round(own, own.init(first), 4.0, 5.0)
    assert [v.item(), m.item()] == pytest.approx([1.55, -5.5])
    _, (v, m) = bowl.round(own, (v, m), 4.0, 5.0)
    g = 0.25 * (1.55 - 5) + 1.5 * (1.55 - 4)
    assert m.item() == pytest.approx(0.9 * -5.5 + g)
    state = mean.init(first)
    for _ in range(3):  # round after round the same
        _, state = bowl.round(mean, state, 4.0, 5.0)
        assert state[0].item() == pytest.approx(4.025)


@pytest.mark.parametrize(("start", "part"), [("own", 0.7), ("mean", 1.0)])
def test_it_says_that_the_server_sees_it(
    bowl: Any, made: Any, start: str, part: float
) -> None:
    one = made(lam=0.3, share=0.7, start=start)
    assert one.shares_personal and one.finish is None and one.extra == 0
    update, state = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0)
    assert 4.0 + update / part == pytest.approx(state[0].item())


def test_how_long_it_works(bowl: Any) -> None:
    own, round_, by = Budget(epochs=2), Budget(steps=7), bowl.by(0.1)
    assert mixture(bowl.task, by, own, round_, 1.0).local.budgets == (own,)
    assert mixture(bowl.task, by, None, round_, 1.0).local.budgets == (round_,)


# Limits, exactly


@pytest.mark.parametrize(("plan", "more"), on_plans(MORE), ids=str)
def test_lam_1_of_its_own_is_local(
    small: Any, plan: Plan, more: dict[str, Any]
) -> None:
    found = small.trained({"name": "mixture", "lam": 1.0, **more}, plan)
    alone = small.trained({"name": "local", **more}, plan)
    assert torch.equal(small.models(found), small.models(alone))
    start = alone.federation.population.start[: found.federation.engine.task.d]
    assert (small.models(alone) - start).abs().max() > 1e-3


@pytest.mark.parametrize(("plan", "sections"), on_plans(SECTIONS), ids=str)
def test_lam_1_from_the_mean_is_fedavg(
    small: Any, plan: Plan, sections: dict[str, Any]
) -> None:
    own = {"name": "mixture", "lam": 1.0, "start": "mean"}
    found = small.trained(own, plan, **sections)
    plain = small.trained("none", plan, **sections)
    assert torch.equal(found.federation.broadcast.w, plain.federation.broadcast.w)
    assert plain.federation.broadcast.w.abs().max() > 1e-3
    # and a client's model is the shared one of its last round, trained on
    assert not torch.equal(small.models(found)[0], found.federation.broadcast.w)


def test_of_its_own_it_is_l2sgd_in_other_units(small: Any) -> None:
    lam = 0.4
    found = small.trained({"name": "mixture", "lam": lam, "lr": 0.1}, LOOP)
    other = {"name": "l2sgd", "lam": 2 * (1 - lam) / lam, "lr": 0.1 * lam}
    expected = small.trained(other, LOOP)
    assert (small.models(found) - small.models(expected)).abs().max() <= 1e-13
    w, there = found.federation.broadcast.w, expected.federation.broadcast.w
    assert (w - there).abs().max() <= 1e-13


# Where it comes to


@pytest.mark.parametrize(
    ("lam", "lr", "steps", "rounds"),
    [(0.1, 1.0, 1, 500), (0.5, 0.4, 4, 150), (0.9, 0.4, 2, 150)],
)
def test_it_comes_to_the_minimiser_of_its_objective(
    quadratics: Any, lam: float, lr: float, steps: int, rounds: int
) -> None:
    own = {"name": "mixture", "lam": lam}
    found = quadratics(own, rounds, lr=lr, steps=steps)
    expected = found.coupled(lam, 2 * (1 - lam))
    np.testing.assert_allclose(found.v, expected, atol=1e-8)
    np.testing.assert_allclose(found.w, expected.mean(0), atol=1e-8)
    assert np.abs(expected - expected.mean(0)).max() > 1e-3  # they are not all alike


def test_from_the_mean_too_where_a_round_is_long_enough(quadratics: Any) -> None:
    """The mean of nearest points is the mean of the minimiser: its θ̄ is free."""
    own = {"name": "mixture", "lam": 0.5, "start": "mean"}
    found = quadratics(own, 80, lr=0.4, steps=20)
    np.testing.assert_allclose(found.v, found.coupled(0.5, 1.0), atol=1e-5)
    short = quadratics(own, 40, lr=0.4, steps=2)
    assert np.abs(short.v - short.coupled(0.5, 1.0)).max() > 1e-3


# A federation


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
@pytest.mark.parametrize("start", ["own", "mean"])
@pytest.mark.parametrize("distance", ["sum", "mean"])
def test_written_out(small: Any, plan: Plan, start: str, distance: str) -> None:
    lam, lr = 0.3, 0.1
    own = {"name": "mixture", "lam": lam, "start": start, "distance": distance}
    built = small.built(own, plan)
    place = flat.layout(built.network)
    each = [torch.full((size,), float(size)) for size in place.sizes]
    divisor = torch.cat(each).double() if distance == "mean" else 1.0
    theta = built.federation.broadcast.w.repeat(small.n, 1)
    share = small.cohort / small.n if start == "own" else 1.0

    def local(k: int, w: Tensor, r: int, gradients: list[Any]) -> Tensor:
        at = theta[k] if start == "own" else w
        for gradient in gradients:
            pull = (at - w) / divisor
            at = at - lr * (lam * gradient(at) + 2 * (1 - lam) * pull)
        theta[k] = at
        return share * (at - w)

    w = small.written_out(built, local)
    for _ in built.federation.train():
        pass
    assert (built.federation.broadcast.w - w).abs().max() <= 1e-12
    assert (small.models(built) - theta).abs().max() <= 1e-12


def test_running_statistics_are_not_pulled_and_move_whatever_lam_is(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from torch import nn\n"
        "def first(shape, classes):\n"
        "    norm = nn.BatchNorm1d(36)\n"
        "    return nn.Sequential(nn.Flatten(), norm, nn.Linear(36, classes))\n"
    )
    (tmp_path / "mixed.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = {
        lam: small.models(
            small.trained({"name": "mixture", "lam": lam}, THREADS, model="mixed:first")
        )
        for lam in (1.0, 0.3, 0.0)
    }
    alone = small.trained("local", THREADS, model="mixed:first")
    tail = small.models(alone)[:, -72:]
    for v in found.values():
        assert torch.equal(v[:, -72:], tail)
    assert not torch.allclose(found[0.3][:, :-72], found[1.0][:, :-72], 0, 1e-5)


def test_resumed_it_gives_the_same_bytes(small: Any, resumed: Any) -> None:
    wanted = small.tree({"name": "mixture", "optimizer": "momentum", "lr": 0.02})
    wanted |= {"checkpoint": {"every": 1}, "engine": {"how": "threads", "workers": 1}}
    resumed(wanted)


# Refusals


@pytest.mark.parametrize("lam", [-0.1, 1.1, math.nan, math.inf, -math.inf])
def test_lam_outside_its_range_is_refused(made: Any, lam: float) -> None:
    words = f"mixture's lam = {lam} must lie in [0, 1]; 1 is the client's own loss"
    with pytest.raises(Refusal, match=re.escape(words)):
        made(lam=lam)


def test_a_step_that_diverges_is_refused(bowl: Any, made: Any) -> None:
    words = (
        "mixture's step diverges: lr·2(1 − lam) = 2·1 = 2 must stay below 2; "
        "set personalizer.lr below 2"
    )
    with pytest.raises(Refusal, match=re.escape(words)):
        made(bowl.by(2.0), lam=0.5)
    made(bowl.by(1.999), lam=0.5)
    made(bowl.by(1e6), lam=1.0)
    made(bowl.by(3.7, "momentum"), lam=0.5)
    with pytest.raises(Refusal, match="set personalizer.lr below 3.8"):
        made(bowl.by(3.8, "momentum"), lam=0.5)
    made(bowl.by(1e6, "adam"), lam=0.0)


def test_a_start_that_there_is_not_is_refused() -> None:
    with pytest.raises(Refusal, match="personalizer.start = 'zero' is not one of"):
        lookup.check("personalizer", "mixture", {"start": "zero"})
    full = {"lam": 0.5, "start": "own", "distance": "sum"}
    assert lookup.check("personalizer", "mixture", {}) == full


def test_a_solver_beside_it_is_refused(small: Any) -> None:
    with pytest.raises(Refusal, match="'mixture' makes the client's update itself"):
        small.built("mixture", LOOP, solver="fedprox")
