"""Conflicting examples as a test set of their own, and how a run reports such sets."""

import csv
import json

import numpy as np
import pytest
import torch

import troth
from troth import build, lookup
from troth.config import reader
from troth.data import load, split
from troth.engine.local_training import Plan
from troth.runs import personalize, results
from troth.types import Arrays, Refusal, Shards

SIZES = [40, 25, 60, 33]  # examples of each client
N, M = len(SIZES), sum(SIZES)


def rows(*lists):
    return [np.array(one, np.int64) for one in lists]


def arrays(group):
    marks = None if group is None else np.asarray(group, np.int64)
    return Arrays(np.zeros((12, 2)), np.zeros(12, np.int64), 2, group=marks)


SHARDS = Shards(rows([0, 1, 2, 3], [8, 9]), rows([4], []), rows([5, 6, 7], [10, 11]))
GROUP = [0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0]


def listed(lists):
    return [one.tolist() for one in lists]


def apart(how, correlation=0.98, seed=0):
    return split.set_apart(arrays(GROUP), SHARDS, seed, how, correlation)


def test_by_hand():
    made = apart("copied")
    assert listed(made.tests["conflicting"]) == [[6, 7], []]
    assert made[:3] == SHARDS[:3]
    for group in (None, GROUP, range(12)):
        assert split.set_apart(arrays(group), SHARDS, 0, "none", 0.98) is SHARDS
    made = apart("held_out", 1.0)
    assert listed(made.tests["conflicting"]) == [[2, 3, 6, 7], []]
    assert listed(made.train) == [[0, 1], [8, 9]]
    assert listed(made.valid) == [[4], []] and listed(made.test) == [[5], [10, 11]]
    made = apart("held_out", 2 / 3)
    gone = made.tests["conflicting"][0].tolist()
    assert len(gone) == 3 and {6, 7} < {*gone}
    assert sorted([*made.train[0], *gone, 5, 4]) == [*range(8)]
    kept = {tuple(apart("held_out", 2 / 3, s).train[0]) for s in range(20)}
    assert kept == {(0, 1, 2), (0, 1, 3)}  # which one is drawn


def test_what_stays_is_as_aligned_as_asked():
    for correlation in (0.98, 0.9, 0.7):
        random = np.random.default_rng(0)
        given = Arrays(np.zeros((900, 1)), np.zeros(900, np.int64), 2)
        given = given._replace(group=(random.random(900) < 0.4).astype(np.int64))
        lists = np.array_split(random.permutation(900), 9)
        shards = Shards(lists[:3], lists[3:6], lists[6:])
        made = split.set_apart(given, shards, 0, "held_out", correlation)
        for k, part in ((k, part) for k in range(3) for part in made[:3]):
            share = np.mean(given.group[part[k]] == 0)
            assert correlation <= share < correlation + 1 / len(part[k])
        out = np.concatenate(made.tests["conflicting"])
        assert (given.group[out] == 1).all() and len(out) == len(np.unique(out))
        all_ = np.concatenate([*made.train, *made.valid, *made.test, out])
        assert sorted(all_) == [*range(900)]


def test_refusals(refuses):
    for words, group, how in (
        ("'copied' needs data with a group, 0 for", None, "copied"),
        ("and the data have 2 too", [*GROUP[:11], 2], "held_out"),
        ("and the data have -1 too", [*GROUP[:11], -1], "copied"),
        ("finds no conflicting example", [0] * 12, "held_out"),
        ("finds no conflicting example", [1] * 5 + [0] * 7, "copied"),
        (r"leaves 2 of 2 .*\(the first is 0\)", [1] * 12, "held_out"),
    ):
        refuses(words, split.set_apart, arrays(group), SHARDS, 0, how, 0.98)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    random, owner = np.random.default_rng(1), np.repeat(np.arange(N), SIZES)
    x = random.normal(size=(M, 4)).astype(np.float32)
    y = (x[:, 0] + np.sin(owner) * x[:, 1] > 0).astype(np.int64)
    group = np.where(random.random(M) < 0.4, "conflicting", "aligned")
    group[owner == 3] = "aligned"
    file = tmp_path_factory.mktemp("data") / "own.npz"
    np.savez(file, x=x, y=y, owner=owner, group=group)
    return file


def tree(path, **sections):
    return {
        "seed": 4,
        "data": {"name": "npz", "path": str(path)},
        "partition": {"name": "natural", "conflicting": "copied"},
        "train": {"rounds": 4, "steps": 2, "batch": 5, "lr": 0.1},
        "personalizer": {"name": "finetune", "steps": 6},
        "engine": {"how": "loop", "chunk": 1, "device": "cpu"},
    } | sections


def accuracy(net, x, y):
    with torch.no_grad():
        outputs = net(torch.from_numpy(x))
    said = outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
    return float((said.numpy() == y).mean()) if len(y) else float("nan")


@pytest.fixture(scope="module")
def run(path, tmp_path_factory):
    return troth.run(tree(path), out=tmp_path_factory.mktemp("runs") / "run")[0]


def test_every_test_set_is_reported(run):
    """Against the saved models, client by client; the ordinary test as ever."""
    given, shards, _ = load.deal(run.experiment, None)
    with (run.path / "clients.csv").open() as file:
        table = list(csv.DictReader(file))
    sets = {"": shards.test, "conflicting_": shards.tests["conflicting"]}
    for k in range(N):
        for name, lists in sets.items():
            one = given.x[lists[k]], given.y[lists[k]]
            own = accuracy(run.model(k), *one)
            shared = accuracy(run.shared(), *one)
            for prefix, expected in (("", own), ("shared_", shared)):
                cell = table[k][f"{prefix}{name}accuracy"]
                if len(lists[k]):
                    assert float(cell) == pytest.approx(expected, abs=1e-6)
                else:
                    assert cell in ("", "nan") and k == 3
        assert int(table[k]["conflicting"]) == len(shards.tests["conflicting"][k])
    found = json.loads((run.path / "summary.json").read_text())
    for kind, prefix in (("personal", ""), ("shared", "shared_")):
        column = run.clients[f"{prefix}conflicting_accuracy"]
        assert np.isnan(column).tolist() == [False, False, False, True]
        mean = found["tests"]["conflicting"][kind]["accuracy_mean"]
        assert mean == pytest.approx(np.nanmean(column))
        sizes = run.clients["conflicting"][:3]
        weighted = found["tests"]["conflicting"][kind]["accuracy_weighted"]
        assert weighted == pytest.approx(np.average(column[:3], weights=sizes))
    (*_, last) = (line for line in run.rounds if "evaluation" in line)
    assert "accuracy_mean" in last["evaluation"]["tests"]["conflicting"]["shared"]


def test_newcomers_have_them_too_and_a_resumed_run(path, tmp_path, resumed):
    (run,) = troth.run(tree(path, evaluate={"newcomers": 0.5}), out=tmp_path / "run")
    late = np.flatnonzero(run.clients["newcomer"])
    column = run.clients["conflicting_accuracy"][late]
    found = run.summary["newcomers_tests"]["conflicting"]
    assert np.isfinite(column).any()
    assert found["personal"]["accuracy_mean"] == pytest.approx(np.nanmean(column))
    members = np.delete(run.clients["conflicting_accuracy"], late)
    mean = run.summary["tests"]["conflicting"]["personal"]["accuracy_mean"]
    assert mean == pytest.approx(np.nanmean(members))
    more = {"evaluate": {"newcomers": 0.2}, "checkpoint": {"every": 1}}
    resumed(tree(path, **more), 2)


def test_a_newcomers_own_file_may_have_groups(path, tmp_path):
    part = {"name": "upweight", "steps": 3, "without": "finetune"}
    (run,) = troth.run(tree(path, personalizer=part), out=tmp_path / "run")
    x = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    mine = {"x": x, "y": (x[:, 0] > 0).astype(int)}
    with pytest.raises(Refusal, match="'upweight' needs the group of every example"):
        personalize.personalize(run, mine)
    group = np.array(["aligned", "conflicting"])[np.arange(20) % 2]
    found = personalize.personalize(run, mine | {"group": group})
    assert found.personal["accuracy"] >= 0
    with pytest.raises(Refusal, match=r"group has shape \(19,\)"):
        personalize.personalize(run, mine | {"group": group[:19]})


def test_evaluation_takes_no_further_sets_for_validation(path):
    ready = build.build(reader.from_dict(tree(path)), plan=Plan("loop", 1))
    assert set(results.evaluate(ready, on="valid")) == {"personal", "shared"}
    names = {f"{kind}/conflicting" for kind in ("personal", "shared")}
    assert set(results.evaluate(ready)) == {"personal", "shared"} | names


def test_every_data_set_with_a_second_step_asks_for_its_own_options():
    """What `dealt` asks for is an option of the data set, so that it is given."""
    found = 0
    for name in lookup.names("data"):
        function = lookup.find("data", name)
        second = lookup.companion(function, "dealt")
        if second is not None:
            assert {*lookup.options(second)} <= {*lookup.options(function)}
            assert lookup.asks(second) <= {"arrays", "shards", "seed"}
            found += 1
    assert found
