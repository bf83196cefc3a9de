"""Bad input, through the command line: one sentence, exit code 2, nothing written."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
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
aggregator=meen → 'meen' | did you mean 'mean' | median
attack=nothing → no attack 'nothing' | model_replacement | 'none'
train.rounds=many → train.rounds = 'many' | must be a whole number
train.lr=nan → train.lr = nan | at least 0
personalizer=ditto & personalizer.lam=-1 → lam = -1 | finite | at least 0
personalizer=ditto & personalizer.lam=20 → lr·lam = 0.1·20 = 2 | below 2 | \
    set personalizer.lr below 0.1
personalizer=ditto & personalizer.lam=5 & personalizer.lr=1 → lr·lam = 1·5 = 5 | \
    below 2 | set personalizer.lr below 0.4
server.lr=-1 → server | lr = -1 | finite | at least 0
train.cohort=7 → train.cohort = 7 | 6 clients | at most 6 | 0 for all
partition.clients=1798 → partition.clients = 1798 | 1 to 1797 | number of examples
partition.clients=0 → partition.clients = 0 | 1 to 1797
partition.clients=1797 → 1797 of 1797 clients lack | (1 example, none to test on) | \
    partition.min_examples
partition.clients=1000 → 203 of 1000 clients lack | partition.min_examples = 2 | \
    797 clients
partition.split=[1,1,1] → partition.split | sum to 1
partition.split=given → 'given' | [0.72, 0.08, 0.2]
adversary.count=6 → 6 of 6 clients | benign
adversary.clients=[6] → client 6 | there are 6 | last 5
rounds → --set 'rounds' | section.key=value
grid=3 → grid = 3 | [grid]
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
    assert "device 'cuda' is not here" in line and "this machine has: cpu" in line


def test_no_device(small):
    line = refused(small.parent, small, "--device", "gpu")
    assert "'gpu'" in line and "auto, cpu, cuda, cuda:N" in line


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("key", ["x", "y"])
def test_data_that_are_not_numbers(small, key, value):
    arrays = {"x": np.zeros((60, 3)), "y": np.zeros(60)}
    arrays[key][7] = value
    absent = key == "x" and np.isnan(value)  # may be filled in, by [features]
    line = with_npz(small, arrays, named=not absent)
    assert f"{key} is NaN or infinite in 1 of 60 examples (first in row 7)" in line
    assert "drop these rows or fill them in" in line
    assert ("set features.name = 'own' or 'federated'" in line) == absent


def with_npz(small, arrays, named=True):
    path = small.parent / "own.npz"
    if arrays["y"] is not None:
        np.savez(path, **arrays)
    line = refused(small.parent, small, "--set", f'data={{name="npz",path="{path}"}}')
    assert (str(path) in line) == named
    return line


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.zeros(59, int), ["y has shape (59,) but x holds 60", "shape (60,)"]),
        (np.arange(60) % 3 * 2, ["labels 0, 2, 4", "np.unique"]),
        (None, ["there is no file '", "np.savez"]),
    ],
)
def test_labels_that_do_not_fit(small, y, words):
    """Too few, with a gap, or without a file."""
    line = with_npz(small, {"x": np.zeros((60, 3)), "y": y})
    assert all(word in line for word in words), line


def test_a_truncated_gz(small):
    place = small.parent / "data" / "fashion-mnist"
    place.mkdir(parents=True)
    whole = gzip.compress(bytes(10_000))
    for part in ("train", "t10k"):
        for what in ("images-idx3", "labels-idx1"):
            (place / f"{part}-{what}-ubyte.gz").write_bytes(whole[: len(whole) // 2])
    data = ("--set", "data=fashion_mnist", "--data-dir", place.parent)
    line = refused(small.parent, small, *data)
    assert "train-images-idx3-ubyte.gz is not the published file" in line
    assert "get it again from" in line


def test_data_that_are_not_there(small, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(small.parent))
    monkeypatch.delenv("TROTH_DATA", raising=False)
    if Path("/usr/share/dataset-fashion-mnist").exists():
        pytest.skip("Debian's package is here")
    data = ("--set", "data=fashion_mnist", "--data-dir", small.parent / "nowhere")
    line = refused(small.parent, small, *data)
    assert "data 'fashion_mnist' is not on this machine" in line
    assert "train-images-idx3-ubyte.gz" in line and "TROTH_DATA" in line
    assert str(small.parent / "nowhere") in line


def test_an_experiment_that_is_missing_or_does_not_parse(tmp_path):
    assert str(tmp_path / "none.toml") in refused(tmp_path, tmp_path / "none.toml")
    file = tmp_path / "broken.toml"
    file.write_text("seed = 0\n[train]\nrounds = = 3\n")
    line = refused(tmp_path, file)
    assert f"{file}, line 3, column 10 is not valid TOML" in line


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
