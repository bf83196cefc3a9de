from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import troth
from troth import build, lookup
from troth.client.client import descent
from troth.client.combine import beside
from troth.client.personalizers._mixed import mixed, through
from troth.client.personalizers.apfl import apfl
from troth.client.personalizers.local import local
from troth.client.solvers.fedavg import fedavg
from troth.config import reader
from troth.config.schema import Part
from troth.engine.engine import Plan
from troth.networks import task as tasks
from troth.types import Anchor, Batch, Broadcast, Budget, Descent, Refusal, Task

Tree = Callable[..., dict[str, Any]]
ONE = torch.ones((), dtype=torch.float64)
NAN, INF = float("nan"), float("inf")
LOOP, VMAP, THREADS = Plan("loop", 1), Plan("vmap", 4), Plan("threads", 1, 2)


# One client by itself


def bowl(curvature: float = 1.0) -> Task:
    """F(v) = ½·L·‖v − x‖²."""

    def loss(v: Tensor, batch: Batch) -> Tensor:
        return 0.5 * curvature * (v - batch.x).square().sum()

    return Task(1, 0, loss, torch.func.grad(loss), lambda v, x: x)


def number(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


def batch(x: float, t: int = 0) -> Batch:
    return Batch(number(x), number(x), ONE[None], torch.tensor(t), torch.tensor(9))


def by(lr: float, optimizer: str = "sgd") -> Descent:
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    return descent(part, lr, 0.0)


def at(w: float, before: float = 77.0) -> Anchor:
    return Anchor(number(w), number(88.0), number(before))


def test_a_step_by_hand() -> None:
    # v̄ = ¼·1 + ¾·4 = 3.25, ∇F = 3.25 − 5 = −1.75: v = 1 + 0.1·¼·1.75 = 1.04375
    one, b = apfl(bowl(), by(0.1), alpha=0.25, mix="shared"), batch(5.0)
    state = one.step(one.init(number(1.0)), at(4.0), b, b, ONE)
    assert state[0].item() == pytest.approx(1.04375, abs=1e-14)
    # read with another w: ¼·1.04375 + ¾·8
    assert one.model(number(8.0), state).item() == pytest.approx(6.2609375, abs=1e-14)


def test_a_step_with_the_moving_copy_by_hand() -> None:
    # v̄ = ¼·1 + ¾·8 = 6.25, ∇F = 1.25: v = 1 − 0.1·¼·1.25
    one, b = apfl(bowl(), by(0.1), alpha=0.25), batch(5.0)
    state = one.step(one.init(number(1.0)), at(4.0, before=8.0), b, b, ONE)
    assert state[0].item() == pytest.approx(0.96875, abs=1e-14)


def test_the_schedule_scales_the_step() -> None:
    one, b = apfl(bowl(), by(0.1), alpha=0.25, mix="shared"), batch(5.0)
    state = one.step(one.init(number(1.0)), at(4.0), b, b, 0.5 * ONE)
    assert state[0].item() == pytest.approx(1.021875, abs=1e-14)


def test_alpha_follows_its_own_gradient_at_the_first_step_of_a_round() -> None:
    # ⟨v − w, ∇F(v̄)⟩ = (1 − 4)·(−1.75) = 5.25: α = 0.25 − 0.01·5.25 = 0.1975, and v
    # moved by the α there was: 1 + 0.01·¼·1.75
    one = apfl(bowl(), by(0.01), alpha=0.25, adaptive=True, mix="shared")
    state, b = one.init(number(1.0)), batch(5.0)
    state = one.step(state, at(4.0), b, b, ONE)
    assert [x.item() for x in state] == pytest.approx([1.004375, 0.1975], abs=1e-14)
    again = one.step(state, at(4.0), batch(5.0, t=1), b, ONE)
    assert again[1].item() == state[1].item()
    assert again[0].item() != state[0].item()
    half = one.step(one.init(number(1.0)), at(4.0), b, b, 0.5 * ONE)
    assert half[1].item() == pytest.approx(0.25 - 0.005 * 5.25, abs=1e-14)
    assert one.tell(state).tolist() == [state[1].item()]
    assert one.columns == ("alpha",)


@pytest.mark.parametrize(("x", "expected"), [(50.0, 0.0), (-50.0, 1.0)])
def test_alpha_stays_between_0_and_1(x: float, expected: float) -> None:
    one = apfl(bowl(), by(1.0), alpha=0.5, adaptive=True, mix="shared")
    state = one.step(one.init(number(1.0)), at(4.0), batch(x), batch(x), ONE)
    assert state[1].item() == expected
    assert one.model(number(4.0), state).item() in (4.0, state[0].item())


@pytest.mark.parametrize("w", [INF, -INF, NAN])
@pytest.mark.parametrize("mix", ["moving", "shared"])
def test_alpha_survives_a_shared_model_that_is_lost(w: float, mix: Any) -> None:
    one = apfl(bowl(), by(0.1), adaptive=True, mix=mix)
    state = one.step(
        one.init(number(1.0)), at(w, before=w), batch(5.0), batch(5.0), ONE
    )
    assert 0 <= state[1].item() <= 1


@pytest.mark.parametrize("optimizer", lookup.names("optimizer"))
@pytest.mark.parametrize("w", [4.0, INF, NAN])
def test_all_its_own_is_local_exactly(optimizer: str, w: float) -> None:
    task = bowl(0.7)
    both = apfl(task, by(0.1, optimizer), alpha=1.0), local(task, by(0.1, optimizer))
    states = [one.init(number(1.0)) for one in both]
    for t in range(4):
        b = batch(5.0 + t, t)
        pairs = zip(both, states, strict=True)
        states = [one.step(s, at(w, before=w), b, b, ONE) for one, s in pairs]
    found = [one.model(number(w), s) for one, s in zip(both, states, strict=True)]
    assert torch.equal(*found)
    assert found[0].isfinite()


def test_nothing_of_its_own_is_the_shared_model_and_costs_nothing() -> None:
    one = apfl(bowl(), by(0.1), alpha=0.0)
    assert one.idle
    assert one.model(number(4.0), one.init(number(NAN))).item() == 4.0


def test_the_ends_of_a_mixture_are_exact_whatever_the_other_is() -> None:
    v, lost = number(0.1, 0.7, 0.3), number(NAN, INF, -INF)
    for tail in (0, 1):
        assert torch.equal(mixed(v, lost, ONE, tail), v)
        assert torch.equal(mixed(lost, v, 0 * ONE, tail), v)
        assert mixed(v, lost, 1.0, tail) is v and mixed(lost, v, 0.0, tail) is v
    for weight in (0.25, 0.25 * ONE):
        found = mixed(v, number(1.0, 1.0, 9.0), weight, 1)
        assert found.tolist() == pytest.approx([0.775, 0.925, 0.3])  # statistics: v's


def test_statistics_go_where_those_of_the_mixture_go() -> None:
    v, w, g = number(1.0, 2.0), number(5.0, 6.0), number(0.4, 0.3)
    between = mixed(v, w, 0.25 * ONE, 1)
    for part, share in ((v, 0.25), (w, 0.75)):
        pull = through(g, between, part, share * ONE, 1)
        assert pull[0].item() == pytest.approx(share * 0.4)
        assert (part - pull)[1].item() == pytest.approx(2.0 - 0.3)  # a whole step
    assert torch.equal(through(g, v, v, ONE, 1), g)


@pytest.mark.parametrize("alpha", [-0.1, 1.0000001, NAN, INF, -INF])
@pytest.mark.parametrize("adaptive", [True, False])
def test_refuses_what_is_no_share(alpha: float, adaptive: bool) -> None:
    words = rf"^apfl's alpha = {alpha} must lie in \[0, 1\]: [^\n]*$"
    with pytest.raises(Refusal, match=words):
        apfl(bowl(), by(0.1), alpha=alpha, adaptive=adaptive)


def test_options_and_references() -> None:
    assert lookup.check("personalizer", "apfl", {}) == {
        "alpha": 0.5,
        "adaptive": False,
        "mix": "moving",
    }
    assert lookup.check("personalizer", "apfl", {"alpha": 1})["alpha"] == 1.0
    entries = lookup.about("personalizer", "apfl").citations
    keys = [entry.split("{")[1].partition(",")[0] for entry in entries]
    assert keys == ["deng2020adaptive", "li2020multitask"]
    with pytest.raises(Refusal, match="'fixed' is not one of 'moving', 'shared'"):
        lookup.check("personalizer", "apfl", {"mix": "fixed"})
    with pytest.raises(Refusal, match="it must be true or false"):
        lookup.check("personalizer", "apfl", {"adaptive": 1})


# At convergence (FMTL's D.1): F_k(v) = ½(v − c_k)ᵀ·diag(L_k)·(v − c_k)

LR = 0.4
DRAW = np.random.default_rng(0)
CURVATURES = torch.from_numpy(DRAW.uniform(0.3, 2.0, (4, 3)))
MINIMISERS = torch.from_numpy(DRAW.normal(size=(4, 3)))


def quadratic(k: int) -> Task:
    def grad(v: Tensor, batch: Batch) -> Tensor:
        return CURVATURES[k] * (v - MINIMISERS[k])

    return Task(3, 0, lambda v, batch: v.sum(), grad, lambda v, x: x)


def converged(steps: int, alpha: float, mix: Any) -> tuple[Tensor, list[Tensor]]:
    """w and all clients' models: every client in every round, whole gradients."""
    clients = []
    for k in range(4):
        own = apfl(quadratic(k), by(LR), alpha=alpha, mix=mix)
        budget = Budget(steps=steps)
        clients.append(beside(fedavg(quadratic(k), by(LR)), own, (budget, budget)))
    w = torch.zeros(3, dtype=torch.float64)
    states, seen = [client.init(w) for client in clients], batch(0.0)
    for _ in range(1200 // steps):
        sent, updates = Broadcast(w, w[:0], ONE), []
        for k, client in enumerate(clients):
            carry = client.local.begin(sent, states[k])
            for _ in range(steps):
                carry = client.local.step(sent, carry, seen, seen)
            reply, states[k] = client.local.end(sent, carry, states[k], seen)
            updates.append(reply.update)
        w = w + torch.stack(updates).mean(0)
    return w, [c.model(w, s) for c, s in zip(clients, states, strict=True)]


@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.8])
def test_mixed_with_the_fixed_w_it_ends_where_local_does(alpha: float) -> None:
    w, models = converged(4, alpha, "shared")
    for model, own in zip(models, MINIMISERS, strict=True):
        torch.testing.assert_close(model, own, rtol=0, atol=1e-5)
        assert torch.linalg.vector_norm(model - w) > 0.1  # w is elsewhere


def share_of_w(alpha: float, steps: int, curvature: Tensor) -> Tensor:
    """How much of w − c stays, as the docstring says."""
    slow, fast = 1 - LR * alpha**2 * curvature, 1 - LR * curvature
    p = torch.stack([slow ** (steps - 1 - s) for s in range(steps)])
    p = p / p.sum(0)
    gained = sum(p[s] * fast**s for s in range(steps))
    return (1 - alpha) * (1 - gained)


@pytest.mark.parametrize(("alpha", "steps"), [(0.3, 4), (0.5, 4), (0.8, 4), (0.5, 20)])
def test_mixed_with_the_moving_copy_a_share_of_w_stays(
    alpha: float, steps: int
) -> None:
    w, models = converged(steps, alpha, "moving")
    for k, model in enumerate(models):
        own, share = MINIMISERS[k], share_of_w(alpha, steps, CURVATURES[k])
        expected = own + share * (w - own)
        torch.testing.assert_close(model, expected, rtol=0, atol=1e-5)
        assert (share > 0.03).all() and (share < 1 - alpha).all()


def test_with_one_step_a_round_nothing_moves_and_it_is_local_again() -> None:
    _, models = converged(1, 0.5, "moving")
    torch.testing.assert_close(torch.stack(models), MINIMISERS, rtol=0, atol=1e-5)
    assert (share_of_w(0.5, 1, CURVATURES) == 0).all()


def test_in_long_rounds_it_is_between_local_and_shared_by_alpha() -> None:
    assert share_of_w(0.4, 3000, CURVATURES).min() > 0.59  # of 1 − α = 0.6


# A federation


def built(wanted: dict[str, Any], plan: Plan) -> build.Built:
    made = build.build(reader.from_dict(wanted), plan=plan)
    for _ in made.federation.train():
        pass
    return made


def models(made: build.Built) -> Tensor:
    f = made.federation
    rows = f.population.read(np.arange(f.population.n))
    return f.engine.models(f.broadcast.w, rows)


@pytest.mark.parametrize(("alpha", "other"), [(1.0, "local"), (0.0, "none")])
@pytest.mark.parametrize(
    ("plan", "model"), [(LOOP, "normed"), (VMAP, "plain"), (THREADS, "normed")]
)
def test_the_ends_are_local_and_shared_bit_for_bit(
    tree: Tree, alpha: float, other: str, model: str, plan: Plan
) -> None:
    mine = {"name": "apfl", "alpha": alpha}
    found = built(tree(model, mine, solver="scaffold"), plan)
    expected = built(tree(model, other, solver="scaffold"), plan)
    assert torch.equal(found.federation.broadcast.w, expected.federation.broadcast.w)
    assert torch.equal(models(found), models(expected))


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize(("alpha", "other"), [(1 - 1e-13, "local"), (1e-13, "none")])
def test_near_its_ends_it_is_near_them(
    tree: Tree, alpha: float, other: str, adaptive: bool
) -> None:
    """So the exact ends are ends of the same method. α hardly moves at this lr."""
    train = {"lr": 1e-9} if adaptive else {}
    mine = {"name": "apfl", "alpha": alpha, "adaptive": adaptive}
    found = built(tree("plain", mine, train=train), LOOP)
    expected = built(tree("plain", other, train=train), LOOP)
    assert (models(found) - models(expected)).abs().max() <= (
        1e-7 if adaptive else 1e-11
    )


@pytest.mark.parametrize(
    ("plan", "mix", "adaptive"),
    [
        (LOOP, "moving", False),
        (VMAP, "moving", True),
        (THREADS, "moving", True),
        (VMAP, "shared", True),
        (THREADS, "shared", False),
    ],
)
def test_written_out(
    gradient: Any, tree: Tree, plan: Plan, mix: str, adaptive: bool
) -> None:
    own = {"name": "apfl", "alpha": 0.4, "mix": mix, "adaptive": adaptive, "lr": 0.2}
    made = build.build(reader.from_dict(tree("plain", own)), plan=plan)
    f = made.federation
    n, w = f.population.n, f.broadcast.w.clone()
    v, alpha = w.repeat(n, 1), [0.4] * n
    for r in range(3):
        updates = []
        for k in f.sample(r):
            slots, weight = f.engine.feed.draw(np.array([k]), 5, r)
            copy = w.clone()
            for t, row in enumerate(slots[:, 0]):
                held, a = row[weight[t, 0] > 0], alpha[k]
                against = copy if mix == "moving" else w
                g = gradient(made, a * v[k] + (1 - a) * against, held)
                if adaptive and t == 0:
                    step = a - 0.2 * ((v[k] - against) @ g).item()
                    alpha[k] = min(1.0, max(0.0, step))
                v[k] = v[k] - 0.2 * a * g
                copy = copy - 0.1 * gradient(made, copy, held)
            updates.append(copy - w)
        w = w + torch.stack(updates).mean(0)
    for _ in f.train():
        pass
    a = torch.tensor(alpha, dtype=w.dtype)[:, None]
    assert (f.broadcast.w - w).abs().max() <= 1e-12
    assert (models(made) - (a * v + (1 - a) * w)).abs().max() <= 1e-12
    if adaptive:
        assert len({*alpha}) >= 4
        told = f.engine.told(f.population.read(np.arange(n)))
        assert told[:, 0].tolist() == pytest.approx(alpha, abs=1e-12)


@pytest.mark.parametrize(
    ("plan", "own"),
    [
        (VMAP, {"steps": 2}),
        (THREADS, {"epochs": 1, "optimizer": "momentum", "mix": "shared"}),
    ],
)
def test_plans_agree(tree: Tree, plan: Plan, own: dict[str, Any]) -> None:
    train = {"steps": 3, "rounds": 2}
    wanted = tree("normed", {"name": "apfl", "adaptive": True, **own}, train=train)
    expected = models(built(wanted, LOOP))
    assert (models(built(wanted, plan)) - expected).abs().max() <= 1e-11


# A run


def as_run(tree: Tree, own: dict[str, Any]) -> dict[str, Any]:
    engine = {"device": "cpu", "how": "threads", "workers": 2}
    train = {"cohort": 2, "rounds": 3, "precision": "float32"}
    wanted = tree("plain", {"name": "apfl", **own}, train=train, engine=engine)
    return wanted | {"checkpoint": {"every": 1}}


def test_clients_csv_has_what_alpha_became(tree: Tree, tmp_path: Path) -> None:
    wanted = as_run(tree, {"adaptive": True, "alpha": 0.5})
    [run] = troth.run(wanted, out=tmp_path / "run")
    alpha, asked = run.clients["alpha"], run.clients["asked"] > 0
    assert not asked.all()
    assert alpha[~asked].tolist() == [0.5] * int((~asked).sum())
    assert ((alpha >= 0) & (alpha <= 1)).all()
    assert len({*alpha[asked].tolist()}) >= 2
    [plain] = troth.run(as_run(tree, {}), out=tmp_path / "plain")
    assert "alpha" not in plain.clients


def test_a_run_of_the_shared_model_alone_can_be_used(
    tree: Tree, tmp_path: Path
) -> None:
    [run] = troth.run(as_run(tree, {"alpha": 0.0}), out=tmp_path / "run")
    shared = tasks.flatten(run.shared())
    for k in range(6):
        assert torch.equal(tasks.flatten(run.model(k)), shared)


def test_resumed_it_gives_the_same_bytes(tree: Tree, resumed: Any) -> None:
    wanted = as_run(tree, {"adaptive": True, "optimizer": "adam", "lr": 0.01})
    resumed(wanted)


def test_the_shared_model_does_not_feel_it(tree: Tree) -> None:
    for solver in lookup.names("solver"):
        alone = built(tree("plain", "none", solver=solver), LOOP)
        both = built(tree("plain", "apfl", solver=solver), LOOP)
        assert torch.equal(alone.federation.broadcast.w, both.federation.broadcast.w)
        assert not torch.equal(models(alone), models(both))
