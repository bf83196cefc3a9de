"""Features fitted on training data, prepared for training, and again for predicting."""

import sys
import types

import numpy as np
import pytest
import torch

import troth
from troth import build, files, seeding
from troth.config.schema import Part
from troth.data import load, preprocess
from troth.data.corrupt import Corruption
from troth.data.features.federated import federated
from troth.data.features.own import own
from troth.types import Arrays, Refusal

CPU = torch.device("cpu")
SIZES = [(6, 2, 3), (5, 0, 4), (9, 3, 1)]  # train, valid, test of each client
M = sum(map(sum, SIZES))


def arrays(seed=0, shape=(4,), holes=0.3):
    random = np.random.default_rng(seed)
    x = random.normal(random.normal(size=shape) * 9, 2, size=(M, *shape))
    x[random.random(x.shape) < holes] = np.nan
    return Arrays(x, random.integers(2, size=M), 2)


@pytest.fixture
def shards(shards_of):
    """Three clients' examples; as a further test set each has another's."""
    shards = shards_of(SIZES)
    return shards._replace(tests={"hard": shards.test[::-1]})


@pytest.fixture
def deal(shards):
    """Prepare three clients' data, of which the second corrupts its own."""

    def dealt(name, given, corrupt=None, dtype=torch.float64, options=(), **more):
        least = {"min_values": 1} if name == "federated" else {}
        how = Corruption(corrupt, given.classes, **more) if corrupt else None
        hostile, part = (
            np.array([False, bool(how), False]),
            Part(name, least | dict(options)),
        )
        raw = preprocess.Raw(given, shards, dtype, CPU, hostile, how, 0)
        return preprocess.deal(part, raw)

    return dealt


both = pytest.mark.parametrize("name", ["own", "federated"])


def standard(x, fill, mean, std):
    return (np.where(np.isnan(x), fill, x) - mean) / std


@pytest.mark.parametrize("shape", [(4,), (2, 3)])
@both
def test_every_split_is_prepared_by_what_training_data_gave(
    name, shape, deal, shards, held, monkeypatch
):
    given = arrays(shape=shape)._replace(group=np.arange(M) % 4)
    data, prepared, _ = deal(name, given)
    splits = *data[1:4], data.tests["hard"]
    parts = *shards[:3], shards.tests["hard"]
    train = [given.x[rows] for rows in shards.train]
    found = own(train) if name == "own" else federated(train, min_values=1)
    for one, other in zip(prepared.statistics, found, strict=True):
        assert (one == other).all()
    for client in range(len(SIZES)):
        at = client if name == "own" else ...
        for split, lists in zip(splits, parts, strict=True):
            expected = standard(given.x[lists[client]], *(v[at] for v in found[:3]))
            x, y = held(data, split, client)
            assert (x.numpy() == expected).all()
            assert (y.numpy() == given.y[lists[client]]).all()
            first = split.row[split.start[client] :][: len(y)]
            assert (data.group[first].numpy() == given.group[lists[client]]).all()
        rows = np.concatenate([part[client] for part in shards[:3]])
        assert (prepared.imputed[client] == np.isnan(given.x[rows]).sum(axis=0)).all()
    facts = {"imputed": prepared.imputed.sum(), "constant": found.constant.sum()}
    assert prepared.facts() == facts
    for numbers in (1, 8, 25):  # pieces of any size give the same
        monkeypatch.setattr(preprocess, "_NUMBERS", numbers)
        again, counted, _ = deal(name, given)
        assert torch.equal(again.x, data.x)
        assert (counted.imputed == prepared.imputed).all()


def brighter(x, y, key):
    return x + 100, y


def test_hostile_clients_fit_on_their_poisoned_data(deal, shards, held):
    given = arrays()
    clean, before, _ = deal("own", given)
    data, after, _ = deal("own", given, brighter)
    for one, other in zip(before.statistics, after.statistics, strict=True):
        assert (one[[0, 2]] == other[[0, 2]]).all()  # nobody else is touched
    s = after.statistics
    np.testing.assert_allclose(s.mean[1], before.statistics.mean[1] + 100)
    ours, theirs = (held(d, d.train, 1)[0].numpy() for d in (data, clean))
    np.testing.assert_allclose(ours, theirs, atol=1e-11)
    expected = standard(given.x[shards.test[1]], s.fill[1], s.mean[1], s.std[1])
    assert (held(data, data.test, 1)[0].numpy() == expected).all()  # stay clean
    there = [(~np.isnan(given.x[rows])).sum(axis=0) for rows in shards.train]
    shared, plain = (deal("federated", given, c)[1] for c in (brighter, None))
    moved = shared.statistics.mean - plain.statistics.mean
    np.testing.assert_allclose(moved, 100 * there[1] / sum(there))


def test_precision_and_none(deal):
    given = arrays()
    narrow, found, _ = deal("own", given, dtype=torch.float32)
    assert narrow.x.dtype == torch.float32
    assert torch.equal(narrow.x, deal("own", given)[0].x.float())
    assert all(values.dtype == np.float64 for values in found.statistics[:3])
    targets = given._replace(y=np.linspace(0, 1, M), classes=0)
    assert deal("own", targets, dtype=torch.float32)[0].train.y.dtype == torch.float32
    given = arrays(holes=0.0)
    data, *none = deal("none", given)
    assert none == [None, None] and (data.x.numpy() == given.x).all()


@both
@pytest.mark.parametrize("options", [{}, {"scale": False, "center": False}])
def test_values_that_overflow_are_refused(name, options, deal, refuses):
    huge = np.where(np.arange(M)[:, None] % 2, 1e200, -1e200) * np.ones((1, 4))
    given, words = arrays()._replace(x=huge), r"cannot hold|huge values|client"
    refuses(words, deal, name, given, dtype=torch.float32, options=options)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Four owners whose features lie elsewhere and on other scales, with holes."""
    random, owner = np.random.default_rng(5), np.repeat(np.arange(4), 30)
    y = random.integers(2, size=120)
    x = random.normal(size=(120, 5)) + y[:, None]
    x = x * (10.0 ** np.arange(5)) + 50 * owner[:, None]
    x[random.random(x.shape) < 0.2] = np.nan
    x[owner == 2, 3] = np.nan  # one owner lacks a whole feature
    path = tmp_path_factory.mktemp("own") / "data.npz"
    np.savez(path, x=x, y=y, owner=owner)
    return {
        "data": {"name": "npz", "path": str(path)},
        "partition": "natural",
        "train": {"rounds": 5, "lr": 0.1, "batch": 8},
        "personalizer": "ditto",
        "adversary": {"count": 1},
        "engine": {"how": "loop"},
    }


PRECISIONS = {"own": "float32", "federated": "float64"}


@pytest.fixture(scope="module")
def runs(tree, tmp_path_factory):
    """A run with each, in another precision."""
    made = {}
    for name, precision in PRECISIONS.items():
        train = tree["train"] | {"precision": precision}
        out = tmp_path_factory.mktemp(name) / "run"
        [made[name]] = troth.run(tree | {"features": name, "train": train}, out=out)
    return made


@both
def test_models_of_a_run_take_raw_inputs(runs, name, held):
    run = runs[name]
    given, who, _ = load.deal(run.experiment, None)
    data = build.build(run.experiment).data
    assert (run.path / files.FEATURES).exists()
    for client in range(4):
        raw, y = given.x[who.test[client]], given.y[who.test[client]]
        assert np.isnan(raw).any()
        right = run.predict(client, raw) == y
        assert right.mean() == run.clients["accuracy"][client]
        net = run.shared(client)
        outputs = net(torch.from_numpy(raw))
        right = outputs.argmax(1).numpy() == y
        assert right.mean() == run.clients["shared_accuracy"][client]
        assert outputs.dtype == getattr(torch, PRECISIONS[name])
        rows = held(data, data.test, client)[0]
        assert torch.equal(net[0](torch.from_numpy(raw)).to(rows.dtype), rows)
        assert torch.equal(net[1](rows), outputs)


def test_what_is_recorded_and_whose_inputs(runs, refuses):
    run = runs["own"]
    given, who, _ = load.deal(run.experiment, None)
    tensors, _ = files.load(run.path / files.FEATURES)
    assert set(tensors) == {"fill", "mean", "std", "constant", "imputed"}
    assert all(t.shape == (4, 5) for t in tensors.values())
    held = [np.concatenate(parts) for parts in zip(*who[:3], strict=True)]
    lacks = [np.isnan(given.x[rows]).sum() for rows in held]
    assert run.clients["imputed"].tolist() == lacks
    assert run.experiment.resolved["imputed"] == sum(lacks)
    assert run.experiment.resolved["constant"] == 1
    assert tensors["constant"].nonzero().tolist() == [[2, 3]]
    options = {"center": True, "scale": True, "impute": "mean"}
    assert run.experiment.features == Part("own", options)
    refuses(r"each client's own.*run.shared\(client=0\)", run.shared)
    refuses("there is no client 4; this run has 4, 0 to 3", run.shared, 4)
    x = torch.full((2, 5), torch.nan)
    assert not torch.equal(run.shared(0)[0](x + 1), run.shared(1)[0](x + 1) + 1)
    assert torch.isfinite(run.shared(2)(x)).all()
    run = runs["federated"]
    assert torch.equal(run.shared()(x), run.shared(3)(x))


@both
def test_resuming_fits_the_same(tree, name, resumed):
    tree = tree | {"features": name, "checkpoint": {"every": 2}}
    resumed(tree, 3, files.FEATURES, files.PERSONAL)


@pytest.mark.slow("exports a model by the compiler")
def test_a_model_can_be_taken_elsewhere(runs):
    """Saved, copied, exported and in float32, as any module."""
    run = runs["own"]
    net, x = run.model(0), torch.full((3, 5), torch.nan)
    x[0] = 7.0
    expected, other = net(x), run.model(1)
    assert not torch.equal(other(x), expected)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(x), expected)
    torch.testing.assert_close(run.model(0).float()(x), expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(torch.export.export(net, (x,)).module()(x), expected)


@both
def test_refusals_before_anything_is_written(tree, tmp_path, name):
    def refused(changed, why):
        with pytest.raises(Refusal, match=why):
            troth.run(tree | {"features": name} | changed, out=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    bytes_ = {"data": "digits", "partition": {"name": "iid", "clients": 4}}
    refused(bytes_, "and x is uint8; set features.name")
    refused({"model": {"name": "linear", "normalize": "pixel"}}, "'pixel' is for data")
    scaled = tree["data"] | {"scale": 255.0}
    refused({"data": scaled}, r"'unit' is for data .*\(scale 255\).*normalize = 'none'")
    refused(
        {"corruption": "backdoor"}, "'backdoor' changes test inputs in the units of"
    )
    plain = {"model": {"name": "linear", "normalize": "none"}}
    troth.cost(tree | plain | {"features": name, "data": scaled})
    if name == "federated":
        one = {"name": "iid", "clients": 1}
        refused({"partition": one, "adversary": {}}, "'federated' over 1 client would")


@pytest.fixture
def mine(monkeypatch):
    """A member of one's own, from the body of its function."""

    def write(body):
        module = types.ModuleType("mine")
        text = "import numpy as np\nfrom troth.types import Statistics\n"
        exec(f"{text}def ranges({body}\n", module.__dict__)
        monkeypatch.setitem(sys.modules, "mine", module)
        return "mine:ranges"

    return write


def test_features_of_ones_own(tree, tmp_path, mine, refuses):
    """Public ranges: nothing is fitted, nothing crosses the wire."""
    one = "np.ones(5)"
    made = f"Statistics({one}, {one}, width * {one}, {one})"
    name = mine(f"*, width: float = 2.0):\n    return {made}")
    own = {"features": {"name": name, "width": 4.0}}
    [run] = troth.run(tree | own, out=tmp_path / "run")
    assert run.shared()[0](torch.full((1, 5), 9.0)).tolist() == [[2.0] * 5]
    four = "must give a Statistics whose four arrays"
    finite = "finite numbers and positive standard"
    for made, words in (
        (f"Statistics({one}, {one}, {one}, np.ones(4))", four),
        ("None", four),
        (f"Statistics({one}, {one}, 0*{one}, {one})", finite),
        (f"Statistics({one}, {one}, {one}*np.nan, {one})", finite),
    ):
        name = mine(f"train):\n    return {made}")
        refuses(words, troth.cost, tree | {"features": name})


def relabelled(x, y, key):
    """Labels by the raw inputs, so that these must come in."""
    return x, ((x.nan_to_num().abs().flatten(1).sum(1) * 1e3).long() + key) % 2


@both
def test_labels_are_drawn_anew_from_raw_inputs(name, deal, shards, refuses):
    given, dtype = arrays(), torch.float32
    data, _, redraw = deal(name, given, relabelled, dtype, redraw=True)
    clean = deal(name, given, dtype=dtype)[0]
    assert torch.equal(data.x, clean.x)
    raw = torch.from_numpy(given.x[shards.train[1]])
    own = (torch.arange(len(data.train.y)) - 8).abs() <= 2  # rows 6 to 10
    for round_ in (0, 3, 0):
        redraw(round_, np.arange(3))
        key = seeding.keys(0, "corruption", round_, torch.tensor(1))
        assert torch.equal(data.train.y[own], relabelled(raw, torch.zeros(5), key)[1])
        assert torch.equal(data.train.y[~own], clean.train.y[~own])
    assert torch.equal(data.x, clean.x)
    words = f"'corrupt' changes inputs, to which features '{name}' are fitted once"
    refuses(words, deal, name, given, brighter, redraw=True)
