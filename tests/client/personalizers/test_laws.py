"""What holds of every personalizer in the folder, and which equals which.

One that stands beside a solver gives a `Personal`; one that owns the reply a `Client`.
"""

import pytest
import torch
from torch import nn

from troth import lookup
from troth.client.adversarial.pgd import pgd
from troth.client.regularizers.l2sq import l2sq
from troth.networks import flat as trees
from troth.networks import task as tasks
from troth.networks.flat import Masks
from troth.types import Anchor, Batch, Budget, Client, Personal

from ..hand import F64, OPTIMIZERS, by, drawn, sent, worked
from ..small import LOOP, THREADS, TRACED, VMAP, built, done, models, own, states, told

NAMES = lookup.names("personalizer")
PULLS = [{"regularizer": name} for name in lookup.names("regularizer")]
NEEDED = {name: {"without": "finetune"} for name in ("upweight", "group_dro")}
SHOWN = {"coupled", "l2sgd", "mapper", "mixture", "pfedme"}
CHOICES = [{}, {"choose": "code"}, {"choose": "paper", "few": 1}]
VARIANTS = [
    ("apfl", {"adaptive": True}),
    ("apfl", {"mix": "shared"}),
    ("coupled", {"solve": "exact"}),
    ("ditto", {"anchor": "moving"}),
    *(("ditto", {"lam": "auto"} | way) for way in CHOICES),
    ("finetune", {"keep": "accurate"}),
    ("finetune", {"keep": "best", "select": "step"}),
    ("group_dro", {"keep": "accurate"}),
    ("l2sgd", {"variant": "randomised"}),
    ("mapper", {"solve": "in_turn"}),
    ("mixture", {"distance": "mean"}),
    ("mixture", {"start": "mean"}),
    ("per_fedavg", {"variant": "hessian_free"}),
    ("per_fedavg", {"variant": "exact"}),
    ("pfedme", {"tol": 0.3}),
    ("transfer", {"w1": "auto", "w2": "auto", "candidates": [0.1, 1.0]}),
]
MEMBERS = [(name, {}) for name in NAMES] + VARIANTS
EVERY = pytest.mark.parametrize(("name", "options"), MEMBERS, ids=str)
MINE, WORK = Budget(steps=3), Budget(steps=4)


def network():
    """Two layers, one of which normalizes."""
    return nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2)).double()


def batch(client=0):
    weight = torch.full((6,), 1 / 6, dtype=F64)
    label = torch.tensor([0, 1, 1, 0, 1, 0])
    return Batch(drawn(6, 3, seed=client), label, weight, *map(torch.tensor, (0, 1)))


def made(name, options, optimizer="sgd", lr=0.1, budget=MINE):
    """For a classifier of three numbers into two classes: d = 14, float64."""
    task = tasks.functional(tasks.Objective(network(), 2), "float64")
    return lookup.call(
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


def stepped(one, w, state, seen, scale=1.0):
    """The state after a step, whichever sort it is, and after one of its last phase."""
    told = sent(w, scale)
    if isinstance(one, Personal):
        state = one.step(state, Anchor(w, w + 1, w), seen, seen, told.scale)
    else:
        _, state = worked(one.local, state, told, seen)
    return worked(one.finish, state, told, seen)[1] if one.finish else state


def each(name, options):
    """With every optimizer that it takes, and two models w0 and w."""
    by_all = OPTIMIZERS if options.get("variant") != "randomised" else ["sgd"]
    return [(made(name, options, by), *drawn(2, 14, seed=10)) for by in by_all]


@EVERY
def test_the_state_is_tensors_whose_shapes_stay(name, options):
    """And a newcomer, as anybody, predicts with a whole model."""
    for one, w0, w in each(name, options):
        before = one.init(w0)
        assert isinstance(one, Personal | Client) and isinstance(before, tuple)
        assert getattr(one, "shares_personal", False) == (name in SHOWN)
        after = stepped(one, w, before, batch())
        old, new = trees.leaves(before), trees.leaves(after)
        assert all(leaf.dtype == w0.dtype for leaf in (*old, *new))  # packed as a row
        assert [leaf.shape for leaf in new] == [leaf.shape for leaf in old]
        assert all(leaf.isfinite().all() for leaf in new)
        trees.like(before, new)  # the same tree
        for state in (before, after):
            model = one.model(w, state)
            assert (model.shape, model.dtype) == (w.shape, w.dtype)
            if isinstance(one, Client):
                reply, _ = worked(one.local, state, sent(w), batch())
                shapes = reply.update.shape, reply.extra.shape
                assert shapes == (w.shape, (0,)) and one.extra == 0
            if one.finish:
                reply, ended = worked(one.finish, state, sent(w), batch())
                assert torch.equal(reply.update, one.model(w, ended) - w)


@EVERY
def test_twice_the_same_and_nothing_read_is_touched(name, options):
    for one, w0, w in each(name, options):
        seen, begun = batch(), one.init(w0)
        first = trees.leaves(stepped(one, w, begun, seen))
        state = stepped(one, w, begun, seen)  # moments that are not zero
        assert all(map(torch.equal, trees.leaves(state), first))
        read = [w0, w, *trees.leaves(state), *seen]
        kept = [t.clone() for t in read]
        stepped(one, w, state, seen)
        one.model(w, state)
        assert all(map(torch.equal, read, kept))


@EVERY
def test_clients_together_as_each_alone(name, options):
    for one, w0, w in each(name, options):
        seen, state = [batch(k) for k in range(3)], one.init(w0)
        alone = [trees.leaves(stepped(one, w, state, b)) for b in seen]
        stacked = Batch(*(torch.stack(field) for field in zip(*seen, strict=True)))
        rows = [leaf.expand(3, *leaf.shape) for leaf in trees.leaves(state)]
        if not rows:  # nothing to carry
            continue

        def lifted(flat, b, one=one, w=w, state=state):
            return trees.leaves(stepped(one, w, trees.like(state, flat), b))

        together = torch.func.vmap(lifted)(rows, stacked)
        for k, leaves in enumerate(alone):
            for a, b in zip(leaves, together, strict=True):
                torch.testing.assert_close(b[k], a, rtol=1e-12, atol=1e-13)


@EVERY
def test_the_schedule_scales_every_learning_rate(name, options):
    """Half of the scale is half of all learning rates, and nothing else."""
    (w0, w), ends = drawn(2, 14, seed=10), []
    for lr, scale in ((0.1, 0.5), (0.05, 1.0)):
        one = made(name, options, lr=lr)
        state = one.init(w0)
        for k in range(2):
            state = stepped(one, w, state, batch(k), scale)
        ends.append(trees.leaves(state))
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-14)


AFTER = {"per_fedavg": Budget(epochs=1), "ewc": Budget(steps=4, epochs=50)}


@EVERY
def test_how_long_it_works(name, options):
    """As `[personalizer]` says, or as `[train]`; after the last round for 50 epochs."""
    for budget in (None, Budget(steps=2), Budget(epochs=3)):
        one = made(name, options, budget=budget)
        if one.finish:
            more = 4 if name == "ewc" else 0
            mine = budget and Budget(budget.steps + more, budget.epochs)
            usual = AFTER.get(name, Budget(epochs=50))
            assert one.finish.budgets == (mine or usual,) and one.idle
        if isinstance(one, Personal):
            continue
        mine = budget or (Budget(30) if options.get("solve") == "exact" else WORK)
        works = {mine, WORK} if name in ("fedper", "fedbn") else {mine}
        if name == "fedrep":
            works = {Budget(mine.steps + WORK.steps, mine.epochs + WORK.epochs)}
        if options.get("solve") == "in_turn":  # and a pass, to choose by
            works = {mine._replace(epochs=mine.epochs + 1)}
        assert {*one.local.budgets} == ({WORK} if one.finish else works)


# Whole federations


def short(name, options):
    """A personalizer that does not work for fifty epochs."""
    steps = {} if name == "none" else {"steps": 4}
    return {"name": name} | NEEDED.get(name, {}) | steps | options


AUTO = {"lam": "auto"}
SUM = {"aggregator": "sum", "server": {"name": "sgd"}}
OTHERS = [
    (own("apfl", adaptive=True, steps=2), {}),
    (own("apfl", epochs=1, optimizer="momentum", mix="shared"), {}),
    (own("ditto", epochs=1, anchor="moving", **AUTO), {}),
    (own("ditto", optimizer="adam", lr=0.01, **AUTO), {}),
    (
        own("ditto", choose="code", anchor="moving", **AUTO),
        {"solver": "scaffold", "regularizer": "fisher"},
    ),
    (own("ditto", choose="code", optimizer="momentum", **AUTO), {"regularizer": "kl"}),
    (
        own("ditto", candidates=[0.0, 0.5], **AUTO),
        {"availability": {"drop": 0.2, "deadline": 0.6, "speed_spread": 0.7}},
    ),
    (own("mapper", epochs=1, optimizer="momentum"), {}),
    (own("mapper", epochs=1, optimizer="momentum", solve="in_turn"), {}),
    (own("per_fedavg", variant="hessian_free", alpha=0.2), {}),
    (own("per_fedavg", variant="exact", alpha=0.2), {}),
    (
        own("pfedme", optimizer="adam", lr=0.01, tol=0.3, inner=3),
        {"train": {"optimizer": "momentum"}},
    ),
    *(
        (own("coupled", solve=s, steps=3, optimizer="adam", lr=0.05), SUM | r)
        for s in ("exact", "step")
        for r in PULLS
        if r["regularizer"] in ("l2sq", "l2", "smooth_l2")
    ),
    *((own("ditto", lam=0.5), r) for r in PULLS),
]


@pytest.fixture(scope="module")
def looped():
    """Where experiments end on a loop, trained once each."""
    return {}


def ended(wanted, plan):
    """All clients' models, what they keep and the shared model, at the end."""
    ready = built(wanted, plan)
    return done(ready), states(ready), ready.federation.broadcast.w


QUICK = ("local", "fedper")  # lifted in the fast tests too


@pytest.mark.parametrize(
    ("plans", "own", "sections"),
    [([THREADS], short(name, {}), {}) for name in NAMES]
    + [
        pytest.param([VMAP], short(n, {}), {}, marks=() if n in QUICK else TRACED)
        for n in NAMES
    ]
    + [
        pytest.param([VMAP, THREADS], *wanted, marks=TRACED)
        for wanted in [(short(*variant), {}) for variant in VARIANTS] + OTHERS
    ],
    ids=str,
)
def test_plans_agree_with_the_loop(tree, looped, plans, own, sections):
    train = {"rounds": 2, "steps": 3} | sections.get("train", {})
    # where a gradient is 0, as before a normalization, Adam takes steps of rounding
    model = "linear" if own.get("optimizer") == "adam" else "normed"
    wanted = tree(model, own, **sections | {"train": train})
    key = str((own, sections))
    looped[key] = expected = looped.get(key) or ended(wanted, LOOP)
    assert expected[0].isfinite().all()
    for plan in plans:
        for a, b in zip(ended(wanted, plan), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


LOCAL, NONE, TUNED = map(own, ("local", "none", "finetune"))
HALF = {"steps": 4, "lr": 0.03}
ONE_LAM = {"candidates": [0.7], "fallback": 0.7} | AUTO
ADAPTS = {"alpha": 0.0, "same_batch": True}
EQUAL = [  # one, other, of which
    (own("apfl", alpha=1.0), LOCAL, "both"),
    (own("apfl", alpha=0.0), NONE, "both"),
    (own("ditto", lam=0.0), LOCAL, "both"),
    *(
        (own("ditto", **ONE_LAM | way), own("ditto", lam=0.7), "both")
        for way in CHOICES
    ),
    (own("ditto_finetune", lam=0.0, keep="best", **HALF), TUNED, "both"),
    (own("fedbn"), own("fedper", layers=["norm1", "norm2"]), "both"),
    (own("fedper", last=0), NONE, "both"),
    (own("fedper", last=5, **HALF), LOCAL, "models"),
    (own("fedper", layers=["*"], optimizer="momentum"), LOCAL, "models"),
    (own("fedper", last=3), own("fedper", layers=["fc", "norm2", "conv2"]), "both"),
    (own("fedrep", last=0, **HALF), NONE, "both"),
    (own("fedrep", last=5, **HALF), LOCAL, "models"),
    (own("l2sgd", lam=0.0, **HALF), LOCAL, "models"),
    (own("l2sgd", lam=0.0, optimizer="momentum"), LOCAL, "models"),
    (own("l2sgd", lam=0.0, epochs=1), LOCAL, "models"),
    (own("mapper", weights=[0.0]), NONE, "both"),
    (own("mapper", weights=[1.0]), LOCAL, "asked"),  # else it has w
    (own("mixture", lam=1.0, **HALF), LOCAL, "models"),
    (own("mixture", lam=1.0, optimizer="momentum"), LOCAL, "models"),
    (own("mixture", lam=1.0, epochs=1), LOCAL, "models"),
    (own("mixture", lam=1.0, start="mean"), NONE, "w"),
    (own("per_fedavg", **ADAPTS, **HALF), TUNED, "both"),
    (own("per_fedavg", **ADAPTS, variant="hessian_free", epochs=1), TUNED, "both"),
    (own("skl", lam=0.0, **HALF), TUNED, "both"),
    (
        own("transfer", w1=0.0, w2=0.3, keep="best", **HALF),
        own("ditto_finetune", lam=0.6),
        "both",
    ),
    (own("transfer", w1=0.0, w2=0.0, keep="best", **HALF), TUNED, "both"),
]
SHARED = ("steps", "epochs", "lr", "optimizer", "keep")
COMPANY = [
    {"train": {"optimizer": "momentum", "lr": 0.02, "schedule": "cosine"}},
    {
        "train": {"weight_decay": 0.01, "epochs": 1, "precision": "float32"},
        "aggregator": "median",
        "server": {"name": "sgd", "lr": 0.5},
    },
    {"adversary": {"fraction": 0.3}, "attack": "sign_flip"},
]


@pytest.mark.parametrize("case", EQUAL, ids=str)
@pytest.mark.parametrize(
    ("plan", "sections"),
    [(THREADS, {}), pytest.param(VMAP, {}, marks=TRACED)]
    + [
        pytest.param(LOOP, company, marks=pytest.mark.slow("limits × companies"))
        for company in COMPANY
    ],
    ids=str,
)
def test_ends_are_other_personalizers_bit_for_bit(tree, plan, case, sections):
    one, other, which = case
    as_one = {key: one[key] for key in SHARED if key in one and other != NONE}
    how = sections | {"train": {"rounds": 2, "steps": 4} | sections.get("train", {})}
    a, b = (built(tree("normed", p, **how), plan) for p in (one, other | as_one))
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


SOLVERS = [{"name": "scaffold", "option": "I"}, *lookup.names("solver")]
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
    if isinstance(made(name, {}), Client):
        return
    for solver, plain in zip(SOLVERS[of], alone[of], strict=True):
        both = built(tree("normed", short(name, {}), solver=solver, train=BRIEF))
        idle = both.federation.engine.client.idle or name == "none"
        assert torch.equal(models(plain), models(both)) == idle
        a, b = plain.federation.broadcast, both.federation.broadcast
        assert torch.equal(a.w, b.w) and torch.equal(a.extra, b.extra)


RANDOM = {"variant": "randomised"}
FREE = [
    *((own("ditto", lam=5.0), LOCAL, r) for r in PULLS),
    *(
        (own("ditto_finetune", lam=5.0, steps=3), own("finetune", steps=3), r)
        for r in PULLS
    ),
    (own("ewc", lam=50.0, steps=3), own("ewc", lam=0.0, steps=3), {}),
    (own("l2sgd", lam=4.0), LOCAL, {}),
    (own("l2sgd", lam=4.0, **RANDOM), own("l2sgd", lam=0.0, **RANDOM), {}),
    (own("mixture", lam=0.3), LOCAL, {}),
    (own("mixture", lam=0.0), LOCAL, {}),
    (own("pfedme", lam=5.0, tol=1e-3), own("pfedme", lam=0.1), {}),
    (
        own("transfer", w1=2.0, w2=2.0, keep="last", steps=3),
        own("finetune", steps=3),
        {},
    ),
]


@pytest.mark.parametrize(("own", "free", "sections"), FREE, ids=str)
def test_running_statistics_feel_no_pull(tree, own, free, sections):
    """Those of a normalization of the inputs depend on the batches alone."""
    more = sections | {"train": {"cohort": 0, "rounds": 2}}
    one, other = (built(tree("first", p, **more), THREADS) for p in (own, free))
    v, alone, w = done(one), done(other), one.federation.broadcast.w
    assert torch.equal(v[:, -10:], alone[:, -10:])
    assert (v[:, -10:] - v[0, -10:]).abs().max() > 1e-3
    assert not torch.allclose(v[:, :-10], alone[:, :-10], 0, 1e-5)
    if one.federation.engine.client.shares_personal:  # and the server has their mean
        torch.testing.assert_close(w[-10:], v[:, -10:].mean(0), rtol=0, atol=1e-12)


STATES = ("apfl", "ditto", "fedper", "finetune", "l2sgd", "mapper", "per_fedavg")
REST = pytest.mark.slow("three runs of every personalizer")


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in STATES]
    + [
        pytest.param(*member, marks=REST)
        for member in MEMBERS
        if member[1] or member[0] not in STATES
    ],
    ids=str,
)
def test_resumed_it_gives_the_same_bytes(tree, resumed, name, options):
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
    for k, v in enumerate(done(made)):
        assert torch.equal(tasks.flatten(run.model(k)), v)
    columns = made.federation.engine.client.columns
    assert [[run.clients[c][k] for c in columns] for k in range(6)] == told(made)
    assert {*columns} == {*run.clients} & {"lam", "alpha", "weight", "w1", "w2"}
    assert (run.clients["accuracy"] >= 0).all() and not (run.clients["asked"] > 0).all()
