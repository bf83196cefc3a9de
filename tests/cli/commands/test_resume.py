import json
import random
import signal
import subprocess
import sys
import time

import pytest

from troth import api, files
from troth.runs import train

TROTH = [sys.executable, "-c", "from troth.cli.app import main; main()"]
SAME = (files.SHARED, files.PERSONAL, files.CLIENTS, files.ROUNDS)


def test_resume_of_what_is_finished(troth, one, grid):
    for out, first in (one, grid):
        before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
        result = troth("resume", out, "--json")
        assert result.exit_code == 0 and "finished already" in result.stderr
        assert json.loads(result.stdout)["runs"] == json.loads(first.stdout)["runs"]
        assert before == {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}


@pytest.mark.slow("trains a grid twice")
def test_resume_of_half_a_grid(troth, written, tiny, tmp_path, monkeypatch):
    file = written(tmp_path / "g.toml", tiny + "[grid]\nseed = [0, 1, 2]\n")

    def stop(p):
        if p.label == "seed=1" and p.done == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(train.Interrupted):
        api.run(file, out=tmp_path / "half", watch=stop)
    assert not (tmp_path / "half" / "seed=2").exists()
    result = troth("resume", tmp_path / "half", "--json")
    assert result.exit_code == 0, result.output
    assert troth("run", file, "--out", tmp_path / "whole").exit_code == 0
    for seed in range(3):
        same(tmp_path / "half" / f"seed={seed}", tmp_path / "whole" / f"seed={seed}")
    assert len(json.loads(result.stdout)["runs"]) == 3


def same(a, b):
    for name in SAME:
        if (a / name).exists() or (b / name).exists():
            assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert sorted(p.name for p in a.iterdir()) == sorted(p.name for p in b.iterdir())


LONG = """
[checkpoint]
every = 1
[personalizer]
name = "ditto"
[adversary]
fraction = 0.2
"""


@pytest.fixture(scope="module")
def long(troth, written, tiny, tmp_path_factory):
    """An experiment that takes a while, and its folder when nothing stops it."""
    place = tmp_path_factory.mktemp("long")
    text = (tiny + LONG).replace("rounds = 3", "rounds = 300")
    file = written(place / "long.toml", text)
    assert troth("run", file, "--out", place / "out", "-q").exit_code == 0
    return file, place / "out"


def begun(file, out, waits_for):
    """A run in a process of its own that has come as far as writing a file."""
    process = subprocess.Popen(
        [*TROTH, "run", file, "--out", out], stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 300
    while not (out / waits_for).exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.005)
    return process


PROCESSES = pytest.mark.slow("real processes that are stopped and go on")


@PROCESSES
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_resume_goes_on(troth, tmp_path, long, by):
    file, whole = long
    process = begun(file, tmp_path / "out", files.CHECKPOINT)
    process.send_signal(by)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + by
    assert not (tmp_path / "out" / files.SUMMARY).exists()
    assert "Traceback" not in said
    last = said.splitlines()[-1]
    assert last.startswith("troth: stopped after round ") and "of 300, saved in" in last
    assert last.endswith(f"continue with: troth resume {tmp_path / 'out'}")
    done = troth("resume", tmp_path / "out", "-q")
    assert done.exit_code == 0, done.output
    same(tmp_path / "out", whole)


@PROCESSES
@pytest.mark.parametrize("waits_for", [files.EXPERIMENT, files.CHECKPOINT])
def test_kill_9_and_resume(troth, tmp_path, long, waits_for):
    file, whole = long
    wait = random.SystemRandom().uniform(0, 0.3)
    print(f"killed after {wait} s")  # for whoever sees this fail
    process = begun(file, tmp_path / "out", waits_for)
    time.sleep(wait)
    process.kill()
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "out" / files.SUMMARY).exists()
    done = troth("resume", tmp_path / "out", "-q")
    assert done.exit_code == 0, done.output
    same(tmp_path / "out", whole)
