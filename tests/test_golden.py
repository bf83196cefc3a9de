"""Runs written by revision 5ce7842, before the move into rooms, still open.

`grid` is a finished grid, `stopped` a run killed between two checkpoints. The digests
are of models that the quickstart, `ditto30.toml` and the uninterrupted `stopped` came
to on the machine that `digests.json` describes.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

import troth
from troth.cli import app

HERE = Path(__file__).with_name("golden")
DIGESTS = json.loads((HERE / "digests.json").read_text("utf-8"))


def cpu() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    named = [line for line in lines if line.startswith("model name")]
    return named[0].split(":")[1].strip() if named else ""


same_machine = pytest.mark.skipif(
    (cpu(), torch.__version__) != (DIGESTS["cpu"], DIGESTS["torch"]),
    reason="bits are promised for one machine and one torch",
)


def command(*arguments: object) -> Result:
    done = CliRunner().invoke(app.app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done


def check(name: str, folder: Path) -> None:
    """Compare the files of a run with the digests of before, and list what differs."""
    expected = {k: v for k, v in DIGESTS["files"].items() if k.startswith(f"{name}/")}
    found = {
        k: hashlib.sha256((folder / k.partition("/")[2]).read_bytes()).hexdigest()
        for k in expected
    }
    assert found == expected


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE, tmp_path / "golden"))


@pytest.mark.slow("the whole quickstart")
@same_machine
def test_the_quickstart_gives_the_same_bytes_and_the_table_of_the_readme(
    tmp_path: Path,
) -> None:
    done = command("run", "--out", tmp_path / "quickstart", "--quiet")
    check("quickstart", tmp_path / "quickstart")
    readme = Path(__file__).parents[1].joinpath("README.md").read_text("utf-8")
    table = readme.partition("```\nAccuracy of")[2].partition("```")[0]
    lines, printed = table.splitlines()[1:], done.stdout.splitlines()
    missing = [  # the last column, seconds, is left out there
        line for line in lines if not any(row.startswith(line) for row in printed)
    ]
    assert len(lines) == 5 and not missing


@same_machine
def test_thirty_clients_with_ditto_give_the_same_bytes(tmp_path: Path) -> None:
    command("run", HERE / "ditto30.toml", "--out", tmp_path / "run", "--quiet")
    check("ditto30", tmp_path / "run")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_old_checkpoint_is_resumed(golden: Path) -> None:
    command("resume", golden / "stopped", "--quiet")
    summary = json.loads((golden / "stopped" / "summary.json").read_text("utf-8"))
    assert summary["rounds"] == 600
    if (cpu(), torch.__version__) == (DIGESTS["cpu"], DIGESTS["torch"]):
        check("whole", golden / "stopped")


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_old_grid_is_reported_predicted_and_certified(golden: Path) -> None:
    grid, run = golden / "grid", golden / "grid" / "personalizer=ditto+lam=0.5"
    command("report", grid, "--out", golden / "report.html")
    assert "ditto" in (golden / "report.html").read_text("utf-8")
    np.savez(golden / "new.npz", x=np.zeros((3, 8, 8), np.uint8))
    told = command("predict", run, "--client", 0, "--data", golden / "new.npz")
    assert len(told.stdout.split()) >= 3
    smoothing = ("--transform", "pixel", "--sigma", 0.25, "--n", 100, "--examples", 2)
    command("certify", run, *smoothing, "--clients", 1, "--device", "cpu")
    assert (run / "certificates.csv").exists()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_renamed_keys_are_read_with_a_notice(golden: Path) -> None:
    run = golden / "grid" / "personalizer=none"
    with pytest.warns(FutureWarning, match="model.normalise is now model.normalize"):
        assert troth.load(run).experiment.model.normalize == "pixel"
    with pytest.warns(FutureWarning, match="features.centre is now features.center"):
        options = troth.load(golden / "stopped").experiment.features.options
    assert options["center"] is False
