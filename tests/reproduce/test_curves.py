"""Pictures of what scripts found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from troth.reproduce import curves, judging, listing, outputs, scripts
from troth.reproduce.entry import Entry

ROOT = Path(__file__).parents[2] / "experiments"
ENTRY = Entry("p/figure7", "t", script=("x",), results=("place/*.json",), form="lines")
SCRIPTS = [e for e in listing.entries().values() if e.script and scripts.files(e, ROOT)]


def put(place: Path, name: str, **said: object) -> None:
    (place / "place").mkdir(exist_ok=True)
    (place / "place" / f"{name}.json").write_text(json.dumps(said))


def test_seeds_are_one_curve(tmp_path: Path) -> None:
    for seed, end in enumerate((0.5, 0.75)):
        curve = {"round": [1, 2], "personal_mean": [0.0, end], "shared_mean": [0, 1]}
        put(tmp_path, f"a, seed {seed}", label="a", curve=curve)
    along, found = curves.found(ENTRY, tmp_path)
    assert along == "round" and list(found) == ["own models", "w"]
    x, y = found["own models"]["a"]
    np.testing.assert_array_equal(x, [1, 2])
    np.testing.assert_array_equal(y, [0, 0.625])


def test_what_is_trained_after_the_last_round_is_a_point(tmp_path: Path) -> None:
    curve = {"round": [1, 2], "personal_mean": [0.1, 0.2], "shared_mean": [0.1, 0.2]}
    for label, end in (("joint", 0.20004), ("tuned", 0.9)):
        summary = {
            whose: {"accuracy_mean": end, "accuracy_weighted": end, "accuracy_std": 0}
            for whose in ("shared", "personal")
        }
        put(tmp_path, label, label=label, curve=curve, summary=summary)
    _, found = curves.found(ENTRY, tmp_path)
    own = {
        label: (x.tolist(), y.tolist()) for label, (x, y) in found["own models"].items()
    }
    assert own == {"joint": ([1, 2], [0.1, 0.2]), "tuned": ([2], [0.9])}
    (axis,) = curves.draw(ENTRY, tmp_path).axes
    assert [line.get_marker() for line in axis.lines] == ["None", "o"]


def test_curves_that_coincide_say_nothing(tmp_path: Path) -> None:
    for label in "ab":
        put(tmp_path, label, label=label, round=[1, 2], accuracy=[0.1, 0.2])
    assert curves.found(ENTRY, tmp_path) == ("round", {})
    put(tmp_path, "c", label="c", round=[1, 2], accuracy=[0.1, 0.3])
    assert [*curves.found(ENTRY, tmp_path)[1]["by true labels"]] == ["a", "b", "c"]


def test_certificates_and_ways_of_clients(tmp_path: Path) -> None:
    model = {"radii": [0, 1], "mean": [0.9, 0.1]}
    certified = {"models": {"shared": model, "personal": model}, "unit": "pixels"}
    put(tmp_path, "a", label="a", certified=certified)
    assert curves.found(ENTRY, tmp_path) == ("radius", {})  # both the same
    certified["models"]["personal"] = {"radii": [0, 1], "mean": [0.9, 0.2]}
    put(tmp_path, "a", label="a", certified=certified)
    _, found = curves.found(ENTRY, tmp_path)
    (quantity,) = found
    assert quantity == "certified accuracy, radius in pixels"
    assert [*found[quantity]] == ["a, shared", "a, personal"]
    way = {"conflicting_accuracy": [[0.5, None], [0.25, 0.75]]}
    put(tmp_path, "a", label="a", steps=[0, 10], curves=way)
    along, found = curves.found(ENTRY, tmp_path)
    _, y = found["conflicting accuracy"]["a"]
    assert along == "batches"
    np.testing.assert_array_equal(y, [0.5, 0.5])


@pytest.mark.parametrize("entry", SCRIPTS, ids=lambda entry: entry.name)
def test_every_script_entry_has_its_files(entry: Entry, tmp_path: Path) -> None:
    """From what is committed: three texts, and a picture in two forms if a figure."""
    files = outputs.of_script(entry, ROOT, tmp_path)
    suffixes = [".md", ".csv", ".tex"]
    suffixes += [] if entry.form == "table" else [".png", ".svg"]
    assert [file.suffix for file in files] == suffixes
    assert all(file.stat().st_size > 100 for file in files)
    lines = judging.of_script(entry, ROOT) or scripts.lines(entry, ROOT)
    if entry.numbers:  # a line a row, in the paper's layout
        lines = [*dict.fromkeys(one.cell.row for one in lines)]
    for file in files[:3]:
        text = file.read_text("utf-8")
        assert text.count("\n") >= len(lines)
