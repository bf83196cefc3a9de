import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from troth import api, devices, files
from troth.certificates.bounds import lower
from troth.certificates.record import fingerprint
from troth.certificates.smoothing import Smoothing
from troth.data import load
from troth.examine import certify
from troth.runs.load import Run
from troth.types import Refusal

SECTIONS = {
    "data": "digits",
    "model": "linear",
    "partition": {"name": "iid", "clients": 5, "split": [0.8, 0.1, 0.1]},
    "train": {"rounds": 4, "steps": 20, "batch": 16, "lr": 0.1},
    "engine": {"how": "vmap", "chunk": 5, "device": "cpu"},
    "evaluate": {"every": 4},
}
FEW = ("--n", 200, "--n0", 20, "--tile", 100, "--alpha", 0.01, "--examples", 6)
SMALL = Smoothing(sigma=0.2, n=200, n0=20, tile=100, alpha=0.01)


def trained(place, name, **sections):
    (run,) = api.run(SECTIONS | sections, out=place / name)
    return run.path


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    attacked = {"adversary": {"clients": [1]}, "attack": "sign_flip"}
    return {
        "tuned": trained(place, "tuned", personalizer="finetune", **attacked),
        "local": trained(place, "local", personalizer="local"),
        "none": trained(place, "none"),
    }


@pytest.fixture
def run(runs, tmp_path):
    """A run of one's own, to be written to."""
    return Path(shutil.copytree(runs["tuned"], tmp_path / "run"))


def rows(place):
    head, *lines = (place / "certificates.csv").read_text().splitlines()
    return [dict(zip(head.split(","), x.split(","), strict=True)) for x in lines]


def test_a_radius_for_every_client(troth, run):
    result = troth("certify", run, "--sigma", 0.2, "--json", *FEW)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["certificates"] == told["made"] == 2 * 4 * 6
    assert told["settings"]["sigma"] == 0.2 and told["unit"] == "ℓ2 norm"
    assert list(told["models"]) == ["personal", "shared"]
    found = rows(run)
    assert {r["client"] for r in found} == {"0", "2", "3", "4"}  # 1 is malicious
    for r in found:
        exact = SMALL.bound(lower(int(r["votes"]), 200, 0.01), 64)  # of 64 pixels
        assert float(r["p_lower"]) == exact
        assert r["precision"] == "float32" and len(r["parameters"]) == 64
    for name, curve in told["models"].items():
        mine = [r for r in found if r["model"] == name]
        right = np.array([r["label"] == r["y"] for r in mine]).reshape(4, 6)
        assert curve["mean"][0] == pytest.approx(right.mean())
        assert curve["std"][0] == pytest.approx(right.mean(axis=1).std())
        radius = np.array([float(r["radius"]) for r in mine]).reshape(4, 6)
        assert curve["acr"] == pytest.approx((radius * right).mean())
        for k, row in zip(("0", "2", "3", "4"), right, strict=True):
            one = curve["clients"][k]
            assert one["low"][0] == lower(row.sum(), 6, 0.025)
            assert one["low"][0] <= row.mean() <= one["high"][0]
    (pair,) = told["paired"]
    assert pair["models"] == ["personal", "shared"]
    assert pair["acr"]["low"] <= pair["acr"]["value"] <= pair["acr"]["high"]
    assert "without the part that is due to few examples: personal" in result.stderr
    assert (run / "certificates_pixel_0.2.png").stat().st_size > 10_000
    assert json.loads((run / "certificates_pixel_0.2.json").read_text()) == told


def test_the_examples_are_the_client_s_own_test_data(run):
    found = certify.certify(Run(run), SMALL, models=("shared",), examples=10)
    arrays, shards, _ = load.deal(Run(run).experiment, None)
    for row in found.rows:
        assert row.example in shards.test[row.client] and row.y == arrays.y[row.example]
    fewer = certify.certify(Run(run), SMALL, models=("shared",), examples=3)
    assert fewer.made == 0 and len(fewer.rows) == 12
    assert {*fewer.rows} < {*found.rows}
    more = certify.certify(Run(run), SMALL, models=("shared",), examples=10**6)
    assert len(more.rows) == sum(len(shards.test[k]) for k in (0, 2, 3, 4))


def test_votes_are_those_of_the_model_that_predicts(run):
    """Next to no noise: what a client's model predicts is certified."""
    small, one = Smoothing(sigma=1e-6, n=50, n0=10), Run(run)
    found = certify.certify(one, small, clients="2,", examples=10)
    arrays, _, _ = load.deal(one.experiment, None)
    nets = {"shared": one.shared(), "personal": one.model(2)}
    for row in found.rows:
        x, net = arrays.x[row.example : row.example + 1], nets[row.model]
        with torch.no_grad():
            expected = int(net(torch.from_numpy(x)).argmax())
        assert row.certificate.label == expected and row.certificate.votes == 50
        assert row.model == "shared" or expected == one.predict(2, x)[0]
        assert row.parameters == fingerprint(net)


def test_one_client_alone(troth, refused, run, tmp_path):
    given = ("--models", "shared", "--out", tmp_path / "out", *FEW)
    done = troth("certify", run, "--client", 2, *given)
    assert done.exit_code == 0, done.output
    assert {row["client"] for row in rows(tmp_path / "out")} == {"2"}
    for file in (tmp_path / "out").iterdir():
        assert str(file) in done.stdout
    said = refused("certify", run, "--client", 2, "--clients", "3", *given)
    assert "--client 2 and --clients 3 contradict each other; give one" in said


def test_a_stopped_command_goes_on(run, tmp_path):
    def stop(p):
        if p.done == 5:
            raise KeyboardInterrupt

    whole = certify.certify(Run(run), SMALL, examples=4, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        certify.certify(Run(run), SMALL, examples=4, watch=stop)
    file = run / "certificates.csv"
    assert len(rows(run)) == 5
    file.write_bytes(file.read_bytes()[:-30])  # and was killed while it wrote
    told = []
    found = certify.certify(Run(run), SMALL, examples=4, watch=told.append)
    assert found.made == len(whole.rows) - 4 and told[0].done == 5
    assert file.read_bytes() == whole.file.read_bytes()
    assert found.rows == whole.rows


def test_adaptive_samples(troth, run):
    more = ("--samples", "adaptive", "--sigma", 0.2, "--json", "-q")
    result = troth("certify", run, *more, "--radii", "0,0.1,0.3", *FEW, "--n", 2000)
    told = json.loads(result.stdout)
    assert told["models"]["shared"]["radii"] == [0, 0.1, 0.3]
    assert result.stderr == "" and told["settings"]["question"] == "0.0;0.1;0.3"
    assert told["models"]["shared"]["used"] < 2000
    again = troth("certify", run, *more, "--tolerance", 0.1, *FEW, "--n", 2000)
    assert json.loads(again.stdout)["made"] == 48


def test_a_deformation(troth, run):
    given = ("--transform", "rotation", "--clients", 1, "--models", "shared", *FEW)
    result = troth("certify", run, *given, "--sigma", 0.1, "--padding", "border")
    assert result.exit_code == 0, result.output
    assert "one resampling of the original image" in result.stdout
    assert {r["padding"] for r in rows(run)} == {"border"}


def test_local_models(troth, run, runs, tmp_path):
    given = ("--models", "shared,local", "--local", runs["local"], "--json", *FEW)
    told = json.loads(troth("certify", run, *given, "--clients", "0,4").stdout)
    assert list(told["models"]) == ["shared", "local"]
    assert list(told["models"]["local"]["clients"]) == ["0", "4"]
    own = certify.certify(Run(runs["local"]), SMALL, models=("local",), out=run)
    assert own.rows[0].parameters == fingerprint(Run(runs["local"]).model(0))
    other = trained(tmp_path, "other", personalizer="local", seed=3)
    with pytest.raises(Refusal, match="differs from .* in 'seed'"):
        certify.certify(Run(runs["tuned"]), SMALL, local=Run(other))
    none = certify.certify(Run(runs["none"]), SMALL, examples=1, out=tmp_path / "a")
    assert list(none.curves) == ["shared"]  # of a run without personal models


def test_parameters_that_do_not_match_the_hash(troth, refused, run):
    """And before that, what is printed is rounded down."""
    given = ("--sigma", 0.2, "--models", "shared", "--clients", 2, *FEW)
    result = troth("certify", run, *given)
    told = json.loads((run / "certificates_pixel_0.2.json").read_text())
    line = next(x for x in result.stdout.splitlines() if x.startswith("shared"))
    printed = [float(cell) for cell in line.split()[7:9]]
    exact = [told["models"]["shared"][k] for k in ("acr", "acr_right")]
    assert all(0 <= b - a < 0.001 for a, b in zip(printed, exact, strict=True))
    before = (run / "certificates.csv").read_bytes()
    tensors, facts = files.load(run / files.SHARED)
    name = next(n for n in tensors if n.endswith("weight"))
    tensors[name] = tensors[name] + 1e-3
    files.save(run / files.SHARED, tensors, **facts)
    said = refused("certify", run, *given)
    assert re.search("shared model of client 0 has .*changed after", said)
    assert (run / "certificates.csv").read_bytes() == before


def test_refusals(refused, runs, run, tmp_path):
    tuned, none = runs["tuned"], runs["none"]
    bare = trained(tmp_path, "bare", personalizer="ditto", output={"personal": False})
    (run / files.SUMMARY).unlink()
    for path, given, words in (
        (tuned, ("--sigma", 0), "sigma = 0.0"),
        (tuned, ("--examples", 0), "examples = 0"),
        (tuned, ("--clients", "some"), "clients = 'some' must be 'all'"),
        (tuned, ("--client", 9), "there is no client 9; this run has 5"),
        (tuned, ("--clients", "0,9"), "no client 9; this run has 5"),
        (tuned, ("--clients", "99"), "clients = 99 must be 1 to 4"),
        (tuned, ("--clients", "-1"), "clients = '-1'"),
        (tuned, ("--models", "best"), "models = 'best' must name some of personal"),
        (tuned, ("--radii", "a"), "--radii a must be numbers separated"),
        (tuned, ("--radii", "0,1"), "no effect with fixed samples"),
        (tuned, ("--transform", "zoom"), "transform = 'zoom' is not one of"),
        (tuned, ("--models", "local"), "local models come from another run.*--local"),
        (tuned, ("--models", "local", "--local", tuned), "personalizer 'finetune'"),
        (none, ("--models", "personal"), "no personal models.*--models shared, or tr"),
        (bare, (), "holds no personal models.*output.personal = true"),
        (run, (), "not finished.*troth resume"),
        (tuned, ("--device", "cuda:77"), "device 'cuda:77' is not available"),
    ):
        assert re.search(words, refused("certify", path, *FEW, *given))
        assert not (path / "certificates.csv").exists()


def test_inputs_that_are_no_images(troth, refused, tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 3)).astype(np.float32)
    owner = np.repeat(np.arange(4), 20)
    np.savez(tmp_path / "d.npz", x=x, y=(x[:, 0] > 0).astype(int), owner=owner)
    data = {"name": "npz", "path": str(tmp_path / "d.npz")}
    parts = {"name": "natural", "split": [0.5, 0.0, 0.5]}
    path = trained(tmp_path, "table", data=data, partition=parts)
    words = r"transform 'rotation' deforms images.*shape \[3\]; take transform 'pixel'"
    assert re.search(words, refused("certify", path, "--transform", "rotation"))
    result = troth("certify", path, "--sigma", 0.5, *FEW, "--json")  # two classes
    assert json.loads(result.stdout)["models"]["shared"]["mean"][0] > 0.5
    numbers = {"data": "linear_regression", "partition": "natural"}
    train = {"rounds": 1, "steps": 1, "lr": 0.01}
    path = trained(tmp_path, "numbers", train=train, **numbers)
    words = "predict numbers, but a certificate is about a single class"
    assert words in refused("certify", path)


def test_threads_are_chosen_as_in_training(troth, runs, tmp_path, monkeypatch):
    """On a busy machine, torch's default of all cores is several times slower."""
    seen = set()
    work = certify._work

    def watched(*given):
        seen.add(torch.get_num_threads())
        return work(*given)

    monkeypatch.setattr(certify, "_work", watched)
    monkeypatch.setattr(devices, "threads", lambda device: 2)
    given = ("--sigma", 0.2, "--clients", 1, "--out", tmp_path, "--models", "shared")
    result = troth("certify", runs["tuned"], *given, *FEW)
    assert result.exit_code == 0, result.output
    assert seen == {2} and torch.get_num_threads() == 1
