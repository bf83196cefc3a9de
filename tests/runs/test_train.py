"""A run as a folder: its files, its bytes, and what survives a kill."""

import json
import logging
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import troth
from troth import build, files
from troth.config import reader
from troth.data import load
from troth.engine import local_training as engine
from troth.runs import results, train
from troth.types import Refusal

SMALL = {
    "partition": {"name": "classes", "clients": 12, "per_client": 4},
    "model": {"name": "mlp", "widths": [16]},
    "train": {"rounds": 6, "cohort": 5, "epochs": 1, "batch": 16},
    "personalizer": {"name": "ditto", "lam": 0.5},
    "adversary": {"fraction": 0.2},
    "attack": "model_replacement",
    "engine": {"how": "vmap", "chunk": 3},
}
MORE = pytest.mark.slow("the same at another moment")


def test_validation_data_have_scores_of_their_own(run):
    assert run.clients["valid"].sum() > 0
    built = build.build(run.experiment, plan=engine.Plan("loop", 1))
    split = built.data.valid
    hit = run.shared()(built.data.x[split.row]).argmax(1) == split.y
    own = (hit[a : a + n] for a, n in zip(split.start, split.size, strict=True))
    means = [
        float(one.double().mean())
        for one, bad in zip(own, built.hostile, strict=True)
        if len(one) and not bad
    ]
    found, t = run.summary["valid"], run.clients
    assert found["shared"]["accuracy_mean"] == pytest.approx(np.mean(means))
    assert found["personal"] != found["shared"] and "valid_loss" not in t
    for kind, column in (("personal", ""), ("shared", "shared_")):
        scores = t[f"{column}valid_accuracy"]  # shares of its validation examples
        mean = np.nanmean(scores[t["malicious"] == 0])
        assert np.isclose(mean, found[kind]["accuracy_mean"])
        right = scores * t["valid"]
        assert np.allclose(right, right.round(), equal_nan=True)
    assert not np.array_equal(t["valid_accuracy"], t["accuracy"])


def test_validation_of_a_regression_and_of_no_data(tmp_path):
    """The error of clients; and no column where no example is set aside."""
    tree = {"data": {"name": "linear_regression"}, "model": "linear", "attack": "none"}
    tree |= {"train": {"rounds": 1}, "engine": SMALL["engine"]}
    for valid in (0.2, 0.0):
        part = {"name": "natural", "split": [0.8 - valid, valid, 0.2]}
        [run] = troth.run({**tree, "partition": part}, out=tmp_path / f"{valid}")
        columns = [name for name in run.clients if "valid_" in name]
        assert bool(columns) == ("valid" in run.summary) == (valid > 0)
        if columns:
            mean = run.summary["valid"]["personal"]["error_mean"]
            assert np.isclose(run.clients["valid_error"].mean(), mean)


def changed(**sections):
    return SMALL | {k: SMALL.get(k, {}) | v for k, v in sections.items()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return troth.run(SMALL, out=tmp_path_factory.mktemp("run") / "run")[0]


def test_files_and_summary(run):
    assert run.finished
    names = {files.EXPERIMENT, files.ROUNDS, files.CLIENTS, files.SUMMARY}
    names |= {files.SHARED, files.PERSONAL}
    assert {p.name for p in run.path.iterdir()} == names
    keys = {"personal", "shared", "clients", "malicious", "rounds", "client_steps"}
    assert set(run.summary) == keys | {"seconds", "setup_seconds", "stayed", "valid"}
    wanted = {"mean", "std", "weighted", "worst10", "best10", "deciles", "jain"}
    assert {f"accuracy_{k}" for k in wanted} <= set(run.summary["personal"])
    assert {"loss_mean", "loss_std"} <= set(run.summary["shared"])
    assert (run.summary["clients"], run.summary["malicious"]) == (12, 3)
    benign = ~run.clients["malicious"].astype(bool)
    mean = run.clients["accuracy"][benign].mean()
    assert mean == pytest.approx(run.summary["personal"]["accuracy_mean"], abs=1e-15)
    assert run.clients["asked"].sum() == 6 * 5
    assert len(run.rounds) == 6 and "evaluation" in run.rounds[-1]
    resolved = run.experiment.resolved
    plan = {"how": "vmap", "chunk": 3, "workers": 1, "threads": 1}
    assert resolved["plan"] == plan
    assert torch.__version__.startswith(resolved["versions"]["torch"])


def test_same_experiment_same_bytes(run, tmp_path, contents):
    [same] = troth.run(SMALL, out=tmp_path / "same")
    assert contents(same.path) == contents(run.path)
    first, other = (
        build.build(reader.from_dict(SMALL | {"seed": seed}), plan=train.UNMEASURED)
        for seed in (0, 1)
    )
    assert not torch.equal(first.federation.broadcast.w, other.federation.broadcast.w)
    assert (first.federation.sample(0) != other.federation.sample(0)).any()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no"), {"state": "failed", "why": "ValueError: no"}),
        (KeyboardInterrupt(), {"state": "interrupted", "why": ""}),
    ],
)
def test_a_run_that_ends_early_says_why_until_it_is_resumed(tmp_path, error, said):
    def stop(progress):
        raise error

    with pytest.raises(type(error)):
        troth.run(changed(), out=tmp_path / "run", watch=stop)
    assert json.loads((tmp_path / "run" / files.ENDED).read_text()) == said
    troth.resume(tmp_path / "run")
    assert not (tmp_path / "run" / files.ENDED).exists()


@pytest.mark.parametrize("stop", [3, *(pytest.param(k, marks=MORE) for k in (1, 5))])
def test_resume_goes_on_bit_for_bit(run, tmp_path, killed, contents, stop):
    """Checkpoints change nothing but what the experiment says of them."""
    killed(changed(checkpoint={"every": 2}), stop, tmp_path / "cut")
    cut = troth.load(tmp_path / "cut")
    assert not cut.finished
    with pytest.raises(Refusal, match="troth resume"):
        _ = cut.summary
    seen = []
    troth.resume(tmp_path / "cut", watch=lambda p: seen.append(p.done))
    assert seen[0] == stop - stop % 2 - (0 if stop % 2 else 2) + 1
    (found, summary), (expected, whole) = contents(cut.path), contents(run.path)
    assert found.pop(files.EXPERIMENT) != expected.pop(files.EXPERIMENT)
    assert found == expected and summary == whole


@pytest.mark.slow("real processes that are killed, and runs of 120 rounds")
@pytest.mark.parametrize("store", ["host", "disk"])
def test_kill_at_three_random_moments(tmp_path, contents, store):
    """`kill -9` whenever: what was lost is done again, and the bytes are the same."""
    file, cut, chance = tmp_path / "experiment.toml", tmp_path / "cut", random.Random(5)
    tree = changed(train={"rounds": 120}, checkpoint={"every": 3})
    tree["engine"] = SMALL["engine"] | {"store": store}
    file.write_text(reader.dumps(tree))
    troth.run(file, out=tmp_path / "whole")
    program = (
        "import os, sys, time, troth\n"
        "slow = lambda p: time.sleep(0.02)\n"
        "f, out = sys.argv[1:]\n"
        "if os.path.exists(out): troth.resume(out, watch=slow)\n"
        "else: troth.run(f, out=out, watch=slow)\n"
    )
    arguments = [sys.executable, "-c", program, str(file), str(cut)]

    def saved():
        checkpoint = cut / files.CHECKPOINT
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    for _ in range(3):
        before, process = saved(), subprocess.Popen(arguments)
        while saved() <= before and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.8))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (cut / files.SUMMARY).exists()
    subprocess.run(arguments, check=True)
    assert contents(cut) == contents(tmp_path / "whole")


def test_finished_runs_are_left_alone(run):
    before = {p.name: p.stat().st_mtime_ns for p in run.path.iterdir()}
    [again] = troth.resume(run.path)
    assert again.summary == run.summary
    assert {p.name: p.stat().st_mtime_ns for p in run.path.iterdir()} == before


def test_models_are_ordinary_modules(tmp_path):
    """Statistics of pixels travel with them."""
    [run] = troth.run(changed(model={"normalize": "pixel"}), out=tmp_path / "run")
    arrays, shards, _ = load.deal(run.experiment, None)
    for client in (0, 7):
        rows = shards.test[client]
        x, y = torch.from_numpy(arrays.x[rows]), arrays.y[rows]
        with torch.no_grad():
            own, w = (
                net(x).argmax(1).numpy() for net in (run.model(client), run.shared())
            )
        assert isinstance(run.model(client), torch.nn.Module)
        assert (own == run.predict(client, arrays.x[rows])).all()
        for found, column in ((own, "accuracy"), (w, "shared_accuracy")):
            assert (found == y).mean() == pytest.approx(run.clients[column][client])
    with pytest.raises(Refusal, match="client 12"):
        run.model(12)


def test_client_never_asked_has_the_first_model(tmp_path):
    tree = changed(train={"rounds": 1, "cohort": 2}, evaluate={"clients": 4})
    [run] = troth.run(tree, out=tmp_path / "run")
    idle = int(np.flatnonzero(run.clients["asked"] == 0)[0])
    built = build.build(run.experiment, plan=train.UNMEASURED)
    first = dict(built.network.named_parameters())
    for name, value in run.model(idle).named_parameters():
        assert torch.equal(value, first[name])
    assert np.isfinite(run.clients["accuracy"]).sum() == 4


def test_without_personal_models(tmp_path):
    bare = changed(output={"personal": False}, train={"rounds": 1})
    [run] = troth.run(bare, out=tmp_path / "run")
    assert not (run.path / files.PERSONAL).exists()
    with pytest.raises(Refusal, match=r"output\.personal"):
        run.model(0)


@pytest.mark.slow("a grid of four whose plan is measured")
def test_grid_shares_plans_and_resumes(tmp_path, contents):
    grid = {"personalizer.lam": [0.5, 1.0], "seed": [0, 1]}
    found = troth.run(SMALL | {"engine": {}, "grid": grid}, out=tmp_path / "grid")
    assert len(found) == 4
    assert len({repr(run.experiment.resolved["plan"]) for run in found}) == 1
    before = contents(found[3].path)
    for name in (files.SUMMARY, files.ROUNDS):
        (found[3].path / name).unlink()
    assert contents(troth.resume(tmp_path / "grid")[3].path) == before


def test_nothing_is_left_after_a_refusal(tmp_path):
    tree = SMALL | {"grid": {"personalizer.lam": [0.5, 1000.0]}}
    with pytest.raises(Refusal, match="diverges"):
        troth.run(tree, out=tmp_path / "grid")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("memory that runs out, several times")
def test_a_halved_chunk_is_written_down(run, tmp_path, monkeypatch):
    """Memory runs out once in the middle; the run goes on, and says with what."""
    together, calls = engine.Engine._together, []

    def short(self, work):
        calls.append(self.plan.chunk)
        if len(calls) > 4 and self.plan.chunk > 2:
            raise RuntimeError("not enough memory: you tried to allocate much")
        return together(self, work)

    monkeypatch.setattr(engine.Engine, "_together", short)
    [halved] = troth.run(SMALL, out=tmp_path / "run")
    assert troth.load(halved.path).experiment.resolved["plan"]["chunk"] == 2
    ours, theirs = halved.clients["accuracy"], run.clients["accuracy"]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_records_of_the_main_events(tmp_path, caplog):
    tree = {"partition": {"name": "iid", "clients": 4}, "train": {"rounds": 3}}
    tree |= {"evaluate": {"every": 2}, "engine": {"how": "vmap", "chunk": 4}}
    with caplog.at_level(logging.INFO, "troth"):
        (run,) = troth.run(tree, out=tmp_path / "run")
    started, *rounds, finished = caplog.messages
    facts = "3 rounds, 4 clients, vmap on cpu"
    assert started == f"started {run.path}: {facts}"
    assert finished.startswith(f"finished {run.path} after ")
    loss = run.rounds[1]["evaluation"]["shared"]["loss_mean"]
    assert [text.split(" of ")[0] for text in rounds] == ["round 2", "round 3"]
    assert f"shared.loss {loss:.4g}" in rounds[0]
    assert {record.name for record in caplog.records} == {"troth.run"}


def test_another_process_cannot_train_the_same_run(tmp_path, refuses):
    """It changes no file, so that the run ends as if nothing had happened."""
    place, seen = tmp_path / "run", []

    def watch(p):
        if p.done == 3 and not seen:
            before = {f.name: f.read_bytes() for f in place.iterdir() if f.is_file()}
            seen.append(refuses("another process is training", train.resume, place))
            after = {f.name: f.read_bytes() for f in place.iterdir() if f.is_file()}
            assert before == after

    [run] = troth.run(SMALL, out=place, watch=watch)
    assert seen and len(run.rounds) == 6
    assert not (place / files.ENDED).exists()


def test_scores_that_some_clients_lack():
    """Newcomers lack a column that the other clients have, and have another one."""
    tables = {"personal": {"a": np.array([1.0]), "b": np.array([2.0])}}
    late = {"personal": {"a": np.array([3.0]), "c": np.array([4.0])}}
    both = [(np.array([0]), tables), (np.array([1]), late)]
    found = results._scores(both, 2)
    expected = {"a": [1, 3], "b": [2, np.nan], "c": [np.nan, 4]}
    for name, values in expected.items():
        np.testing.assert_array_equal(found.pop(name), values)
    assert not found
