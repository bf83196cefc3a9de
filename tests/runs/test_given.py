"""Runs with data and networks from memory: as from a file, and resumed with them."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import troth
from troth.reports import cards
from troth.runs import inspect
from troth.runs.train import Interrupted

X = np.random.default_rng(0).normal(size=(90, 3)).astype("float32")
Y = (X[:, 0] > 0).astype(int)
DATA = {"x": X, "y": Y, "owner": np.arange(90) % 3}
TREE = {
    "partition": "natural",
    "train": {"rounds": 4},
    "personalizer": "ditto",
    "engine": {"how": "loop"},
    "checkpoint": {"every": 1},
}
FILES = ("clients.csv", "rounds.jsonl", "shared.safetensors", "personal.safetensors")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x)


class Other(Net):
    def forward(self, x):
        return -self.layer(x)


def contents(run):
    return [(run.path / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("given") / "run"
    return troth.run(TREE, data=DATA, model=Net, out=out)[0]


def stopped(path, **objects):
    """A run that was stopped after two rounds."""

    def stop(progress):
        if progress.done == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        troth.run(TREE, out=path, watch=stop, **objects)
    return path


def test_a_run_from_memory_is_that_of_a_file(tmp_path, whole):
    np.savez(tmp_path / "mine.npz", **DATA)
    tree = TREE | {"data": {"name": "npz", "path": str(tmp_path / "mine.npz")}}
    [filed] = troth.run(tree, model=Net, out=tmp_path / "run")
    assert contents(filed) == contents(whole)
    facts = whole.experiment.resolved
    assert facts["data_sha256"] == filed.experiment.resolved["data_sha256"]
    assert whole.predict(0, X[:4]).shape == (4,)


def test_resume_asks_for_the_same_again(tmp_path, whole, refuses):
    own = DATA | {"group": np.arange(90) % 2}  # that no other run holds
    path = stopped(tmp_path / "other", data=own)
    words = "with data from memory, and .*troth.resume.*other', data=…"
    refuses(words, troth.resume, path)
    troth.resume(path, data=own)
    troth.resume(path)  # it is finished
    path = stopped(tmp_path / "run", data=DATA, model=Net)
    refuses("data= is 'memory:arr", troth.resume, path, data=DATA | {"y": 1 - Y})
    wrong = {"data": DATA, "model": Other}
    refuses(
        "with model 'memory:Net@.*model= is 'memory:Other", troth.resume, path, **wrong
    )
    [same] = troth.resume(path, data=DATA, model=Net)
    assert contents(same) == contents(whole)
    refuses(
        "'linear', which is not from memory; leave out model=",
        troth.load,
        troth.run(TREE, data=DATA, out=tmp_path / "linear")[0].path,
        model=Net,
    )


def test_resume_refuses_a_function_that_builds_another_network(tmp_path, refuses):
    size = 4

    def made():
        return nn.Sequential(nn.Linear(3, size), nn.Linear(size, 2))

    path = stopped(tmp_path / "run", data=DATA, model=made)
    size = 5
    refuses("the network of .* changed", troth.resume, path, data=DATA, model=made)


def test_a_changed_file_has_another_id_and_is_not_resumed(tmp_path, refuses):
    file = tmp_path / "mine.npz"
    tree = TREE | {"data": {"name": "npz", "path": str(file)}}
    np.savez(file, **DATA)
    [first] = troth.run(tree, out=tmp_path / "first")

    def stop(progress):
        raise Interrupted

    with pytest.raises(Interrupted):
        troth.run(tree, out=tmp_path / "run", watch=stop)
    np.savez(file, **DATA | {"y": 1 - Y})
    refuses("the data of .* changed since", troth.resume, tmp_path / "run")
    [other] = troth.run(tree, out=tmp_path / "other")
    ids = [run.experiment.resolved["fingerprint"] for run in (first, other)]
    assert ids[0] != ids[1]


CODE = """
import sys, troth
run = troth.load(sys.argv[1])
print(run.summary["clients"], troth.report([run.path], out=sys.argv[2]))
try:
    run.model(0)
except troth.Refusal as refusal:
    print(refusal)
"""


def test_tables_are_read_without_the_objects(tmp_path, whole):
    command = [sys.executable, "-c", CODE, str(whole.path), str(tmp_path / "page.html")]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("3 ") and "troth.load(path, model=…)" in ran.stdout
    assert (tmp_path / "page.html").exists()


def test_a_grid_shares_what_was_given(tmp_path, refuses):
    net = nn.Linear(3, 2)
    tree = TREE | {"grid": {"personalizer": ["ditto", "local"]}}
    runs = troth.run(tree, data=DATA, model=net, out=tmp_path / "grid")
    assert len({run.experiment.model.name for run in runs}) == 1
    assert [r.path for r in troth.resume(tmp_path / "grid", data=DATA)] == [
        run.path for run in runs
    ]
    for setting, words in (
        (
            "model=linear",
            "model= is given, and a setting .* sets model.name = 'linear'",
        ),
        ('grid.model=["linear"]', "'memory:Linear@.*because grid.model replaces it"),
    ):
        given = {"data": DATA, "model": net, "settings": [setting]}
        refuses(words, troth.run, TREE, out=tmp_path / "no", **given)
    [cost] = troth.cost(TREE, data=DATA, model=net)
    assert cost.client_steps > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"grid": {"model": ["mlp", "linear"]}},
            "model= is given, and grid.model names",
        ),
        (
            {"grid": {"data.name": ["digits"]}},
            "data= is given, and grid.data.name names",
        ),
        ({"model": Net}, "'model' .* holds a type; pass .*model=…"),
        ({"data": DATA}, "'data' .* holds a ndarray; pass .*data=…"),
    ],
)
def test_no_object_and_no_axis_is_lost(tmp_path, refuses, changes, words):
    tree, given = TREE | changes, {"data": DATA, "model": Net}
    refuses(words, troth.run, tree, out=tmp_path / "no", **given)
    refuses(words, troth.cost, tree, **given)


def test_a_run_is_pickled_as_its_folder(whole):
    again = pickle.loads(pickle.dumps(whole))
    assert again.path == whole.path and again.summary == whole.summary


def test_a_name_that_an_object_would_replace_is_refused(refuses):
    net, words = nn.Linear(3, 2), "is given, and the experiment sets"
    refuses(f"model= {words} model.name", troth.cost, {"model": "mlp"}, model=net)
    refuses(f"data= {words}", troth.cost, {"data": {"name": "digits"}}, data=DATA)
    tree = TREE | {"model": {"normalize": "none"}}
    assert troth.cost(tree, data=DATA, model=net)
    assert troth.cost(
        data=DATA, model=net, settings=["partition=natural", "train.cohort=0"]
    )


def test_weights_of_a_module_are_where_training_starts(tmp_path):
    net = nn.Linear(3, 2)
    tree = TREE | {"train": {"rounds": 1, "lr": 0.0}, "personalizer": "none"}
    [run] = troth.run(tree, data=DATA, model=net, out=tmp_path / "run")
    assert torch.equal(run.network()[1].weight, net.weight)


def test_clients_csv_names_the_owners(tmp_path):
    names = np.array(["Ulm, west", "Bern", "12"])
    data = DATA | {"owner": names[DATA["owner"]]}
    [run] = troth.run(TREE, data=data, out=tmp_path / "run")
    assert run.clients["owner"].tolist() == ["12", "Bern", "Ulm, west"]
    assert run.experiment.resolved["owners"] == ["12", "Bern", "Ulm, west"]
    assert run.clients["accuracy"].shape == (3,)
    page = tmp_path / "page.html"
    report = troth.report([run.path], out=page)
    owners = [
        card["owner"] for card in cards.document(inspect.opened([run.path]))["cards"]
    ]
    assert owners == ["12", "Bern", "Ulm, west"] and report and page.exists()
