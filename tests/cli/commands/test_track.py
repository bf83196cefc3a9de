"""The command that shows runs in a tracker."""

import pytest


def test_event_files_artifacts_and_one_line(troth, grid, tmp_path):
    pytest.importorskip("tensorboard")
    folder, _ = grid
    place = f"folder={tmp_path / 'events'}"
    done = troth("track", folder, "--to", "tensorboard", "--set", place)
    assert (done.exit_code, done.stdout) == (0, "")
    first, second = done.stderr.strip().splitlines()
    assert first == "Tracked with tensorboard: 6 runs"
    assert second.startswith(f"Values are in {tmp_path / 'events'} (show it: tensorb")
    report = {"report.html", "report.cards.json"}
    saved = {file.name for file in (tmp_path / "events/out/artifacts").iterdir()}
    assert saved == {"grid.toml", *report}
    for run in folder.glob("*/experiment.toml"):
        at = tmp_path / "events" / "out" / run.parent.name / "artifacts"
        tables = {"experiment.toml", "summary.json", "clients.csv"}
        assert {file.name for file in at.iterdir()} == tables | report


def test_refusals(refused, one, tmp_path):
    folder, _ = one
    assert "is not the folder of a run" in refused("track", tmp_path, "--to", "mlflow")
    assert "there is no tracker 'x'" in refused("track", folder, "--to", "x")
    text = refused("track", folder, "--to", "tensorboard", "--set", "folder")
    assert "--set folder must be OPTION=VALUE" in text
    text = refused("track", folder, "--to", "mlflow", "--set", "folder=a")
    assert "its options are: uri, experiment" in text
