"""What scripts left behind, in a line a label."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from troth.reproduce import equivalence, listing, running, scripts, spurious
from troth.reproduce.entry import Entry

ENTRY = Entry("p/figure7", "t", results="place/*.json")


def put(place: Path, name: str, said: object) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_text(json.dumps(said))


def summary(accuracy: float) -> dict[str, object]:
    own = {"accuracy_weighted": accuracy, "accuracy_std": 0.25}
    return {"shared": own, "personal": own}


def test_seeds_of_a_label_are_one_line(tmp_path: Path) -> None:
    for seed, accuracy in enumerate((0.5, 0.75)):
        said = {"label": "a", "summary": summary(accuracy), "pooled": {"loss": 2.0}}
        put(tmp_path / "place", f"a, seed {seed}", said)
    put(tmp_path / "place", "b", {"label": "b", "summary": summary(1.0)})
    (a, numbers), (b, _) = scripts.lines(ENTRY, tmp_path)
    assert (a, b) == ("a", "b")
    assert numbers["shared, weighted"] == 0.625 and numbers["seeds"] == 2
    assert numbers["all clients', loss"] == 2.0


def test_curves_count_by_their_end(tmp_path: Path) -> None:
    said = {"label": "x", "accuracy": [0.1, 0.9], "distance": [3.0, 2.0, 1.0]}
    put(tmp_path / "place", "x", said)
    ((_, numbers),) = scripts.lines(ENTRY, tmp_path)
    expected = {"distance to target": 1.0, "by true labels": 0.9, "seeds": 1.0}
    assert numbers == expected
    assert scripts.lines(ENTRY._replace(results=""), tmp_path) == []


def test_certificates_count_by_their_radii(tmp_path: Path) -> None:
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


def test_the_table_of_shortcuts(tmp_path: Path) -> None:
    assert spurious.table1(tmp_path) == {}
    place = tmp_path / "shortcuts" / "results"
    for figure, label in (("shared", "mnist"), ("table", "mnist, finetune, 0")):
        for seed, accuracy in enumerate((0.5, 0.75)):
            own = {"accuracy_mean": accuracy}
            both = {"shared": own, "personal": {"accuracy_mean": accuracy / 2}}
            said = {"label": label, "summary": {**both, "tests": {"conflicting": both}}}
            put(place / figure, f"{label}, seed {seed}", said)
    put(place / "table", "others", {"label": "mnist, distance alone, 0", "summary": {}})
    part = "coloured MNIST, CelebA and Coil20"
    assert spurious.table1(tmp_path) == {
        (part, "Global", "MNIST Acc_B"): 0.625,
        (part, "Global", "MNIST Acc_BC"): 0.625,
        (part, "FT", "MNIST Acc_B"): 0.3125,
        (part, "FT", "MNIST Acc_BC"): 0.3125,
    }


def test_the_table_of_sums(tmp_path: Path) -> None:
    assert equivalence.table1(tmp_path) == {}
    place = tmp_path / "attack_chain" / "results" / "sums"
    curves = {"shared": [0.1, 0.8], "idle": [0.1, 0.7], "own": [0.1, 0.6]}
    put(place, "linear, sum, λ=1.0", curves)
    found = equivalence.table1(tmp_path)
    printed = listing.find("equivalence/table1").printed
    assert printed is not None and len(found) == 3
    for (part, row, column), value in found.items():
        theirs = printed.part(part).at(row, column)
        assert theirs is not None and column == "Σ linear"
        assert abs(theirs.mean - value) < 0.3
    assert found["noisy Fashion-MNIST", "idle user's model", "Σ linear"] == 0.7


def test_a_script_that_fails_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(running, "experiments", lambda: tmp_path)
    with pytest.raises(running.Refusal, match=r"experiments/bad.py ended with code 3"):
        running.script(ENTRY._replace(script=("bad.py",)))
    monkeypatch.setattr(running, "experiments", lambda: None)
    with pytest.raises(running.Refusal, match="run troth from a checkout"):
        running.script(ENTRY._replace(script=("bad.py",)))
