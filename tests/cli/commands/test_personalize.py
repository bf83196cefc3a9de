import itertools
import json
import re
import shutil
import sys

import numpy as np
import pytest
import torch

from troth import api, files, lookup
from troth.config import reader
from troth.data import load
from troth.federation import newcomers
from troth.networks import task
from troth.runs.load import Run
from troth.runs.personalize import personalize
from troth.types import Refusal

NAMES = lookup.names("personalizer")
NORMED = """
from torch import nn


def net(shape, classes):
    inner = nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh()
    return nn.Sequential(*inner, nn.Linear(5, classes))
"""


def examples(owner, seed=0):
    """Three classes; clients turn the inputs by an angle of their own."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(len(owner), 3)).astype(np.float32)
    y = np.digitize(x[:, 0] + np.sin(owner) * x[:, 1], [-0.4, 0.4])
    return {"x": x, "y": y, "group": np.arange(len(x)) % 2}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A file of data, and a model of a guest."""
    path = tmp_path_factory.mktemp("place")
    owner = np.repeat(np.arange(6), 20)
    np.savez(path / "d.npz", **examples(owner), owner=owner)
    (path / "normed3.py").write_text(NORMED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        yield path
    sys.modules.pop("normed3", None)


def experiment(place, **sections):
    return {
        "data": {"name": "npz", "path": str(place / "d.npz")},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "train": {"rounds": 8, "cohort": 3, "steps": 3, "batch": 4, "lr": 0.2},
        "personalizer": {"name": "ditto", "lam": 0.3},
        "engine": {"how": "loop", "chunk": 1, "device": "cpu"},
    } | sections


@pytest.fixture(scope="module")
def run(place):
    """A run whose data are gone."""
    shutil.copy(place / "d.npz", place / "gone.npz")
    gone = {"name": "npz", "path": str(place / "gone.npz")}
    api.run(experiment(place, data=gone), out=place / "run")
    (place / "gone.npz").unlink()
    return place / "run"


@pytest.fixture
def mine(tmp_path):
    np.savez(tmp_path / "mine.npz", **examples(np.full(50, 9), seed=4))
    return tmp_path / "mine.npz"


def vector(found):
    return task.flatten(found.model)


def test_a_model_is_made_written_and_predicts(troth, run, mine):
    out = mine.with_name("me.safetensors")
    result = troth("personalize", run, "--data", mine, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["examples"] == {"train": 40, "valid": 0, "test": 10}
    assert found["rounds"] == 4 and found["file"] == str(out)  # 8 · 3 / 6
    own, shared = found["personal"], found["shared"]
    assert own.keys() == shared.keys() >= {"accuracy", "loss"}
    assert result.stderr.splitlines() == [
        "ditto: 4 rounds on 40 training examples",
        f"accuracy {own['accuracy']:.3f} on 10 test examples; shared model "
        f"{shared['accuracy']:.3f}",
        f"Next: troth predict {run} --model {out} --data FILE.npz",
    ]
    given = np.load(mine)
    ask = ("predict", run, "--model", out, "--data", mine, "--json")
    told = json.loads(troth(*ask).stdout)
    assert told["model"] == str(out) and "client" not in told
    made = personalize(run, mine)
    with torch.no_grad():
        labels = made.model(torch.from_numpy(given["x"])).argmax(1).tolist()
    assert told["predictions"] == labels == Run(run).predict(out, given["x"]).tolist()
    assert told["accuracy"] == np.mean(np.array(labels) == given["y"])


def test_nothing_is_written_unasked(troth, run, mine):
    before = sorted(mine.parent.iterdir()), sorted(run.iterdir())
    result = troth("personalize", run, "--data", mine, "--test", 0, "--rounds", 1)
    assert result.exit_code == 0 and result.stderr == ""
    first, second, third = result.stdout.splitlines()
    assert first == "ditto: 1 round on 50 training examples"
    assert second.startswith("No examples were held out")
    assert third.startswith("The model was not saved. Save")
    assert (sorted(mine.parent.iterdir()), sorted(run.iterdir())) == before


def test_more_rounds_lead_further(run, mine):
    """And twice the same rounds lead to the same model."""
    w, arrays = task.flatten(Run(run).shared()), dict(np.load(mine))
    found = [personalize(run, mine, rounds=r) for r in (1, 3, 9)]
    away = [float((vector(each) - w).norm()) for each in found]
    assert 0 < away[0] < away[1] < away[2]
    again = personalize(Run(run), arrays, rounds=9)
    assert torch.equal(vector(again), vector(found[2]))


def newcomer(place, name, **more):
    """A run in which client 0 was the newcomer, and what that client has.

    Draws are keyed by the client, and one that comes with a file is number 0.
    """
    own = {"name": name, **({} if name == "none" else {"steps": 2})}
    whole = experiment(place, personalizer=own, evaluate={"newcomers": 0.1}, **more)
    whole["train"] = {**whole["train"], "precision": "float64"}
    seeds, nobody = itertools.count(), np.zeros(6, dtype=bool)
    while True:
        whole["seed"] = next(seeds)
        if newcomers.drawn(reader.from_dict(whole), nobody).tolist() == [0]:
            break
    (found,) = api.run(whole, out=place / f"own-{name}-{len(list(place.iterdir()))}")
    assert np.flatnonzero(found.clients["newcomer"]).tolist() == [0]
    shards, all_ = load.deal(found.experiment, None)[1], np.load(place / "d.npz")
    lists = [part[0] for part in shards[:3]]
    rows = np.concatenate(lists)
    words = np.repeat(["train", "valid", "test"], [len(part) for part in lists])
    order = np.argsort(rows)
    mine = {key: all_[key][rows[order]] for key in ("x", "y", "group") if key in all_}
    return found, {**mine, "split": words[order]}


SWEEP = pytest.mark.slow("every personalizer in two runs; a few stand for all")
FEW = ("none", "ditto", "fedbn", "apfl")
EVERY = [pytest.param(n, marks=() if n in FEW else SWEEP) for n in NAMES]


@pytest.mark.parametrize("name", EVERY)
def test_every_personalizer_as_in_a_run(place, name):
    more = {"model": "normed3:net"} if name == "fedbn" else {}
    more |= {"adversarial": {"name": "pgd", "bounds": []}}  # inputs of any size
    run, mine = newcomer(place, name, **more)
    found = personalize(run, mine)
    assert (vector(found) - task.flatten(run.model(0))).abs().max() < 1e-10
    assert found.personal["accuracy"] == run.clients["accuracy"][0]
    assert found.shared["accuracy"] == run.clients["shared_accuracy"][0]
    assert found.personal["loss"] == pytest.approx(run.clients["loss"][0], abs=1e-9)
    assert found.rounds in (0, 5)  # 8 · 3 / 5, rounded; 0 where they do not matter
    assert found.examples == {key: run.clients[key][0] for key in found.examples}


@pytest.mark.parametrize("features", ["federated", "own"])
def test_inputs_are_prepared_as_in_the_run(place, features, tmp_path):
    """And a missing value is filled in."""
    run, mine = newcomer(place, "ditto", features=features)
    found = personalize(run, mine)
    found.save(tmp_path / "me.safetensors")
    nets = found.model, run.newcomer(tmp_path / "me.safetensors"), run.model(0)
    with torch.no_grad():
        own, again, expected = (net(torch.from_numpy(mine["x"])) for net in nets)
    assert torch.equal(own, again) and (own - expected).abs().max() < 1e-9
    mine["x"][3, 1] = np.nan
    found = personalize(run, mine)
    with torch.no_grad():
        assert found.model(torch.from_numpy(mine["x"])).isfinite().all()


def test_pictures_in_whole_batches(tmp_path):
    """Bytes behind the run's own normalisation, some layers frozen, stepped lifted."""
    random, owner = np.random.default_rng(3), np.repeat(np.arange(6), 12)
    x = random.integers(0, 256, (72, 6, 6), dtype=np.uint8)
    y = (x.reshape(72, -1) @ random.normal(size=(36, 3))).argmax(1)
    np.savez(tmp_path / "d.npz", x=x, y=y, owner=owner)
    whole = experiment(
        tmp_path,
        model={"name": "mlp", "widths": [6], "normalize": "pixel", "freeze": ["1.*"]},
        train={"rounds": 5, "steps": 2, "batch": 0, "lr": 0.2, "precision": "float64"},
        evaluate={"newcomers": 0.3},
        engine={"how": "vmap", "chunk": 3, "device": "cpu"},
    )
    (run,) = api.run(whole, out=tmp_path / "run")
    shards = load.deal(run.experiment, None)[1]
    for k in np.flatnonzero(run.clients["newcomer"]).tolist():
        rows = np.concatenate([part[k] for part in shards[:3]])
        split = np.repeat([0, 1, 2], [len(part[k]) for part in shards[:3]])
        found = personalize(run, {"x": x[rows], "y": y[rows], "split": split})
        assert (vector(found) - task.flatten(run.model(k))).abs().max() < 1e-10


def test_one_class_alone_or_a_single_example_will_do(run):
    x = examples(np.full(12, 9))["x"]
    found = personalize(run, {"x": x, "y": np.full(12, 2)})
    assert found.examples == {"train": 10, "valid": 0, "test": 2}
    assert found.personal["accuracy"] >= found.shared["accuracy"]
    found = personalize(run, {"x": np.ones((1, 3)), "y": np.array([1])})
    assert found.examples == {"train": 1, "valid": 0, "test": 0}
    assert found.personal == {} and vector(found).isfinite().all()


def test_lam_is_chosen(place, mine):
    auto = {"name": "ditto", "lam": "auto", "candidates": [0.0, 1.0]}
    (run,) = api.run(experiment(place, personalizer=auto), out=place / "auto")
    found = personalize(run, mine)
    assert found.examples == {"train": 30, "valid": 10, "test": 10}
    with pytest.raises(Refusal, match="none of 2 examples is left for valid"):
        personalize(run, {"x": np.ones((2, 3)), "y": np.array([1, 0])})


def test_names_of_classes(tmp_path):
    lines = [f"{i % 7},{i % 5},{'well' if i % 7 > 3 else 'ill'}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,state", *lines]) + "\n")
    data = {"name": "csv", "path": str(tmp_path / "t.csv"), "label": "state"}
    more = {"personalizer": "local", "partition": {"name": "iid", "clients": 3}}
    whole = experiment(tmp_path, data=data, train={"rounds": 2}, **more)
    (run,) = api.run(whole, out=tmp_path / "run")
    assert run.experiment.resolved["labels"] == ["ill", "well"]
    x = np.array([[i % 7, i % 5] for i in range(20)], np.float32)
    well = x[:, 0] > 3
    named, plain, signs = (
        vector(personalize(run, {"x": x, "y": np.where(well, yes, no)}))
        for yes, no in (("well", "ill"), (1, 0), (1, -1))
    )
    assert torch.equal(named, plain) and torch.equal(signs, plain)
    with pytest.raises(Refusal, match="y holds 'fine', which is no class.*: ill, well"):
        personalize(run, {"x": x, "y": np.where(well, "fine", "ill")})


def refuses(run, x, *cases):
    for y, words in cases:
        with pytest.raises(Refusal, match=words):
            personalize(run, {"x": x, "y": y})


def test_a_regression(troth, tmp_path):
    random, owner = np.random.default_rng(2), np.repeat(np.arange(4), 15)
    x = random.normal(size=(60, 2))
    y = x @ [1.0, -1.0]
    np.savez(tmp_path / "d.npz", x=x, y=y + 0.1 * owner, owner=owner)
    whole = experiment(tmp_path, train={"rounds": 20, "lr": 0.1})
    (run,) = api.run(whole, out=tmp_path / "run")
    np.savez(tmp_path / "me.npz", x=x[:30], y=y[:30] + 5)
    result = troth("personalize", run.path, "--data", tmp_path / "me.npz", "--json")
    found = json.loads(result.stdout)
    assert found["personal"]["error"] < found["shared"]["error"]
    assert "error " in result.stderr
    whole_numbers = {"x": x[:30], "y": np.arange(30)}
    assert personalize(run, whole_numbers).personal["error"] > 0
    refuses(
        *(run, x[:30]),
        (np.full(30, np.nan), "y is NaN or infinite in 30 of 30"),
        (np.ones((30, 2)), "this run has targets, no classes"),
    )


def test_several_labels(tmp_path):
    random, owner = np.random.default_rng(2), np.repeat(np.arange(4), 15)
    x = random.normal(size=(60, 2)).astype(np.float32)
    y = (x @ random.normal(size=(2, 3)) > 0).astype(int)
    np.savez(tmp_path / "d.npz", x=x, y=y, owner=owner)
    (run,) = api.run(experiment(tmp_path), out=tmp_path / "run")
    x, y = x[:20], y[:20]
    assert {"accuracy", "exact"} <= {*personalize(run, {"x": x, "y": y}).personal}
    refuses(
        *(run, x),
        (y + 1, "y holds 2, which this run does not know"),
        (y[:, 0], r"this run has 3 labels \(several per example\)"),
    )


X = np.ones((4, 3), np.float32)
LABELS = np.array([0, 1, 2, 1])


def test_refused_examples(refused, run, tmp_path):
    out = tmp_path / "out.safetensors"
    for arrays, words in (
        ({"x": X}, "lacks the array y"),
        ({"y": LABELS}, "lacks the array x"),
        ({"x": X[:, :2], "y": LABELS}, r"shape \[2\] do not fit this model"),
        ({"x": X, "y": LABELS[:3]}, r"y has shape \(3,\) but x holds 4 examples"),
        ({"x": X, "y": np.array([0, 1, 3, 7])}, "y holds 3, 7, which this run does"),
        ({"x": X, "y": LABELS * 1.0}, "y is float64.*this run has 3 classes"),
        ({"x": X * np.nan, "y": LABELS}, "x is NaN in 4 of 4 examples"),
        ({"x": X * np.inf, "y": LABELS}, "x is NaN or infinite in 4 of 4"),
        ({"x": X, "y": LABELS, "split": [2] * 4}, "split marks none of 4 .* 'train'"),
        ({"x": X, "y": LABELS, "split": [0, 1, 2, 3]}, "split holds 3; it must be 0,"),
        ({"x": X, "y": LABELS, "split": [0, 2]}, r"split has shape \(2,\)"),
        ({"x": X[:0], "y": LABELS[:0]}, "x has shape"),
    ):
        np.savez(tmp_path / "bad.npz", **arrays)
        ask = (run, "--data", tmp_path / "bad.npz", "--out", out)
        assert re.search(words, refused("personalize", *ask)) and not out.exists()


def test_refused_files_and_numbers(refused, run, mine, place, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "half").mkdir()
    shutil.copy(run / "experiment.toml", tmp_path / "half")
    shutil.copytree(run, tmp_path / "far")
    tensors, _ = files.load(run / files.SHARED)
    tensors[next(k for k in tensors if k.endswith("weight"))][0, 0] = float("inf")
    files.save(tmp_path / "far" / files.SHARED, tensors)
    ask = (run, "--data", mine)
    for words, *arguments in (
        ("there is no file", run, "--data", tmp_path / "nowhere.npz"),
        ("has no names of columns", run, "--data", tmp_path / "t.csv"),
        ("exists already or cannot be written", *ask, "--out", mine),
        ("cannot be written", *ask, "--out", mine / "not" / "there.safetensors"),
        ("rounds = -1 must be at least 0", *ask, "--rounds", -1),
        ("test = 1.0 must be a share", *ask, "--test", 1),
        ("test = nan must be a share", *ask, "--test", "nan"),
        ("device 'tpu' is not available", *ask, "--device", "tpu"),
        ("is not the folder of a run", place, "--data", mine),
        ("Missing option '--data'", run),
        ("is not finished", tmp_path / "half", "--data", mine),
        ("is not finite, and no model can", tmp_path / "far", "--data", mine),
    ):
        assert words in refused("personalize", *arguments)


def test_models_of_other_runs(refused, place, run, mine):
    out = mine.with_name("me.safetensors")
    personalize(run, mine).save(out)
    with pytest.raises(Refusal, match="exists already"):
        personalize(run, mine).save(out)
    (other,) = api.run(experiment(place, seed=5), out=place / "other")
    for words, path, *more in (
        ("is not a newcomer's model of the run in", other.path, "--model", out),
        ("is not a newcomer's model of the run in", run, "--model", run / files.SHARED),
        ("cannot be read as a model", run, "--model", mine),
        ("cannot be read as a model", run, "--model", mine.with_name("no")),
        ("choose one model: --client NUMBER", run),
        ("choose one model: --client NUMBER", run, "--client", 0, "--model", out),
    ):
        assert words in refused("predict", path, *more, "--data", mine)


def test_a_table(troth, tmp_path, refused):
    """The file that predict reads is enough, with its column of labels."""
    draw = np.random.default_rng(0)
    lines = ["age,ward,state"]
    for k in range(60):
        age = draw.normal()
        lines.append(f"{age:.4f},{'ab'[k % 2]},{'ill' if age > 0 else 'well'}")
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "me.csv").write_text("\n".join(lines[:25]) + "\n")
    data = {"name": "csv", "path": str(tmp_path / "all.csv"), "label": "state"}
    whole = experiment(tmp_path, data=data, train={"rounds": 3})
    whole["partition"] = {"name": "iid", "clients": 3}
    (run,) = api.run(whole, out=tmp_path / "run")
    result = troth("personalize", run.path, "--data", tmp_path / "me.csv", "--json")
    assert result.exit_code == 0, result.output
    assert sum(json.loads(result.stdout)["examples"].values()) == 24
    (tmp_path / "no.csv").write_text("age,ward\n1,a\n")
    words = refused("personalize", run.path, "--data", tmp_path / "no.csv")
    assert "has no column 'state', which data.label names; there are: " in words
