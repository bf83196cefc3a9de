"""What scripts left behind, in a line a label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from troth.reproduce import listing, scripts, starting
from troth.reproduce.entry import Entry

ENTRY = Entry("p/figure7", "t", results=("place/*.json",))


def summary(accuracy: float) -> dict[str, object]:
    own = {"accuracy_weighted": accuracy, "accuracy_std": 0.25}
    return {"shared": own, "personal": own}


def test_seeds_of_a_label_are_one_line(tmp_path: Path, put: Any) -> None:
    for seed, accuracy in enumerate((0.5, 0.75)):
        said = {"label": "a", "summary": summary(accuracy), "pooled": {"loss": 2.0}}
        put(tmp_path / "place", f"a, seed {seed}", said)
    put(tmp_path / "place", "b", {"label": "b", "summary": summary(1.0)})
    (a, numbers), (b, _) = scripts.lines(ENTRY, tmp_path)
    assert (a, b) == ("a", "b")
    assert numbers["shared, weighted"] == 0.625 and numbers["seeds"] == 2
    assert numbers["all clients', loss"] == 2.0


def test_the_same_label_in_two_folders_is_two_lines(tmp_path: Path, put: Any) -> None:
    for place, accuracy in (("place", 0.5), ("other", 1.0)):
        put(tmp_path / place, "a", {"label": "a", "summary": summary(accuracy)})
    both = ENTRY._replace(results=("place/*.json", "other/*.json"))
    lines = dict(scripts.lines(both, tmp_path))
    assert [*lines] == ["place: a", "other: a"]
    assert lines["other: a"]["shared, weighted"] == 1.0
    assert [label for label, _ in scripts.lines(ENTRY, tmp_path)] == ["a"]


def test_curves_count_by_their_end(tmp_path: Path, put: Any) -> None:
    said = {"label": "x", "accuracy": [0.1, 0.9], "distance": [3.0, 2.0, 1.0]}
    put(tmp_path / "place", "x", said)
    ((_, numbers),) = scripts.lines(ENTRY, tmp_path)
    expected = {"distance to target": 1.0, "by true labels": 0.9, "seeds": 1.0}
    assert numbers == expected
    assert scripts.lines(ENTRY._replace(results=()), tmp_path) == []


def test_certificates_count_by_their_radii(tmp_path: Path, put: Any) -> None:
    """And a figure has only the runs that are its own."""
    place = tmp_path / "certificates" / "results" / "mnist_clients"
    curve = {"radii": [0.0, 1.0, 2.0], "mean": [0.9, 0.5, 0.1], "acr": 1.25}
    for label in ("rotation, 4 clients, local", "rotation, 10 clients, federated"):
        said = {"label": label, "summary": summary(1.0)}
        said["certified"] = {"models": {"personal": curve}}
        put(place, f"{label}, seed 0", said)
    every = listing.entries()
    lines = {
        n: scripts.lines(every[f"certified/figure{n}"], tmp_path) for n in (1, 7, 8, 9)
    }
    assert [len(lines[n]) for n in (1, 7, 8, 9)] == [2, 0, 1, 1]
    expected = {"personal, certified at 0": 0.9, "personal, at half of the radii": 0.5}
    expected |= {"personal, average radius": 1.25, "seeds": 1.0}
    assert lines[8] == [("rotation, 4 clients, local", expected)]


def test_a_script_that_fails_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(starting, "experiments", lambda: tmp_path)
    with pytest.raises(starting.Refusal, match=r"experiments/bad.py ended with code 3"):
        starting.script(ENTRY._replace(script=("bad.py",)))
    monkeypatch.setattr(starting, "experiments", lambda: None)
    with pytest.raises(starting.Refusal, match="run troth from a checkout"):
        starting.script(ENTRY._replace(script=("bad.py",)))
