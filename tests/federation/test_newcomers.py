"""Clients that never took part: drawn, left out, and served at the end."""

import signal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

import troth
from troth import build, files, lookup
from troth import progress as notice
from troth.cli import tables as display
from troth.config import reader
from troth.config.schema import Evaluate, Experiment
from troth.data import load
from troth.engine.local_training import Plan
from troth.federation import newcomers
from troth.networks import flat as trees
from troth.runs import results
from troth.runs import train as runs
from troth.types import Batch, Broadcast, Refusal, Shards

NAMES = lookup.names("personalizer")
SIZES = [14, 25, 9, 30, 17, 12, 21, 19]  # examples of each client
N = len(SIZES)
LOOP = {"how": "loop", "chunk": 1, "device": "cpu"}
DITTO = {"name": "ditto", "lam": 0.5}
NORMED = ("fedbn",)  # members that need normalization layers


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Clients of unequal size with labels of their own making."""
    random = np.random.default_rng(5)
    owner = np.repeat(np.arange(N), SIZES)
    x = random.normal(size=(len(owner), 4)).astype(np.float32)
    turned = x[:, 0] + np.cos(owner) * x[:, 1]
    y = np.digitize(turned, [-0.5, 0.5])
    path = tmp_path_factory.mktemp("data") / "all.npz"
    np.savez(path, x=x, y=y, owner=owner, group=np.arange(len(owner)) % 2)
    return path


def tree(data, **sections):
    whole = {
        "seed": 3,
        "data": {"name": "npz", "path": str(data)},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "train": {"rounds": 6, "cohort": 3, "steps": 2, "batch": 4, "lr": 0.2},
        "evaluate": {"newcomers": 0.2},
        "engine": LOOP,
    }
    for name, value in sections.items():
        both = isinstance(value, dict) and isinstance(whole.get(name), dict)
        whole[name] = whole[name] | value if both else value
    whole["train"]["precision"] = "float64"
    return whole


def built(data, plan=None, **sections):
    e = reader.from_dict(tree(data, **sections))
    return build.build(e, plan=plan or Plan("loop", 1))


def trained(data, plan=None, **sections):
    made = built(data, plan, **sections)
    f = made.federation
    list(f.train())
    list(f.finish(3))
    list(newcomers.serve(f, made.experiment, 3))
    return made


def short(name, **more):
    """A personalizer that does not work for fifty epochs, and keeps what it made."""
    last = {"keep": "last"} if name == "transfer" else {}  # it may prefer w* else
    return {"name": name, **({} if name == "none" else {"steps": 3}), **last, **more}


@pytest.fixture
def normed(tmp_path, monkeypatch):
    (tmp_path / "normed.py").write_text(
        "from torch import nn\n\n\ndef net(shape, classes):\n"
        "    inner = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh()\n"
        "    return nn.Sequential(*inner, nn.Linear(5, classes))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


def drawn(share, n, hostile=0, seed=0):
    e = Experiment(seed=seed, evaluate=Evaluate(newcomers=share))
    return newcomers.drawn(e, np.arange(n) < hostile)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(0, 0.99), st.integers(0, 50), st.integers(0, 9))
def test_drawn_among_the_benign(n, share, hostile, seed):
    hostile = min(hostile, n - 1)
    count = int(np.ceil(share * n - 1e-9))
    if count >= n - hostile:
        with pytest.raises(Refusal, match=f"sets {count} of {n} clients aside"):
            drawn(share, n, hostile, seed)
        return
    ids = drawn(share, n, hostile, seed)
    assert len(ids) == count == len({*ids.tolist()})
    assert (ids >= hostile).all() and (ids < n).all() and (np.diff(ids) > 0).all()
    assert np.array_equal(ids, drawn(share, n, hostile, seed))


def test_everybody_has_the_same_chance():
    """600 draws of 4 of 10: no count strays by 5 σ (p < 10⁻⁵)."""
    every = np.concatenate([drawn(0.3, 12, 2, seed) for seed in range(600)])
    counts = np.bincount(every, minlength=12)
    assert (counts[:2] == 0).all()
    assert (abs(counts[2:] - 240) < 5 * (240 * 0.6) ** 0.5).all()


@pytest.mark.parametrize(
    ("train", "availability"),
    [
        ({"sampling": "size"}, {}),
        ({"cohort": 0}, {}),
        ({"cohort": 6}, {}),
        ({}, {"period": 3, "on": 1}),
        ({"sampling": "size"}, {"leave": 0.5}),
    ],
)
def test_they_are_never_asked(data, train, availability):
    more = {"rounds": 25, "steps": 1, **train}
    f = built(data, train=more, availability=availability).federation
    late, asked = (
        {*f.newcomers.tolist()},
        {int(k) for r in range(25) for k in f.sample(r)},
    )
    everyone = {*f.members.tolist()}
    assert len(late) == 2 and not asked & late
    assert asked <= everyone if "leave" in availability else asked == everyone
    if "cohort" in train:
        assert all(np.array_equal(f.sample(r), f.members) for r in range(3))


def test_the_adversary_is_drawn_as_ever(data):
    sections = {"adversary": {"fraction": 0.3}, "corruption": "random_labels"}
    with_, without = (
        built(data, evaluate={"newcomers": share}, **sections) for share in (0.2, 0.0)
    )
    assert np.array_equal(with_.hostile, without.hostile)
    assert np.array_equal(without.federation.members, np.arange(N))
    assert len(without.federation.newcomers) == 0 and "newcomers" not in without.facts
    assert not with_.hostile[with_.federation.newcomers].any()


def test_how_a_deadline_is_reckoned_does_not_hang_on_them(data):
    """It goes by the median work of members, whatever newcomers train on."""
    found = []
    for count in (0, 1):
        late = {"newcomers": 0.4, "newcomer_examples": count}
        slow = {"deadline": 0.6, "speed_spread": 0.5}
        more = {"train": {"steps": 0, "epochs": 2}, "availability": slow}
        found.append(trained(data, evaluate=late, **more).federation.broadcast.w)
    assert torch.equal(*found)


def test_fewer_examples():
    lists = [np.arange(10 * k, 10 * k + m) for k, m in enumerate((7, 9, 3, 8))]
    shards, late, found = Shards(lists, lists, lists), np.array([1, 2]), {}
    for count in (0, 1, 4, 100):
        e = Experiment(evaluate=Evaluate(newcomers=0.5, newcomer_examples=count))
        made = newcomers.fewer(e, shards, late)
        assert made.valid is lists and made.test is lists
        found[count] = made.train
    sizes = {count: [len(t) for t in train] for count, train in found.items()}
    whole = [len(t) for t in lists]
    assert whole == [7, 9, 3, 8]
    assert sizes == {0: whole, 1: [7, 1, 1, 8], 4: [7, 4, 3, 8], 100: whole}
    assert {*found[1][1]} < {*found[4][1]} < {*lists[1]}
    assert (np.diff(found[4][1]) > 0).all()


def test_members_do_not_notice_how_newcomers_are_served(data):
    rows = []
    for late in ({}, {"newcomer_rounds": 9}, {"newcomer_examples": 2}):
        f = trained(data, personalizer=DITTO, evaluate=late).federation
        rows.append((f.broadcast.w, f.population.read(f.members)))
        others = f.population.read(f.newcomers)
        assert not torch.equal(others, f.population.start.expand_as(others))
    for w, states in rows[1:]:
        assert torch.equal(w, rows[0][0]) and torch.equal(states, rows[0][1])


def test_inputs_are_prepared_without_them(data):
    """What all share is fitted on members; of their own they fit themselves."""
    shards = load.deal(reader.from_dict(tree(data)), None)[1]
    x = np.load(data)["x"].astype(np.float64)
    for name in ("federated", "own"):
        made = built(data, features=name, evaluate={"newcomer_examples": 6})
        f, found = made.federation, made.prepared
        assert found is not None
        if name == "federated":
            rows = np.concatenate([shards.train[k] for k in f.members])
            np.testing.assert_allclose(found.statistics.mean, x[rows].mean(0))
            continue
        for k in range(N):
            size = int(made.data.train.size[k])
            assert size == (6 if k in f.newcomers else len(shards.train[k]))
            first = int(made.data.train.start[k])
            mine = made.data.x[made.data.train.row[first : first + size]]
            assert mine.mean(0).abs().max() < 1e-12
            assert (mine.std(0, correction=0) - 1).abs().max() < 1e-12


def test_pixels_are_normalized_without_them(tmp_path):
    random, owner = np.random.default_rng(1), np.repeat(np.arange(6), 10)
    x = random.integers(0, 256, (60, 5, 5), dtype=np.uint8)
    x[owner == 2] = 255
    y, file = owner % 2 ^ random.integers(0, 2, 60), tmp_path / "d.npz"
    np.savez(file, x=x, y=y, owner=owner)
    pixel = {"name": "linear", "normalize": "pixel"}
    every = (built(file, model=pixel, seed=s, train={"cohort": 0}) for s in range(40))
    made = next(one for one in every if 2 in one.federation.newcomers)
    train = load.deal(made.experiment, None)[1].train
    rows = np.concatenate([train[k] for k in made.federation.members])
    state = made.network.state_dict()
    mean = next(v for k, v in state.items() if k.startswith("0.") and "mean" in k)
    scale = 255 if float(mean.max()) <= 1 else 1
    expected = x[rows].astype(np.float64).mean(0)
    np.testing.assert_allclose(mean.reshape(5, 5) * scale, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("rounds", "cohort", "members", "own", "expected"),
    [
        (100, 10, 50, 0, 20),
        (100, 0, 50, 0, 100),
        (5, 1, 50, 0, 1),
        (10, 3, 20, 0, 2),  # 1.5, to the even one
        (100, 10, 50, 7, 7),
    ],
)
def test_as_many_rounds_as_the_average_client(rounds, cohort, members, own, expected):
    late = {"newcomers": 0.1, "newcomer_rounds": own}
    train = {"rounds": rounds, "cohort": cohort}
    e = reader.from_dict({"train": train, "evaluate": late})
    assert newcomers.rounds(e, members) == expected


@pytest.mark.parametrize(
    ("rounds", "own", "expected"),
    [
        *[(10, 5, [1, 3, 5, 7, 9]), (10, 1, [5]), (3, 3, [0, 1, 2])],
        *[(1, 4, [0, 0, 0, 0]), (2, 4, [0, 0, 1, 1])],
    ],
)
def test_the_schedule_is_gone_through(rounds, own, expected):
    assert newcomers.scales(float, rounds, own) == expected


def batches(made, k, steps, round_):
    """Inputs and labels that client k sees."""
    feed = made.federation.engine.feed
    slots, weight = feed.draw(np.array([k]), steps, round_)
    found = []
    for t in range(steps):
        x, y = feed.gather(slots[t, 0], feed.data.train)
        there = weight[t, 0] > 0  # a last batch may be short
        found.append((x[there], y[there]))
    return found


def slope(v, x, y):
    """∇ of the mean cross-entropy of a linear model, by autograd alone."""
    v = v.detach().requires_grad_()
    outputs = x @ v[:12].reshape(3, 4).T + v[12:]
    (g,) = torch.autograd.grad(cross_entropy(outputs, y), v)
    return g


def served(made):
    """Newcomers and their models."""
    f = made.federation
    with torch.no_grad():
        rows = f.engine.models(f.broadcast.w, f.population.read(f.newcomers))
    return zip(f.newcomers.tolist(), rows, strict=True)


def test_ditto_written_out(data):
    """v starts at the last w, is pulled to it, and goes through the schedule."""
    ditto = {"name": "ditto", "lam": 0.7, "lr": 0.15}
    late = {"newcomer_rounds": 4, "newcomer_examples": 8}
    cosine = {"schedule": "cosine"}
    made = trained(data, personalizer=ditto, evaluate=late, train=cosine)
    w = made.federation.broadcast.w
    for k, found in served(made):
        v = w.clone()
        for j, r in enumerate([0, 2, 3, 5]):  # of the six, at equal distances
            lr = 0.15 * (1 + np.cos(np.pi * r / 6)) / 2
            for x, y in batches(made, k, 2, 6 + 1 + j):
                v = v - lr * (slope(v, x, y) + 0.7 * (v - w))
        assert (v - found).abs().max() < 1e-12
        assert (v - w).abs().max() > 1e-2


@pytest.mark.parametrize("solver", ["fedavg", "scaffold"])  # the latter has a state
def test_none_is_the_shared_model(data, solver):
    made = trained(data, personalizer="none", solver=solver)
    w = made.federation.broadcast.w
    assert all(torch.equal(found, w) for _, found in served(made))
    tables = results.evaluate(made, made.federation.newcomers)
    np.testing.assert_equal(tables["personal"], tables["shared"])


def test_scaffold_starts_from_no_control_variate(data):
    """The copy w_k that "moving" pulls to follows g + c, with c_k = 0 in round one."""
    ditto = {"name": "ditto", "lam": 0.7, "anchor": "moving"}
    late = {"newcomer_rounds": 1}
    made = trained(data, personalizer=ditto, evaluate=late, solver="scaffold")
    w, c = made.federation.broadcast.w, made.federation.broadcast.extra
    assert c.abs().max() > 1e-4
    for k, found in served(made):
        v, mine = w.clone(), w.clone()
        for x, y in batches(made, k, 2, 7):
            mine = mine - 0.2 * (slope(mine, x, y) + c)
            v = v - 0.2 * (slope(v, x, y) + 0.7 * (v - mine))
        assert (v - found).abs().max() < 1e-12


def phases(made, k, count):
    """The model of newcomer k by its client's own functions, step by step."""
    f = made.federation
    client, feed, w = f.engine.client, f.engine.feed, f.broadcast.w
    mine, per_epoch = np.array([k]), int(feed.per_epoch[k])
    state, scales = client.init(w), newcomers.scales(f.scale, f.rounds, count)
    works = [("local", f.rounds + 1 + j, scale) for j, scale in enumerate(scales)]
    works += [("finish", f.rounds, 1.0)] if client.finish else []  # the whole rate
    valid = trees.first(feed.whole(mine, feed.data.valid))
    for name, round_, scale in works:
        sent = Broadcast(w, f.broadcast.extra, w.new_full((), scale))
        phase = getattr(client, name)
        steps = max(b.steps + b.epochs * per_epoch for b in phase.budgets)
        slots, weight = feed.draw(mine, steps, round_, phase.by_group)
        group, key = feed.group(slots, phase.by_group), feed.keys(mine, round_)[0]
        carry = phase.begin(sent, state)
        for t in range(steps):
            x, y = feed.gather(slots[t, 0], feed.data.train)
            about = torch.tensor(t), torch.tensor(per_epoch), key, group[t, 0]
            batch = Batch(x, y, weight[t, 0], *about)
            carry = phase.step(sent, carry, batch, valid)
        _, state = phase.end(sent, carry, state, valid)
    state = client.settle(state, valid) if client.settle else state
    return client.model(w, state)


SLOW = pytest.mark.slow("trains a federation with every personalizer")
REST = [pytest.param(name, marks=SLOW) for name in NAMES if name != "finetune"]


@pytest.mark.parametrize("name", ["finetune", *REST])
def test_every_personalizer_serves_them(data, name, normed):
    late = {"newcomer_rounds": 2, "newcomer_examples": 7}
    free = {"adversarial": {"name": "pgd", "bounds": []}}  # inputs of any size
    model = {"model": "normed:net"} if name in NORMED else {}
    sections = {"personalizer": short(name), "evaluate": late, **model, **free}
    sections["train"] = {"schedule": "cosine"}
    made = trained(data, Plan("threads", 1, 1), **sections)
    for k, found in served(made):
        assert (found - phases(made, k, 2)).abs().max() < 1e-10
        assert name == "none" or not torch.equal(found, made.federation.broadcast.w)
    again = built(data, evaluate={"newcomers": 0.0}, **model).federation
    assert again.engine.task.d == len(found)


def test_lam_is_chosen_by_their_own_validation_data(data, tmp_path):
    auto = {"name": "ditto", "lam": "auto", "candidates": [0.0, 0.5, 2.0]}
    whole = tree(data, personalizer=auto, evaluate={"newcomer_rounds": 3})
    table = troth.run(whole, out=tmp_path / "run")[0].clients
    late = table["newcomer"] == 1
    assert {*table["lam"][late]} <= {0.0, 0.5, 2.0}
    assert (table["asked"][late] == 0).all() and (table["asked"][~late] > 0).any()


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    foes = {"adversary": {"count": 1}, "corruption": "flip_labels"}
    whole = tree(data, evaluate={"newcomers": 0.3}, personalizer=DITTO, **foes)
    return troth.run(whole, out=tmp_path_factory.mktemp("run") / "out")[0]


def test_tables_and_summaries(run):
    summary, late = run.summary, run.clients["newcomer"] == 1
    bad = run.clients["malicious"] == 1
    assert late.sum() == 3 and bad.sum() == 1 and not (late & bad).any()
    assert run.experiment.resolved["newcomers"] == 3
    for kind, who, column in (
        ("personal", ~late & ~bad, "accuracy"),
        ("shared", ~late & ~bad, "shared_accuracy"),
        ("newcomers", late, "accuracy"),
        ("newcomers_shared", late, "shared_accuracy"),
    ):
        values = run.clients[column][who]  # a NaN among them would show
        assert summary[kind]["accuracy_mean"] == pytest.approx(values.mean(), abs=1e-12)
        assert summary[kind]["accuracy_std"] == pytest.approx(values.std(), abs=1e-12)
    own = {k for k in summary["personal"] if not k.startswith("malicious_")}
    assert summary["newcomers"].keys() == summary["newcomers_shared"].keys() == own
    assert summary["clients"] == N and summary["malicious"] == 1
    last = run.rounds[-1]["evaluation"]
    assert last.keys() == {"personal", "shared"}
    assert last["personal"]["accuracy_mean"] == summary["personal"]["accuracy_mean"]
    assert not {*np.flatnonzero(late)} & {k for r in run.rounds for k in r["cohort"]}


def test_their_models_are_there_to_predict_with(run):
    arrays = np.load(run.experiment.data.options["path"])
    shards = load.deal(run.experiment, None)[1]
    for k in np.flatnonzero(run.clients["newcomer"] == 1).tolist():
        rows = shards.test[k]
        right = run.predict(k, arrays["x"][rows]) == arrays["y"][rows]
        assert right.mean() == run.clients["accuracy"][k]
        mine, w = (next(m.parameters()) for m in (run.model(k), run.shared()))
        assert not torch.equal(mine, w)


def test_what_people_are_told(run):
    assert display.benign(run) == 4
    both = (run.summary[k]["accuracy_mean"] for k in ("newcomers", "newcomers_shared"))
    text = "ours: accuracy {:.3f} for 3 newcomers, with the shared model {:.3f}"
    assert display.newcomers(run, "ours") == text.format(*both)
    title = display.results([run], ["ours"]).renderables[0]
    assert str(title).endswith("over the 4 benign of 8 clients, without newcomers")


def test_a_sample_of_clients_has_no_newcomer(data, tmp_path):
    some = {"clients": 3, "newcomers": 0.3}
    (found,) = troth.run(tree(data, evaluate=some), out=tmp_path / "run")
    known, late = ~np.isnan(found.clients["accuracy"]), found.clients["newcomer"] == 1
    assert (known & ~late).sum() == 3 and known[late].all()


def test_steps_are_counted(data):
    found = built(data, personalizer=DITTO, evaluate={"newcomer_rounds": 5})
    assert found.client_steps == 6 * 3 * 2 + 2 * 5 * 2
    tuned = built(data, personalizer={"name": "finetune", "steps": 7})
    assert tuned.client_steps == 6 * 3 * 2 + N * 7


@pytest.mark.parametrize(
    ("name", "after", "store"), [("ditto", 3, "host"), ("finetune", 6, "disk")]
)
def test_a_resumed_run_gives_the_same_bytes(
    data, tmp_path, contents, name, after, store
):
    """Stopped on the way, or after the last round with the newcomers to come."""
    whole = tree(data, personalizer=short(name), engine={**LOOP, "store": store})
    troth.run(whole, out=tmp_path / "whole")

    def stop(progress):
        if progress.done == after:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(runs.Interrupted):
        troth.run(whole, out=tmp_path / "cut", watch=stop)
    assert (tmp_path / "cut" / files.CHECKPOINT).exists()
    assert not (tmp_path / "cut" / files.SUMMARY).exists()
    troth.resume(tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.parametrize(("name", "last"), [("ditto", 6), ("finetune", N)])
def test_stopped_between_newcomers(data, tmp_path, contents, name, last):
    """Some have their models already; a resumed run makes them anew, the same."""
    late, few = {"newcomers": 0.7}, {"cohort": 2}
    whole = tree(data, personalizer=short(name), evaluate=late, train=few)
    troth.run(whole, out=tmp_path / "whole")

    def stop(what, done, total):
        if total and done == last - 2:
            assert (what, total) == ("personalizing", last)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(runs.Interrupted), notice.watching(stop):
        troth.run(whole, out=tmp_path / "cut")
    troth.resume(tmp_path / "cut")
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_loop_vmap_and_threads_agree(data):
    late = {"newcomers": 0.3, "newcomer_rounds": 2}
    plans = None, Plan("vmap", 2), Plan("threads", 1, 2)
    one, *others = (
        torch.stack([v for _, v in served(made)])
        for made in (trained(data, p, personalizer=DITTO, evaluate=late) for p in plans)
    )
    assert all((one - other).abs().max() < 1e-10 for other in others)


@pytest.mark.parametrize(
    ("evaluate", "words"),
    [
        ({"newcomers": 1.0}, "evaluate.newcomers = 1.0 is out of range.*below 1"),
        ({"newcomers": 0.1, "newcomer_rounds": -1}, "newcomer_rounds = -1 is out of"),
        ({"newcomer_rounds": 3}, "newcomer_rounds = 3 does nothing without newcomers"),
        ({"newcomer_examples": 3}, "newcomer_examples = 3 does nothing without"),
    ],
)
def test_refused_settings(evaluate, words):
    with pytest.raises(Refusal, match=words):
        reader.from_dict({"evaluate": evaluate})


def test_too_many_of_some(data):
    many = {"evaluate": {"newcomers": 0.4}, "train": {"cohort": 1}}
    many |= {"adversary": {"fraction": 0.5}, "corruption": "flip_labels"}
    for sections, words in (
        (
            {"train": {"cohort": 7}},
            "train.cohort = 7 is more than the 6 of 8 clients that are no newcomers",
        ),
        (many, "evaluate.newcomers = 0.4 sets 4 of 8 clients aside, and 4 are benign"),
    ):
        with pytest.raises(Refusal, match=words):
            built(data, **sections)
    built(data, train={"cohort": 6})
