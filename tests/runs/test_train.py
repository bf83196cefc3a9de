"""A run as a folder: its files, its bytes, and what survives a kill."""

import json
import os
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
from troth.engine import engine
from troth.runs import train
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
FILES = (files.EXPERIMENT, files.ROUNDS, files.CLIENTS, files.SHARED, files.PERSONAL)


def contents(path):
    """The bytes of a run's files; of the summary, all but the time it took."""
    found = {name: (path / name).read_bytes() for name in FILES}
    summary = json.loads((path / files.SUMMARY).read_text())
    assert summary.pop("seconds") > 0
    return found | {"summary": summary}


def test_validation_data_have_scores_of_their_own(tmp_path):
    [run] = troth.run(SMALL, out=tmp_path / "run")
    assert run.clients["valid"].sum() > 0
    e = run.experiment
    built = build.build(e, plan=engine.Plan("loop", 1))
    net, split = run.shared(), built.data.valid
    said = net(built.data.x[split.row]).argmax(1)
    hit = (said == split.y).double().numpy()
    means = []
    for k in np.flatnonzero(~built.hostile):
        first, size = int(split.start[k]), int(split.size[k])
        if size:
            means.append(hit[first : first + size].mean())
    found = run.summary["valid"]
    assert found["shared"]["accuracy_mean"] == pytest.approx(np.mean(means))
    assert found["personal"] != found["shared"]
    none = changed(partition={"split": [0.8, 0.0, 0.2]})
    [run] = troth.run(none, out=tmp_path / "none")
    assert "valid" not in run.summary


def changed(**sections):
    return SMALL | {k: SMALL.get(k, {}) | v for k, v in sections.items()}


def test_files_and_summary(tmp_path):
    [run] = troth.run(SMALL, out=tmp_path / "run")
    assert run.finished
    assert {p.name for p in run.path.iterdir()} == {*FILES, files.SUMMARY}
    keys = {"personal", "shared", "clients", "malicious", "rounds", "client_steps"}
    assert set(run.summary) == keys | {"seconds", "stayed", "valid"}
    wanted = {"mean", "std", "weighted", "worst10", "best10", "deciles", "jain"}
    assert {f"accuracy_{k}" for k in wanted} <= set(run.summary["personal"])
    assert {"loss_mean", "loss_std"} <= set(run.summary["shared"])
    assert (run.summary["clients"], run.summary["malicious"]) == (12, 3)
    table = run.clients
    benign = ~table["malicious"].astype(bool)
    mean = table["accuracy"][benign].mean()
    assert mean == pytest.approx(run.summary["personal"]["accuracy_mean"], abs=1e-15)
    assert table["asked"].sum() == 6 * 5
    assert len(run.rounds) == 6
    assert "evaluation" in run.rounds[-1]
    resolved = run.experiment.resolved
    assert resolved["plan"] == {"how": "vmap", "chunk": 3, "workers": 1}
    assert resolved["versions"]["torch"] == torch.__version__


def test_same_experiment_same_bytes(tmp_path):
    for name in ("one", "two"):
        troth.run(SMALL, out=tmp_path / name)
    one = contents(tmp_path / "one")
    assert one == contents(tmp_path / "two")
    [other] = troth.run(SMALL | {"seed": 1}, out=tmp_path / "other")
    assert contents(other.path)[files.SHARED] != one[files.SHARED]


@pytest.mark.parametrize("stop", [3, *(pytest.param(k, marks=MORE) for k in (1, 5))])
def test_resume_goes_on_bit_for_bit(tmp_path, stop):
    tree = changed(checkpoint={"every": 2})
    troth.run(tree, out=tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(progress):
        if progress.done == stop:
            raise Killed

    with pytest.raises(Killed):
        troth.run(tree, out=tmp_path / "cut", watch=kill)
    cut = troth.load(tmp_path / "cut")
    assert not cut.finished
    with pytest.raises(Refusal, match="troth resume"):
        _ = cut.summary
    seen = []
    troth.resume(tmp_path / "cut", watch=lambda p: seen.append(p.done))
    assert seen[0] == stop - stop % 2 - (0 if stop % 2 else 2) + 1
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow("real processes that are killed, and a run of 120 rounds")
def test_kill_at_three_random_moments(tmp_path):
    """`kill -9` whenever: what was lost is done again, and the bytes are the same."""
    tree = changed(train={"rounds": 120}, checkpoint={"every": 3})
    file = tmp_path / "experiment.toml"
    file.write_text(reader.dumps(tree))
    troth.run(file, out=tmp_path / "whole")
    cut, chance, command = tmp_path / "cut", random.Random(5), sys.executable
    program = (
        "import sys, time, troth\n"
        "slow = lambda p: time.sleep(0.02)\n"
        "f, out = sys.argv[1:]\n"
        "import os\n"
        "if os.path.exists(out): troth.resume(out, watch=slow)\n"
        "else: troth.run(f, out=out, watch=slow)\n"
    )
    arguments = [command, "-c", program, str(file), str(cut)]
    for _ in range(3):
        process = subprocess.Popen(arguments)
        before = _size(cut)
        while _size(cut) <= before and process.poll() is None:
            time.sleep(0.02)
        time.sleep(chance.uniform(0.0, 0.8))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (cut / files.SUMMARY).exists()
    subprocess.run(arguments, check=True)
    assert contents(cut) == contents(tmp_path / "whole")


def _size(path):
    file = path / files.CHECKPOINT
    return os.stat(file).st_mtime_ns if file.exists() else 0


def test_finished_runs_are_left_alone(tmp_path):
    [run] = troth.run(SMALL, out=tmp_path / "run")
    before = {p.name: p.stat().st_mtime_ns for p in run.path.iterdir()}
    [again] = troth.resume(run.path)
    assert again.summary == run.summary
    assert {p.name: p.stat().st_mtime_ns for p in run.path.iterdir()} == before


def test_models_are_ordinary_modules(tmp_path):
    """Statistics of pixels travel with them."""
    [run] = troth.run(changed(model={"normalize": "pixel"}), out=tmp_path / "run")
    arrays, shards, _ = load.deal(run.experiment, None)
    for client in (0, 7):
        net = run.model(client)
        assert isinstance(net, torch.nn.Module)
        rows = shards.test[client]
        with torch.no_grad():
            found = net(torch.from_numpy(arrays.x[rows])).argmax(1).numpy()
        assert (found == run.predict(client, arrays.x[rows])).all()
        accuracy = (found == arrays.y[rows]).mean()
        assert accuracy == pytest.approx(run.clients["accuracy"][client])
        with torch.no_grad():
            found = run.shared()(torch.from_numpy(arrays.x[rows])).argmax(1).numpy()
        accuracy = (found == arrays.y[rows]).mean()
        assert accuracy == pytest.approx(run.clients["shared_accuracy"][client])
    with pytest.raises(Refusal, match="client 12"):
        run.model(12)


def test_client_never_asked_has_the_first_model(tmp_path):
    tree = changed(train={"rounds": 1, "cohort": 2}, evaluate={"clients": 4})
    [run] = troth.run(tree, out=tmp_path / "run")
    asked = run.clients["asked"] > 0
    idle = int(np.flatnonzero(~asked)[0])
    built = build.build(run.experiment, plan=train.UNMEASURED)
    first = dict(built.network.named_parameters())
    for name, value in run.model(idle).named_parameters():
        assert torch.equal(value, first[name])
    assert np.isfinite(run.clients["accuracy"]).sum() == 4


def test_without_personal_models(tmp_path):
    [run] = troth.run(changed(output={"personal": False}), out=tmp_path / "run")
    assert not (run.path / files.PERSONAL).exists()
    with pytest.raises(Refusal, match=r"output\.personal"):
        run.model(0)


@pytest.mark.slow("a grid of four whose plan is measured")
def test_grid_shares_plans_and_resumes(tmp_path):
    tree = SMALL | {
        "engine": {},
        "grid": {"personalizer.lam": [0.1, 1.0], "seed": [0, 1]},
    }
    found = troth.run(tree, out=tmp_path / "grid")
    assert len(found) == 4
    assert len({repr(run.experiment.resolved["plan"]) for run in found}) == 1
    before = contents(found[3].path)
    for name in (files.SUMMARY, files.ROUNDS):
        (found[3].path / name).unlink()
    again = troth.resume(tmp_path / "grid")
    assert contents(again[3].path) == before


def test_nothing_is_left_after_a_refusal(tmp_path):
    tree = SMALL | {"grid": {"personalizer.lam": [0.1, 1000.0]}}
    with pytest.raises(Refusal, match="diverges"):
        troth.run(tree, out=tmp_path / "grid")
    assert list(tmp_path.iterdir()) == []


def test_a_halved_chunk_is_written_down(tmp_path, monkeypatch):
    """Memory runs out once in the middle; the run goes on, and says with what."""
    together, calls = engine.Engine._together, []

    def short(self, work):
        calls.append(self.plan.chunk)
        if len(calls) > 4 and self.plan.chunk > 2:
            raise RuntimeError("not enough memory: you tried to allocate much")
        return together(self, work)

    [whole] = troth.run(SMALL, out=tmp_path / "whole")
    monkeypatch.setattr(engine.Engine, "_together", short)
    [run] = troth.run(SMALL, out=tmp_path / "run")
    assert troth.load(run.path).experiment.resolved["plan"]["chunk"] == 2
    ours, theirs = run.clients["accuracy"], whole.clients["accuracy"]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
