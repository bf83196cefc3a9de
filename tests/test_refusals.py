"""Bad input, through the command line: one sentence, exit code 2, nothing written."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from troth.cli import app

SMALL = """
[data]
name = "digits"
[partition]
name = "iid"
clients = 6
[train]
rounds = 2
steps = 1
lr = 0.1
[engine]
how = "vmap"
chunk = 6
device = "cpu"
"""


def refused(place: Path, *arguments: object, out: Path | None = None) -> str:
    """The one line that the command says, having written nothing."""
    before = sorted(place.rglob("*"))
    given = [str(a) for a in ("run", *arguments, "--out", out or place / "out")]
    result = CliRunner().invoke(app.app, given)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("troth: ")
    assert sorted(place.rglob("*")) == before
    return line


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return file


REFUSED = """
trian.rounds=3 → 'trian' | did you mean 'train' | there are: | model
personalizer=ditto & personalizer.lam=20 → lr·lam = 0.1·20 = 2 | below 2 | \
    set personalizer.lr below 0.1
train.cohort=7 → train.cohort = 7 | 6 clients | at most 6 | 0 for all
partition.clients=1798 → partition.clients = 1798 | 1 to 1797 | number of examples
partition.clients=1797 → 1797 of 1797 clients lack | (1 example, none to test on) | \
    partition.min_examples
partition.clients=1000 → 203 of 1000 clients lack | partition.min_examples = 2 | \
    797 clients
partition.split=given → 'given' | [0.72, 0.08, 0.2]
adversary.clients=[6] → client 6 | there are 6 | last 5
rounds → --set 'rounds' | section.key=value
grid.seed=[0, -1] → seed = -1 | at least 0
grid."train.cohort"=[2, 7] → train.cohort = 7 | 6 clients
"""
"""What is set → parts of what is said; other settings in `config/test_reader`."""


def test_settings(small):
    wrong = []
    for row in REFUSED.strip().splitlines():
        settings, _, words = row.partition(" → ")
        flags = [part for one in settings.split(" & ") for part in ("--set", one)]
        line = refused(small.parent, small, *flags)
        missing = [w for w in words.split(" | ") if w.strip() not in line]
        wrong += [(row, line)] if missing else []
    assert not wrong


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here")
def test_no_cuda(small):
    line = refused(small.parent, small, "--device", "cuda")
    assert "device 'cuda' is not available" in line and "this machine has: cpu" in line


def test_data_that_are_not_there(small, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.parent))
    monkeypatch.delenv("TROTH_DATA", raising=False)
    data = ("--set", "data=femnist", "--data-dir", small.parent / "nowhere")
    line = refused(small.parent, small, *data)
    assert "data 'femnist' is not on this machine" in line and "TROTH_DATA" in line
    assert str(small.parent / "nowhere") in line


def test_an_array_without_a_file(small):
    line = refused(small.parent, small, "--set", 'data={name="npz",path="x.npz"}')
    assert "there is no file '" in line and "np.savez" in line


def test_the_output_exists(small):
    out = small.parent / "there"
    out.mkdir()
    line = refused(small.parent, small, out=out)
    assert f"the output folder {out} exists already" in line
    assert "--out" in line and f"troth resume {out}" in line


@pytest.mark.parametrize("grid", [[], ["--set", "grid.seed=[0, 1]"]])
def test_the_output_cannot_be_written(small, grid):
    out = small / "below" / "a file"
    line = refused(small.parent, small, *grid, out=out)
    assert f"the output folder {out} cannot be written" in line and "--out" in line


def test_a_dry_run_refuses_alike(small):
    line = refused(small.parent, small, "--dry-run", "--set", "train.cohort=7")
    assert "train.cohort = 7" in line


@pytest.mark.slow("starts real commands")
def test_for_real(small):
    """The exit code and the streams of a process of its own."""
    command = [sys.executable, "-c", "from troth.cli.app import main; main()", "run"]
    more = [small, "--set", "train.cohort=7", "--out", small.parent / "out", "--json"]
    done = subprocess.run([*command, *more], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("troth: train.cohort = 7 is more than the 6 clients")
    assert done.stderr.count("\n") == 1
    assert not (small.parent / "out").exists()
