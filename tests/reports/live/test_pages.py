"""What the pages of a folder say, without a browser."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from troth import files
from troth.reports.live import Server


def test_an_empty_folder(tmp_path: Path) -> None:
    with Server(tmp_path, port=0) as server:
        assert "There is no run here yet" in server.pages.index()


def test_five_hundred_runs_in_a_second(told: Any, tmp_path: Path) -> None:
    """Of this process's own time: others may be at work on the machine."""
    first = told(tmp_path / "r000", [0.5, 1.0])
    for i in range(1, 500):
        shutil.copytree(first, tmp_path / f"r{i:03}")
    with Server(tmp_path, port=0) as server:
        began = time.process_time()
        text = server.pages.index()
        assert time.process_time() - began < 1
        assert text.count("data-run=") == 500


def test_states(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "r", [0.5, 1.0])
    (place / "summary.json").unlink()
    with Server(tmp_path, port=0) as server:
        (run,) = server.pages.live(["r"])
        assert run["state"] == "stopped" and run["total"] == 4
        assert run["words"].startswith("r: stopped, 4 of 4 rounds; mean accuracy 0.750")
        assert run["words"].endswith(". To go on with it:")
        assert run["command"] == f"troth resume {place}"
        with (place / "rounds.jsonl").open("ab") as journal:
            assert files.hold(journal)
            (run,) = server.pages.live(["r"])
            assert run["state"] == "going on" and run["command"] == ""
            journal.write(b'{"round": 4}\n{"round":')
            journal.flush()
            assert server.pages.runs()[0]["rounds"] == "5 of 4"
        assert server.pages.live(["r"])[0]["state"] == "stopped"
        (place / "rounds.jsonl").write_text('{"round": 0}\n')  # resumed from before
        (run,) = server.pages.live(["r"])
        assert run["points"] == [] and run["words"].startswith("r: stopped, 1 of 4")
        (place / "rounds.jsonl").write_text("nonsense\n" * 3)
        assert server.pages.live(["r"])[0]["points"] == []
        (place / "experiment.toml").write_bytes(b"\xff")
        assert server.pages.runs()[0]["personalizer"] == "–"
        assert "cannot be read" in server.pages.report(["r"])
