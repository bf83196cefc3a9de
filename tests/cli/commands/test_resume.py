import json
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


@pytest.mark.slow("real processes that are stopped and go on")
def test_a_process_that_is_stopped_or_killed_can_be_resumed(
    troth, written, tiny, tmp_path
):
    text = (tiny + LONG).replace("rounds = 3", "rounds = 300")
    file = written(tmp_path / "long.toml", text)
    whole = tmp_path / "whole"
    assert troth("run", file, "--out", whole, "-q").exit_code == 0
    for by, waits_for in (
        (signal.SIGINT, files.CHECKPOINT),
        (signal.SIGTERM, files.CHECKPOINT),
        (signal.SIGKILL, files.EXPERIMENT),
        (signal.SIGKILL, files.CHECKPOINT),
    ):
        out = tmp_path / f"{by.name} at {waits_for}"
        command = [*TROTH, "run", file, "--out", out]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 300
        while not (out / waits_for).exists():
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.005)
        process.send_signal(by)
        _, messages = process.communicate(timeout=300)
        assert not (out / files.SUMMARY).exists() and "Traceback" not in messages
        if by == signal.SIGKILL:
            assert process.returncode == -by
        else:
            assert process.returncode == 128 + by
            last = messages.splitlines()[-1]
            assert last.startswith("troth: stopped after round ")
            assert "of 300, saved in" in last
            assert last.endswith(f"continue with: troth resume '{out}'")
        done = troth("resume", out, "-q")
        assert done.exit_code == 0, done.output
        same(out, whole)
