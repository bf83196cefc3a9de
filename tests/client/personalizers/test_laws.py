"""What holds of every personalizer in the folder, and which equals which.

One that stands beside a solver gives a `Personal`; one that owns the reply a `Client`.
"""

from typing import Any

import pytest
import torch
from torch import nn

from troth import lookup
from troth.client.adversarial.pgd import pgd
from troth.client.regularizers.l2sq import l2sq
from troth.engine import packing
from troth.networks import task as tasks
from troth.networks.masks import Masks
from troth.types import Anchor, Batch, Budget, Client, Personal

from ..hand import OPTIMIZERS, by, drawn, sent, worked
from ..small import LOOP, THREADS, VMAP, built, done, models, states, told

NAMES = lookup.names("personalizer")
REGULARIZERS = lookup.names("regularizer")
NEEDED = {name: {"without": "finetune"} for name in ("upweight", "group_dro")}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("apfl", {"adaptive": True}),
    ("apfl", {"mix": "shared"}),
    ("coupled", {"solve": "exact"}),
    ("ditto", {"anchor": "moving"}),
    ("ditto", {"lam": "auto", "choose": "code"}),
    ("ditto", {"lam": "auto", "choose": "paper", "few": 1}),
    ("ditto", {"lam": "auto"}),
    ("finetune", {"keep": "best"}),
    ("group_dro", {"keep": "accurate"}),
    ("l2sgd", {"variant": "randomised"}),
    ("mixture", {"distance": "mean"}),
    ("mixture", {"start": "mean"}),
    ("per_fedavg", {"variant": "hessian_free"}),
    ("pfedme", {"tol": 0.3}),
    ("transfer", {"w1": "auto", "w2": "auto", "candidates": [0.1, 1.0]}),
]
MEMBERS = [(name, dict[str, Any]()) for name in NAMES] + VARIANTS
EVERY = pytest.mark.parametrize(("name", "options"), MEMBERS, ids=str)
MINE, WORK = Budget(steps=3), Budget(steps=4)


def network():
    """Two layers, one of which normalises."""
    return nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)).double()


def problem():
    """A classifier of three numbers into two classes: d = 14, float64."""
    return tasks.functional(tasks.Objective(network(), 2), "float64")


def batch(client=0):
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    label = torch.tensor([0, 1, 1, 0, 1, 0])
    x = drawn(6, 3, seed=client)
    return Batch(x, label, weight, torch.tensor(0), torch.tensor(1))


def made(name, options, task, optimizer="sgd", lr=0.1, budget=MINE):
    one = lookup.call(
        lookup.find("personalizer", name),
        lookup.check("personalizer", name, NEEDED.get(name, {}) | options),
        task=task,
        descent=by(lr, optimizer),
        solving=by(lr, optimizer),
        regularizer=l2sq(),
        adversarial=pgd(task, 1.0, bounds=[]),
        budget=budget,
        work=WORK,
        share=0.5,
        masks=Masks(network()),
    )
    assert isinstance(one, Personal | Client)
    return one


def stepped(one, w, state, seen, scale=1.0):
    """The state after a step, whichever sort it is, and after one of its last phase."""
    told = sent(w, scale)
    if isinstance(one, Personal):
        state = one.step(state, Anchor(w, w + 1, w), seen, seen, told.scale)
    else:
        reply, state = worked(one.local, state, told, seen)
        assert reply.update.shape == w.shape
        assert reply.extra.shape == (one.extra,)
    if one.finish:
        reply, state = worked(one.finish, state, told, seen)
        assert torch.equal(reply.update, one.model(w, state) - w)
    return state


def each(name, options):
    """With every optimiser that it takes, and two models w0 and w."""
    plain = options.get("variant") == "randomised"
    task, (w0, w) = problem(), drawn(2, 14, seed=10)
    by_all = OPTIMIZERS if not plain else ["sgd"]
    return [(made(name, options, task, by), w0, w) for by in by_all]


@EVERY
def test_the_state_is_tensors_whose_shapes_stay(name, options):
    """And a newcomer, as anybody, predicts with a whole model."""
    for one, w0, w in each(name, options):
        before = one.init(w0)
        assert isinstance(before, tuple)
        after = stepped(one, w, before, batch())
        old, new = packing.leaves(before), packing.leaves(after)
        assert all(leaf.dtype == w0.dtype for leaf in (*old, *new))  # packed as a row
        assert [leaf.shape for leaf in new] == [leaf.shape for leaf in old]
        assert all(leaf.isfinite().all() for leaf in new)
        packing.like(before, new)  # the same tree
        for state in (before, after):
            model = one.model(w, state)
            assert (model.shape, model.dtype) == (w.shape, w.dtype)


@EVERY
def test_twice_the_same_and_nothing_read_is_touched(name, options):
    for one, w0, w in each(name, options):
        seen, begun = batch(), one.init(w0)
        first = packing.leaves(stepped(one, w, begun, seen))
        state = stepped(one, w, begun, seen)  # moments that are not zero
        assert all(map(torch.equal, packing.leaves(state), first))
        read = [w0, w, *packing.leaves(state), *seen]
        kept = [t.clone() for t in read]
        stepped(one, w, state, seen)
        one.model(w, state)
        assert all(map(torch.equal, read, kept))


@EVERY
def test_clients_together_as_each_alone(name, options):
    for one, w0, w in each(name, options):
        seen, state = [batch(k) for k in range(3)], one.init(w0)
        alone = [packing.leaves(stepped(one, w, state, b)) for b in seen]
        stacked = Batch(*(torch.stack(field) for field in zip(*seen, strict=True)))
        rows = [leaf.expand(3, *leaf.shape) for leaf in packing.leaves(state)]
        if not rows:  # nothing to carry
            continue

        def lifted(flat, b, one=one, w=w, state=state):
            made = stepped_apart(one, w, packing.like(state, flat), b)
            return packing.leaves(made)

        together = torch.func.vmap(lifted)(rows, stacked)
        for k, leaves in enumerate(alone):
            for a, b in zip(leaves, together, strict=True):
                torch.testing.assert_close(b[k], a, rtol=1e-12, atol=1e-13)


def stepped_apart(one, w, state, seen):
    """The same without the looks at numbers, which cannot be lifted."""
    told = sent(w)
    if isinstance(one, Personal):
        state = one.step(state, Anchor(w, w + 1, w), seen, seen, told.scale)
    else:
        _, state = worked(one.local, state, told, seen)
    return worked(one.finish, state, told, seen)[1] if one.finish else state


@EVERY
def test_the_schedule_scales_every_learning_rate(name, options):
    """Half of the scale is half of all learning rates, and nothing else."""
    task, (w0, w), ends = problem(), drawn(2, 14, seed=10), []
    for lr, scale in ((0.1, 0.5), (0.05, 1.0)):
        one = made(name, options, task, lr=lr)
        state = one.init(w0)
        for k in range(2):
            state = stepped(one, w, state, batch(k), scale)
        ends.append(packing.leaves(state))
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-14)


AFTER = {"per_fedavg": Budget(epochs=1), "ewc": Budget(steps=4, epochs=50)}


@EVERY
def test_how_long_it_works(name, options):
    """As `[personalizer]` says, or as `[train]`; after the last round for 50 epochs."""
    for budget in (None, Budget(steps=2), Budget(epochs=3)):
        one = made(name, options, problem(), budget=budget)
        if one.finish:
            more = Budget(steps=4 if name == "ewc" else 0)
            mine = budget and Budget(budget.steps + more.steps, budget.epochs)
            usual = AFTER.get(name, Budget(epochs=50))
            assert one.finish.budgets == (mine or usual,) and one.idle
        if isinstance(one, Personal):
            continue
        mine = budget or WORK
        if options.get("solve") == "exact":
            mine = budget or Budget(steps=30)
        works = {mine, WORK} if name in ("fedper", "fedbn") else {mine}
        if name == "fedrep":
            works = {Budget(mine.steps + WORK.steps, mine.epochs + WORK.epochs)}
        assert {*one.local.budgets} == ({WORK} if one.finish else works)


SHOWN = {"coupled", "l2sgd", "mapper", "mixture", "pfedme"}


@EVERY
def test_it_says_whether_the_server_sees_the_personal_model(name, options):
    one = made(name, options, problem())
    assert getattr(one, "shares_personal", False) == (name in SHOWN)
    assert getattr(one, "extra", 0) == 0


# Whole federations


def short(name, options):
    """A personalizer that does not work for fifty epochs."""
    own = {} if name == "none" else {"steps": 4}
    return {"name": name, **NEEDED.get(name, {}), **own, **options}


OTHERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "apfl", "adaptive": True, "steps": 2}, {}),
    ({"name": "apfl", "epochs": 1, "optimizer": "momentum", "mix": "shared"}, {}),
    ({"name": "ditto", "epochs": 1, "lam": "auto", "anchor": "moving"}, {}),
    ({"name": "ditto", "lam": "auto", "optimizer": "adam", "lr": 0.01}, {}),
    (
        {"name": "ditto", "lam": "auto", "choose": "code", "anchor": "moving"},
        {"solver": "scaffold", "regularizer": "fisher"},
    ),
    (
        {"name": "ditto", "lam": "auto", "choose": "code", "optimizer": "momentum"},
        {"regularizer": "kl"},
    ),
    (
        {"name": "ditto", "lam": "auto", "candidates": [0.0, 0.5]},
        {"availability": {"drop": 0.2, "deadline": 0.6, "speed_spread": 0.7}},
    ),
    ({"name": "mapper", "epochs": 1, "optimizer": "momentum"}, {}),
    ({"name": "per_fedavg", "variant": "hessian_free", "alpha": 0.2}, {}),
    (
        {"name": "pfedme", "optimizer": "adam", "lr": 0.01, "tol": 0.3, "inner": 3},
        {"train": {"optimizer": "momentum"}},
    ),
    *(
        (
            {
                "name": "coupled",
                "solve": s,
                "steps": 3,
                "optimizer": "adam",
                "lr": 0.05,
            },
            {"regularizer": r, "aggregator": "sum", "server": {"name": "sgd"}},
        )
        for s in ("exact", "step")
        for r in ("l2sq", "l2", "smooth_l2")
    ),
    *(({"name": "ditto", "lam": 0.5}, {"regularizer": r}) for r in REGULARIZERS),
]


def agree(tree, plans, own, sections):
    """Runs by other plans come to what the loop does, bit for bit or nearly."""
    train = {"rounds": 2, "steps": 3} | sections.get("train", {})
    wanted = tree("normed", own, **sections | {"train": train})
    expected = built(wanted, LOOP)
    end = done(expected)
    assert end.isfinite().all()
    for plan in plans:
        found = built(wanted, plan)
        pairs = [(done(found), end), (states(found), states(expected))]
        pairs += [(found.federation.broadcast.w, expected.federation.broadcast.w)]
        for a, b in pairs:
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_threads_agree_with_the_loop(tree, name):
    agree(tree, [THREADS], short(name, {}), {})


@pytest.mark.parametrize("name", ["local", "fedper"])
def test_a_matrix_of_clients_agrees_with_the_loop(tree, name):
    agree(tree, [VMAP], short(name, {}), {})


@pytest.mark.slow("traces every personalizer, which takes a second each")
@EVERY
def test_and_so_it_does_with_all_of_them(tree, name, options):
    agree(tree, [VMAP, THREADS], short(name, options), {})


@pytest.mark.slow("traces many variants, which takes a second each")
@pytest.mark.parametrize(("own", "sections"), OTHERS, ids=str)
def test_in_any_company_all_plans_agree(tree, own, sections):
    agree(tree, [VMAP, THREADS], own, sections)


LOCAL, NONE, TUNED = ({"name": n} for n in ("local", "none", "finetune"))
HALF: dict[str, Any] = {"steps": 4, "lr": 0.03}
EQUAL: list[tuple[dict[str, Any], dict[str, Any], str]] = [  # one, other, of which
    ({"name": "apfl", "alpha": 1.0}, LOCAL, "both"),
    ({"name": "apfl", "alpha": 0.0}, NONE, "both"),
    ({"name": "ditto", "lam": 0.0}, LOCAL, "both"),
    ({"name": "ditto_finetune", "lam": 0.0, "keep": "best"} | HALF, TUNED, "both"),
    ({"name": "fedbn"}, {"name": "fedper", "layers": ["norm1", "norm2"]}, "both"),
    ({"name": "fedper", "last": 0}, NONE, "both"),
    ({"name": "fedper", "last": 5} | HALF, LOCAL, "models"),
    ({"name": "fedper", "layers": ["*"], "optimizer": "momentum"}, LOCAL, "models"),
    (
        {"name": "fedper", "last": 3},
        {"name": "fedper", "layers": ["fc", "norm2", "conv2"], "last": 1},
        "both",
    ),
    ({"name": "fedrep", "last": 0} | HALF, NONE, "both"),
    ({"name": "fedrep", "last": 5} | HALF, LOCAL, "models"),
    ({"name": "l2sgd", "lam": 0.0} | HALF, LOCAL, "models"),
    ({"name": "l2sgd", "lam": 0.0, "optimizer": "momentum"}, LOCAL, "models"),
    ({"name": "l2sgd", "lam": 0.0, "epochs": 1}, LOCAL, "models"),
    ({"name": "mapper", "weights": [0.0]}, NONE, "both"),
    ({"name": "mapper", "weights": [1.0]}, LOCAL, "asked"),  # else it has w
    ({"name": "mixture", "lam": 1.0} | HALF, LOCAL, "models"),
    ({"name": "mixture", "lam": 1.0, "optimizer": "momentum"}, LOCAL, "models"),
    ({"name": "mixture", "lam": 1.0, "epochs": 1}, LOCAL, "models"),
    ({"name": "mixture", "lam": 1.0, "start": "mean"}, NONE, "w"),
    ({"name": "per_fedavg", "alpha": 0.0, "same_batch": True} | HALF, TUNED, "both"),
    (
        {"name": "per_fedavg", "alpha": 0.0, "same_batch": True, "epochs": 1}
        | {"variant": "hessian_free"},
        TUNED,
        "both",
    ),
    ({"name": "skl", "lam": 0.0} | HALF, TUNED, "both"),
    (
        {"name": "transfer", "w1": 0.0, "w2": 0.3, "keep": "best"} | HALF,
        {"name": "ditto_finetune", "lam": 0.6},
        "both",
    ),
    ({"name": "transfer", "w1": 0.0, "w2": 0.0, "keep": "best"} | HALF, TUNED, "both"),
]
EQUAL += [
    (
        {"name": "ditto", "lam": "auto", "choose": rule}
        | {"candidates": [0.7], "fallback": 0.7},
        {"name": "ditto", "lam": 0.7},
        "both",
    )
    for rule in ("side_by_side", "paper", "code")
]
SHARED = ("steps", "epochs", "lr", "optimizer", "keep")
COMPANY: list[dict[str, Any]] = [
    {"train": {"optimizer": "momentum", "lr": 0.02, "schedule": "cosine"}},
    {
        "train": {"weight_decay": 0.01, "epochs": 1, "precision": "float32"},
        "aggregator": "median",
        "server": {"name": "sgd", "lr": 0.5},
    },
    {"adversary": {"fraction": 0.3}, "attack": "sign_flip"},
]


def same(tree, plan, case, sections):
    one, other, which = case
    own = {key: one[key] for key in SHARED if key in one and other["name"] != "none"}
    how = sections | {"train": {"rounds": 2, "steps": 4} | sections.get("train", {})}
    a, b = (built(tree("normed", p, **how), plan) for p in (one, own | other))
    mine, theirs = done(a), done(b)
    w = a.federation.broadcast.w
    lifted = not plan.apart and one["name"] in ("ditto", "transfer")  # other sums
    exact = {"rtol": 0, "atol": 1e-12 if lifted else 0}
    if which != "w":
        asked = a.federation.population.visited if which == "asked" else slice(None)
        torch.testing.assert_close(mine[asked], theirs[asked], **exact)
    if which in ("w", "both"):
        torch.testing.assert_close(w, b.federation.broadcast.w, **exact)
    if other["name"] == "local" and one["name"].startswith("fed"):
        head = b.federation.engine.task.d - b.federation.engine.task.tail
        assert torch.equal(w[:head], b.federation.population.start[:head])
    assert (mine - mine.mean(0)).abs().max() > 1e-3 or which == "both"


@pytest.mark.parametrize("case", EQUAL, ids=str)
def test_ends_are_other_personalizers_bit_for_bit(tree, case):
    same(tree, THREADS, case, {})


@pytest.mark.slow("every limit in every company")
@pytest.mark.parametrize("case", EQUAL, ids=str)
def test_and_so_they_are_in_any_company(tree, case):
    for sections in COMPANY:
        same(tree, LOOP, case, sections)


@pytest.mark.slow("traces every limit")
@pytest.mark.parametrize("case", EQUAL, ids=str)
def test_and_so_they_are_in_a_matrix(tree, case):
    same(tree, VMAP, case, {})


SOLVERS: list[Any] = [{"name": "scaffold", "option": "I"}, *lookup.names("solver")]
BRIEF = {"rounds": 2, "steps": 2}


@pytest.fixture(scope="module")
def alone(tree):
    """Federations without personal models, by every solver."""
    return [built(tree("normed", "none", solver=s, train=BRIEF)) for s in SOLVERS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "of",
    [
        slice(0, 1),
        pytest.param(slice(1, None), marks=pytest.mark.slow("members × solvers")),
    ],
)
def test_beside_any_solver_it_leaves_the_shared_model_alone(tree, name, of, alone):
    """Ditto's modularity (E.1): v leans on w, and w does not know of v."""
    if isinstance(made(name, {}, problem()), Client):
        return
    for solver, plain in zip(SOLVERS[of], alone[of], strict=True):
        both = built(tree("normed", short(name, {}), solver=solver, train=BRIEF))
        idle = both.federation.engine.client.idle or name == "none"
        assert torch.equal(models(plain), models(both)) == idle
        a, b = plain.federation.broadcast, both.federation.broadcast
        assert torch.equal(a.w, b.w) and torch.equal(a.extra, b.extra)


AT, FAR = {"steps": 3}, {"name": "ditto_finetune", "lam": 5.0, "steps": 3}
FREE: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (FAR, {"name": "finetune"} | AT, {"regularizer": r}) for r in REGULARIZERS
]
FREE += [
    ({"name": "ditto", "lam": 5.0}, LOCAL, {"regularizer": r}) for r in REGULARIZERS
]
FREE += [
    ({"name": "ewc", "lam": 50.0} | AT, {"name": "ewc", "lam": 0.0} | AT, {}),
    ({"name": "l2sgd", "lam": 4.0}, LOCAL, {}),
    (
        {"name": "l2sgd", "variant": "randomised", "lam": 4.0},
        {"name": "l2sgd", "variant": "randomised", "lam": 0.0},
        {},
    ),
    ({"name": "mixture", "lam": 0.3}, LOCAL, {}),
    ({"name": "mixture", "lam": 0.0}, LOCAL, {}),
    ({"name": "pfedme", "lam": 5.0, "tol": 1e-3}, {"name": "pfedme", "lam": 0.1}, {}),
    (
        {"name": "transfer", "w1": 2.0, "w2": 2.0, "keep": "last"} | AT,
        {"name": "finetune"} | AT,
        {},
    ),
]


@pytest.mark.parametrize(("own", "free", "sections"), FREE, ids=str)
def test_running_statistics_feel_no_pull(tree, own, free, sections):
    """Those of a normalisation of the inputs depend on the batches alone."""
    how = {"cohort": 0, "rounds": 2} | sections.get("train", {})
    more = sections | {"train": how}
    one, other = (built(tree("first", p, **more), THREADS) for p in (own, free))
    v, alone, w = done(one), done(other), one.federation.broadcast.w
    assert torch.equal(v[:, -10:], alone[:, -10:])
    assert (v[:, -10:] - v[0, -10:]).abs().max() > 1e-3
    assert not torch.allclose(v[:, :-10], alone[:, :-10], 0, 1e-5)
    if one.federation.engine.client.shares_personal:  # and the server has their mean
        torch.testing.assert_close(w[-10:], v[:, -10:].mean(0), rtol=0, atol=1e-12)


STATES = ("apfl", "ditto", "fedper", "finetune", "l2sgd", "mapper", "per_fedavg")


@pytest.mark.parametrize("name", STATES)
def test_resumed_it_gives_the_same_bytes(tree, resumed, name):
    stopped(tree, resumed, name, {})


@pytest.mark.slow("three runs of every personalizer")
@pytest.mark.parametrize(
    ("name", "options"), [m for m in MEMBERS if m[1] or m[0] not in STATES], ids=str
)
def test_and_so_do_all_of_them(tree, resumed, name, options):
    stopped(tree, resumed, name, options)


def stopped(tree, resumed, name, options):
    """After two rounds; and the files have what clients end with."""
    store = "disk" if name in ("fedper", "ditto", "apfl") else "host"
    how = {"cohort": 2, "rounds": 3, "precision": "float32", "steps": 2}
    wanted = tree("normed", short(name, options), train=how)
    wanted["checkpoint"] = {"every": 1}
    wanted["engine"] = {"how": "loop", "chunk": 1, "store": store, "device": "cpu"}
    if options.get("variant") != "randomised" and name not in ("none", "ewc"):
        wanted["personalizer"] |= {"optimizer": "adam", "lr": 0.01}
    run = resumed(wanted)
    made = built(wanted | {"engine": {"device": "cpu"}})
    found, asked = done(made), run.clients["asked"] > 0
    for k, v in enumerate(found):
        assert torch.equal(tasks.flatten(run.model(k)), v)
    columns = made.federation.engine.client.columns
    assert [[run.clients[c][k] for c in columns] for k in range(6)] == told(made)
    assert {*columns} == {*run.clients} & {"lam", "alpha", "weight", "w1", "w2"}
    assert (run.clients["accuracy"] >= 0).all() and not asked.all()
