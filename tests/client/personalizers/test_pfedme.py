"""Personal models by Moreau envelopes."""

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

import troth
from troth import lookup
from troth.client.personalizers.pfedme import pfedme
from troth.engine.engine import Plan
from troth.types import Batch, Budget, Client, Descent, Refusal

LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)
PLANS = [LOOP, VMAP, THREADS]


@pytest.fixture
def made(bowl: Any) -> Callable[..., Client]:
    """(inner descent, outer descent, **options) of one client by itself."""

    def one(
        own: Descent | None = None, outer: Descent | None = None, **options: Any
    ) -> Client:
        by = own or bowl.by(0.1), outer or bowl.by(0.05)
        return pfedme(bowl.task, *by, None, Budget(steps=1), **options)

    return one


# One client by itself


def test_a_round_by_hand(bowl: Any, made: Any) -> None:
    # w = 4, λ = 2, inner lr 0.1, two inner steps on x = 5:
    # θ: 4 − 0.1·(−1 + 0) = 4.1; 4.1 − 0.1·(−0.9 + 0.2) = 4.17
    # w: 4 − 0.05·2·(4 − 4.17) = 4.017
    # then x = 3, θ from 4.17: 4.17 − 0.1·(1.17 + 0.306) = 4.0224;
    # 4.0224 − 0.1·(1.0224 + 0.0108) = 3.91908; w: 4.017 − 0.1·0.09792 = 4.007208
    one = made(lam=2.0, inner=2)
    update, state = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0)
    assert one.model(bowl.number(4.0), state).item() == pytest.approx(4.17, abs=1e-14)
    assert update == pytest.approx(0.017, abs=1e-14)
    update, (theta,) = bowl.round(one, state, 4.0, 5.0, 3.0)
    assert theta.item() == pytest.approx(3.91908, abs=1e-14)
    assert update == pytest.approx(0.007208, abs=1e-14)


def test_a_round_begins_at_the_shared_model(bowl: Any, made: Any) -> None:
    one = made(lam=2.0)
    found = {
        bowl.round(one, (bowl.number(own),), 4.0, 5.0)[1][0].item()
        for own in (1.0, -50.0, math.nan)
    }
    assert len(found) == 1


def test_enough_steps_reach_the_nearest_point(bowl: Any, made: Any) -> None:
    # the minimiser of ½(θ − x)² + (λ/2)(θ − w)² is (x + λw)/(1 + λ)
    one = made(bowl.by(0.3), lam=2.0, inner=200)
    update, (theta,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 10.0)
    assert theta.item() == pytest.approx((10 + 2 * 4) / 3, abs=1e-14)
    assert update == pytest.approx(0.05 * 2 * (6 - 4), abs=1e-14)


def test_the_reply_of_one_step_gives_the_personal_model(bowl: Any, made: Any) -> None:
    one = made(lam=2.0)
    assert one.shares_personal and one.finish is None and one.extra == 0
    update, (theta,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 9.0)
    assert 4.0 + update / (0.05 * 2.0) == pytest.approx(theta.item())


def test_the_schedule_scales_both_steps(bowl: Any, made: Any) -> None:
    first = bowl.number(1.0)
    whole, half = made(lam=2.0), made(bowl.by(0.05), bowl.by(0.025), lam=2.0)
    scaled = bowl.round(whole, whole.init(first), 4.0, 5.0, 3.0, scale=0.5)
    expected = bowl.round(half, half.init(first), 4.0, 5.0, 3.0)
    assert scaled[0] == pytest.approx(expected[0], abs=1e-15)
    assert scaled[1][0].item() == pytest.approx(expected[1][0].item(), abs=1e-14)


def test_moments_of_theta_start_anew_and_those_of_w_last_a_round(
    bowl: Any, made: Any
) -> None:
    one = made(bowl.by(0.1, "momentum"), bowl.by(0.05, "momentum"), lam=2.0, inner=2)
    update, (theta,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0, 3.0)
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


def test_it_costs_as_many_gradients_as_inner_steps(bowl: Any) -> None:
    calls = []

    def counted(v: Tensor, batch: Batch) -> Tensor:
        calls.append(1)
        return bowl.task.grad(v, batch)

    task = bowl.task._replace(grad=counted)
    for inner, tol in ((1, 0.0), (5, 0.0), (7, 100.0)):
        by = bowl.by(0.1)
        one = pfedme(task, by, by, None, Budget(steps=1), inner=inner, tol=tol)
        calls.clear()
        bowl.round(one, one.init(bowl.number(1.0)), 4.0, 5.0, 3.0)
        assert len(calls) == 2 * inner


def test_how_long_it_works(bowl: Any) -> None:
    own, round_, by = Budget(epochs=2), Budget(steps=7), bowl.by(0.1)
    assert pfedme(bowl.task, by, by, own, round_).local.budgets == (own,)
    assert pfedme(bowl.task, by, by, None, round_).local.budgets == (round_,)


# The tolerance


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("tol", [10.0, 0.5, 1e-3])
def test_theta_stops_at_the_first_small_gradient(
    bowl: Any, made: Any, optimizer: str, tol: float
) -> None:
    """As many steps as it takes, and none after; it is off by tol/(1 + λ) at most."""
    lam, w, x, by = 2.0, 4.0, 5.0, bowl.by(0.1, optimizer)
    paths = [bowl.number(w)]
    for inner in range(1, 26):
        one = made(by, lam=lam, inner=inner)
        paths.append(bowl.round(one, one.init(bowl.number(1.0)), w, x)[1][0])
    sizes = [abs((at.item() - x) + lam * (at.item() - w)) for at in paths]
    first = next((i for i, size in enumerate(sizes) if size <= tol), None)
    one = made(by, lam=lam, inner=25, tol=tol)
    _, (theta,) = bowl.round(one, one.init(bowl.number(1.0)), w, x)
    expected = paths[-1] if first is None else paths[first]
    assert torch.equal(theta, expected)
    if first is not None:
        assert abs(theta.item() - (x + lam * w) / (1 + lam)) <= tol / (1 + lam)


def test_clients_stop_each_in_its_own_time(bowl: Any, made: Any) -> None:
    """Lifted, one client's last step is not another's."""
    one = made(lam=2.0, inner=30, tol=0.05)
    xs = [4.001, 5.0, 80.0]

    def lifted(x: Tensor) -> Tensor:
        seen = bowl.batch(0.0)._replace(x=x, y=x)
        sent = troth.types.Broadcast(
            bowl.number(4.0), bowl.number(), torch.ones((), dtype=torch.float64)
        )
        carry = one.local.begin(sent, one.init(bowl.number(1.0)))
        return one.local.step(sent, carry, seen, seen)[1]

    found = torch.func.vmap(lifted)(bowl.number(*xs)[:, None])
    for k, x in enumerate(xs):
        _, (theta,) = bowl.round(one, one.init(bowl.number(1.0)), 4.0, x)
        assert found[k].item() == pytest.approx(theta.item(), abs=1e-13)
    assert found[0].item() == 4.0  # it was near enough from the start


def test_a_lost_model_is_not_hidden_by_the_tolerance(bowl: Any, made: Any) -> None:
    one = made(lam=2.0, tol=0.1)
    _, (theta,) = bowl.round(one, one.init(bowl.number(1.0)), math.nan, 5.0)
    assert theta.isnan().all()


# Where it comes to


@pytest.mark.parametrize(("lam", "server", "rounds"), [(0.5, 1.0, 50), (2.0, 0.8, 100)])
def test_it_comes_to_the_minimiser_of_its_objective(
    quadratics: Any, lam: float, server: float, rounds: int
) -> None:
    """θ_k = (A_k + λ)⁻¹(b_k + λw), and w is their mean: one linear system in w."""
    best = 1 / (lam + 1.2)  # curvatures are 0.66 to 1.67
    own = {"name": "pfedme", "lam": lam, "inner": 12, "lr": best}
    found = quadratics(own, rounds, lr=0.8 / lam, steps=1, server=server)
    eye = np.eye(3)
    back = [np.linalg.inv(a + lam * eye) for a in found.a]
    right = sum(inverse @ b for inverse, b in zip(back, found.b, strict=True))
    w = np.linalg.solve(5 * eye - lam * sum(back), right)
    pairs = zip(back, found.b, strict=True)
    theta = np.array([inverse @ (b + lam * w) for inverse, b in pairs])
    np.testing.assert_allclose(w, theta.mean(0), atol=1e-10)
    np.testing.assert_allclose(found.w, w, atol=1e-5)
    np.testing.assert_allclose(found.v, theta, atol=1e-5)
    plain = np.linalg.solve(sum(found.a), sum(found.b))  # that of fedavg is another
    assert np.abs(w - plain).max() > 1e-3


# A federation


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.how)
@pytest.mark.parametrize("tol", [0.0, 0.6])
def test_written_out(small: Any, plan: Plan, tol: float) -> None:
    lam, inner, fast, slow = 1.5, 4, 0.2, 0.1
    own = {"name": "pfedme", "lam": lam, "inner": inner, "tol": tol, "lr": fast}
    built = small.built(own, plan, train={"lr": slow})
    models = built.federation.broadcast.w.repeat(small.n, 1)
    stopped = []

    def local(k: int, w: Tensor, r: int, gradients: list[Any]) -> Tensor:
        at, theta = w, w
        for gradient in gradients:
            for _ in range(inner):
                g = gradient(theta) + lam * (theta - at)
                stopped.append(bool(g.norm() <= tol))
                if stopped[-1]:
                    break
                theta = theta - fast * g
            at = at - slow * lam * (at - theta)
        models[k] = theta
        return at - w

    w = small.written_out(built, local)
    for _ in built.federation.train():
        pass
    assert (built.federation.broadcast.w - w).abs().max() <= 1e-12
    assert (small.models(built) - models).abs().max() <= 1e-12
    assert {*stopped} == ({False, True} if tol else {False})


def test_the_servers_rate_is_beta(small: Any) -> None:
    """w ← (1 − β)w + β·mean w_k, in a round."""
    own, train = {"name": "pfedme", "lam": 2.0}, {"rounds": 1, "cohort": 0}
    before = small.built(own, LOOP, train=train).federation.broadcast.w.clone()
    found = {
        beta: small.trained(
            own, LOOP, train=train, server={"name": "sgd", "lr": beta}
        ).federation.broadcast.w
        for beta in (1.0, 0.25)
    }
    expected = 0.75 * before + 0.25 * found[1.0]
    assert (found[0.25] - expected).abs().max() <= 1e-15


@pytest.mark.parametrize("tol", [0.0, 1e-3])
def test_running_statistics_are_those_of_the_personal_model(
    small: Any, tol: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the inputs depend on the batches alone: λ changes nothing in them."""
    text = (
        "from torch import nn\n"
        "def first(shape, classes):\n"
        "    norm = nn.BatchNorm1d(36)\n"
        "    return nn.Sequential(nn.Flatten(), norm, nn.Linear(36, classes))\n"
    )
    (tmp_path / "enveloped.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    sections = {"model": "enveloped:first", "train": {"cohort": 0, "rounds": 1}}
    found = [
        small.trained(
            {"name": "pfedme", "lam": lam, "inner": 2, "tol": tol}, THREADS, **sections
        )
        for lam in (0.1, 5.0)
    ]
    weak, strong = (small.models(one) for one in found)
    assert torch.equal(weak[:, -72:], strong[:, -72:])
    assert not torch.allclose(weak[:, :-72], strong[:, :-72], 0, 1e-5)
    for one in found:  # and the server has their mean
        mean = small.models(one)[:, -72:].mean(0)
        assert torch.allclose(one.federation.broadcast.w[-72:], mean, 0, 1e-12)


def test_other_optimisers_agree_on_all_plans(small: Any) -> None:
    own = {"name": "pfedme", "optimizer": "adam", "lr": 0.01, "tol": 0.3, "inner": 3}
    sections = {"train": {"optimizer": "momentum", "rounds": 2}}
    built = [small.trained(own, plan, **sections) for plan in PLANS]
    for one in built[1:]:
        assert (small.models(one) - small.models(built[0])).abs().max() <= 1e-10
        w = one.federation.broadcast.w - built[0].federation.broadcast.w
        assert w.abs().max() <= 1e-10
    assert small.models(built[0]).isfinite().all()


def test_resumed_it_gives_the_same_bytes(small: Any, resumed: Any) -> None:
    wanted = small.tree({"name": "pfedme", "tol": 0.01})
    wanted |= {"checkpoint": {"every": 1}, "engine": {"how": "threads", "workers": 1}}
    resumed(wanted)


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 0.0}, "pfedme's lam = 0.0 must be a finite number above 0"),
        ({"lam": -1.0}, "pfedme's lam = -1.0 must be a finite number above 0"),
        ({"lam": math.nan}, "pfedme's lam = nan must be a finite number above 0"),
        ({"lam": math.inf}, "pfedme's lam = inf must be a finite number above 0"),
        ({"inner": 0}, "pfedme's inner = 0 must be at least 1"),
        ({"inner": -3}, "pfedme's inner = -3 must be at least 1"),
        ({"tol": -1e-9}, "pfedme's tol = -1e-09 must be a finite number of at least 0"),
        ({"tol": math.nan}, "pfedme's tol = nan must be a finite number of at least 0"),
        ({"tol": math.inf}, "pfedme's tol = inf must be a finite number of at least 0"),
    ],
    ids=str,
)
def test_what_is_out_of_range_is_refused(
    made: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refusal, match=re.escape(words)):
        made(**options)


def test_steps_that_diverge_are_refused(bowl: Any, made: Any) -> None:
    words = (
        "pfedme's step diverges: lr·lam = 0.1·20 = 2 must stay below 2; "
        "set personalizer.lr below 0.1"
    )
    with pytest.raises(Refusal, match=re.escape(words)):
        made(lam=20.0)
    made(lam=19.9)
    words = (
        "pfedme's step diverges: lr·lam = 0.5·5 = 2.5 must stay below 2; "
        "set train.lr below 0.4"
    )
    with pytest.raises(Refusal, match=re.escape(words)):
        made(bowl.by(0.1), bowl.by(0.5), lam=5.0)
    made(bowl.by(0.1, "adam"), bowl.by(0.1, "adam"), lam=1e6)


def test_options_of_the_wrong_sort_are_refused(small: Any) -> None:
    with pytest.raises(Refusal, match="personalizer.inner = 2.5 is"):
        lookup.check("personalizer", "pfedme", {"inner": 2.5})
    full = {"lam": 1.0, "inner": 5, "tol": 0.0}
    assert lookup.check("personalizer", "pfedme", {}) == full
    with pytest.raises(Refusal, match="'pfedme' makes the client's update itself"):
        small.built("pfedme", LOOP, solver="fedprox")
