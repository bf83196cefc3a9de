"""Grids that several processes train: the same files, stops, kills and Ray."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

import troth
from troth import Spread, files
from troth.runs import spread

TINY = {
    "partition": {"name": "iid", "clients": 3},
    "personalizer": "ditto",
    "train": {"rounds": 4, "steps": 1},
    "engine": {"how": "loop"},
}
LONG = TINY | {"train": {"rounds": 4000, "steps": 1}, "checkpoint": {"every": 1}}
SEEDS = {"grid": {"seed": [0, 1]}}
SLOW = pytest.mark.slow("starts several processes")


def workers(root):
    """The ids of the workers of a grid that run now."""
    pattern = f"troth.cli.worker {root}"
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True)
    return [int(line) for line in found.stdout.split()]


def begun(root, labels, patience=120):
    """Wait until the runs have checkpoints."""
    until = time.monotonic() + patience
    while not all((root / one / files.CHECKPOINT).exists() for one in labels):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_the_last_line_of_a_process_says_why_it_failed():
    assert spread.reason(-9, io.BytesIO()) == "killed by signal 9"
    assert spread.reason(2, io.BytesIO(b"a\ntroth: no such data\n")) == "no such data"
    assert spread.reason(3, io.BytesIO()) == "ended with code 3"


def test_runs_that_have_finished_start_no_process(tmp_path):
    for label in ("a", "b", "c"):
        (tmp_path / label).mkdir()
        (tmp_path / label / files.SUMMARY).touch()
    began = []
    missing = tmp_path / "c" / files.SUMMARY
    missing.unlink()

    def start(group):
        began.append(group)
        missing.touch()
        return True

    places = contextlib.nullcontext((start, lambda stop: ({}, False)))
    spread.train(tmp_path, [["a"], ["b", "c"]], ["a", "b", "c"], places)
    assert began == [["b", "c"]]


def test_a_worker_that_reads_no_requests_does_no_harm(tmp_path, monkeypatch):
    code = "import os, time; os.close(0); open('deaf', 'w'); time.sleep(1)"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spread, "command", lambda *_: [sys.executable, "-c", code])
    with spread.here(tmp_path, ["cpu"]) as (start, poll):
        assert start(["a"]) and not start(["b"])
        while not (tmp_path / "deaf").exists():
            time.sleep(0.01)
        while poll(True)[1]:
            time.sleep(0.01)


def test_local_ray_is_a_new_one(tmp_path, monkeypatch):
    """With no address, Ray would join a cluster that runs on this machine."""
    seen = {}
    ray = types.SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda **given: seen.update(given),
        cluster_resources=dict,
        remote=lambda **given: lambda function: function,
        shutdown=lambda: None,
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    with spread.on_ray(tmp_path, "local", 1):
        assert seen["address"] == "local"


def test_a_worker_stops_on_request_and_ends_with_its_parent():
    code = (
        "import sys, time; from troth.runs import spread\n"
        "spread.obey(0, lambda: print('stop', flush=True)); time.sleep(60)"
    )
    command = [sys.executable, "-c", code]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        process.stdin.write(spread.STOP)
        process.stdin.flush()
        assert process.stdout.readline() == b"stop\n"
        process.stdin.close()
        assert process.wait(20) == 1


def test_progress_is_read_from_the_files_of_all_runs(tmp_path):
    runs = troth.run(TINY | SEEDS, out=tmp_path / "g")
    (runs[1].path / files.SUMMARY).unlink()
    seen = []
    labels = [run.path.name for run in runs]
    spread._Progress(tmp_path / "g", labels, labels, seen.append).look()
    (p,) = seen
    assert (p.label, p.done, p.total) == ("seed=1", 4, 4)
    assert (p.run, p.runs, p.over) == (2, 2, 1)
    assert set(p.evaluation) >= {"personal", "shared"}


@SLOW
def test_processes_make_the_files_of_a_plain_run(tmp_path, contents):
    seen = []
    how = Spread(devices=("cpu",), per_device=2)
    plain = troth.run(TINY | SEEDS, out=tmp_path / "plain", device="cpu")
    root = tmp_path / "g"
    runs = troth.run(TINY | SEEDS, out=root, spread=how, watch=seen.append)
    for a, b in zip(plain, runs, strict=True):
        assert contents(a.path) == contents(b.path)
    assert {p.label for p in seen} == {"seed=0", "seed=1"}
    assert max(p.done for p in seen) == 4 and not workers(root)


@SLOW
def test_ctrl_c_saves_all_runs_and_resume_goes_on(tmp_path, contents):
    root = tmp_path / "g"
    file = tmp_path / "g.json"
    tree = LONG | SEEDS | {"train": {"rounds": 300, "steps": 1}}
    file.write_text(json.dumps(tree))
    code = (
        "import json, sys, troth\n"
        "from troth.runs.train import Interrupted\n"
        f"tree = json.load(open({str(file)!r}))\n"
        "how = troth.Spread(devices=('cpu', 'cpu'))\n"
        "try:\n"
        f"    troth.run(tree, out={str(root)!r}, spread=how)\n"
        "except Interrupted as stop:\n"
        "    print(stop.args[0].name)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    begun(root, ["seed=0", "seed=1"])
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert said.strip() == b"seed=0" and not workers(root)
    assert not (root / "seed=1" / files.SUMMARY).exists()
    troth.resume(root, spread=Spread(devices=("cpu",)))
    whole = troth.run(tree, out=tmp_path / "whole", device="cpu")
    for one in whole:
        assert contents(one.path) == contents(root / one.path.name)


@SLOW
def test_a_killed_process_is_named_and_the_others_go_on(tmp_path, refuses):
    root = tmp_path / "g"
    tree = LONG | SEEDS | {"train": {"rounds": 300, "steps": 1}}

    def kill(p):
        if p.done > 5:
            for one in workers(root):
                line = Path(f"/proc/{one}/cmdline").read_bytes()
                if b'["seed=0"]' in line:
                    os.kill(one, signal.SIGKILL)

    how = Spread(devices=("cpu", "cpu"))
    words = r"1 of 2 runs did not finish, such as seed=0 \(killed by signal 9\)"
    refuses(words, troth.run, tree, out=root, spread=how, watch=kill)
    assert (root / "seed=1" / files.SUMMARY).exists()
    assert troth.resume(root)[0].finished


@SLOW
def test_workers_end_when_their_parent_is_killed(tmp_path):
    root, tree = tmp_path / "g", LONG | SEEDS
    code = (
        "import troth\n"
        f"troth.run({tree!r}, out={str(root)!r}, spread=troth.Spread(['cpu'], 2))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    begun(root, ["seed=0", "seed=1"])
    process.kill()
    process.wait()
    until = time.monotonic() + 20
    while workers(root):
        assert time.monotonic() < until
        time.sleep(0.1)


RAY = """
import json, sys, ray, troth
from ray.cluster_utils import Cluster

root, tree = sys.argv[1], json.loads(sys.argv[2])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second, lost = cluster.add_node(num_cpus=1), []

def lose(p):
    if p.done > 20 and p.run > 2 and not lost:
        lost.append(p.run)
        cluster.remove_node(second, allow_graceful=False)

troth.run(tree, out=root, spread=troth.Spread(ray=cluster.address), watch=lose)
assert lost
cluster.shutdown()
"""


@SLOW
def test_ray_makes_the_files_of_a_plain_run_and_survives_a_lost_node(
    tmp_path, contents
):
    """Twelve runs; the second of two machines is lost in the middle."""
    pytest.importorskip("ray")
    tree = TINY | {"train": {"rounds": 120, "steps": 1}, "checkpoint": {"every": 1}}
    tree |= {"grid": {"seed": [*range(6)], "personalizer": ["local", "ditto"]}}
    given = [str(tmp_path / "g"), json.dumps(tree)]
    subprocess.run([sys.executable, "-c", RAY, *given], check=True, timeout=500)
    for run in troth.run(tree, out=tmp_path / "plain"):
        assert contents(run.path) == contents(tmp_path / "g" / run.path.name)


@SLOW
def test_ctrl_c_stops_the_tasks_of_ray(tmp_path):
    pytest.importorskip("ray")
    root = tmp_path / "g"
    code = (
        "import troth\n"
        "from troth.runs.train import Interrupted\n"
        "try:\n"
        f"    troth.run({LONG | SEEDS!r}, out={str(root)!r}, "
        "spread=troth.Spread(ray='local'))\n"
        "except Interrupted:\n"
        "    print('stopped')"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    begun(root, ["seed=0"])
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert said.strip().endswith(b"stopped") and not workers(root)
