"""Cells that are off, and what was tried on them."""

from pathlib import Path

import misses

from troth.reproduce import judging, listing
from troth.reproduce.store import Store

ROUNDS = [1000 * k for k in range(1, 6)]


def looked(made, row, values):
    result = made.result(values[-1], std=0.0)
    result.record["curve"] = {"round": ROUNDS, "shared_weighted": values}
    return judging.judge(made.table, made.cell(row), [result])


def test_what_they_went_through(made, tmp_path):
    """Theirs are .911 (global), .884 (median)."""
    far = looked(made, "global", [0.91, 0.91, 0.91, 0.91, 0.5])
    good = looked(made, "median", [0.5, 0.5, 0.5, 0.5, 0.88])
    never = looked(made, "Krum", [0.1, 0.1, 0.1, 0.1, 0.1])
    text = "\n".join(misses.off(made.table, [far, good, never], tmp_path))
    assert text.startswith("Cells that are not reproduced: 2; 1 of them would be")
    lines, ways = text.splitlines(), "4 of 5: …, 2,000, 3,000, 4,000"
    assert f"| global, clean | .500 | .911 |  | {ways} | a draw |" in lines
    assert "| Krum, clean | .100 | .838 |  | 0 of 5 |  |" in lines
    assert "tried" not in lines[2]
    draws = "Draws among the 1 reproduced cells that were evaluated during training: 1 "
    assert draws in text and text.endswith(": median, clean (1 of 2).\n")
    steady = looked(made, "median", [0.5, 0.5, 0.5, 0.88, 0.88])
    assert list(misses.off(made.table, [steady], tmp_path)) == []


def test_what_was_tried_stands_beside(made, tmp_path, put):
    far = looked(made, "global", [0.5] * 5)
    said = {**said_of(0.91, 5000, [0.91]), "change": "less of it"}
    put(tmp_path / "fashion_ditto", "less of it/global, clean, seed 0~1", said)
    (text,) = [*misses.off(made.table, [far], tmp_path)][1:]
    assert text.splitlines()[-1].endswith("| less of it: .910 = |")


def test_after_fewer_rounds(made):
    far = looked(made, "global", [0.91, 0.91, 0.5, 0.5, 0.5])
    other = looked(made, "median", [0.5, 0.88, 0.88, 0.5, 0.5])
    text = "\n".join(misses.readings([far, other]))
    assert "| global | 1 | 0 | 1 | 1,000, 2,000 | 0 |" in text
    assert "| all evaluated during training | 2 | 0 | 2 | 2,000 | 1, 0 |" in text
    assert list(misses.readings([])) == []


TABLE8 = listing.find("ditto/table8")
ROOT = Path(__file__).parents[2] / "experiments"


def said_of(mean, rounds, way):
    shared = {"accuracy_weighted": mean, "accuracy_std": 0.1}
    shared["accuracy_mean"] = mean
    looks = [rounds * (k + 1) // len(way) for k in range(len(way))]
    return {
        "summary": {"clients": 500, "malicious": 100, "shared": shared},
        "curve": {"round": looks, "shared_weighted": way},
        "experiment": {"train": {"rounds": rounds}},
    }


def test_every_change_of_a_cell(tmp_path, made, put):
    """Theirs is .911."""
    home, cell = tmp_path / "fashion_ditto", made.cell()
    assert misses.tried(TABLE8, cell, tmp_path) == []
    for change, column, *found in (
        ("a", "clean", 0.5, 5000, [0.9, 0.8, 0.5]),
        ("a", "A1 20%", 0.5, 5000, [0.5]),
        ("b", "clean", 0.91, 2900, [0.91]),
        ("c", "clean", 0.2, 5000, [0.1, 0.2]),
    ):
        name = f"{change}/global, {column}, seed 0~1"
        put(home, name, {**said_of(*found), "change": change})
    put(home, "draws/global, clean, our cohorts", {})
    assert [(o.words, o.met) for o in misses.tried(TABLE8, cell, tmp_path)] == [
        ("a: .500 (inside after 1 of 3 looks)", False),
        ("b, 2,900 rounds: .910 =", True),
        ("c: .200", False),
    ]
    assert misses.tried(listing.find("ditto/table2"), cell, tmp_path) == []


def test_what_is_committed_is_found():
    names = {
        one.change
        for cell in TABLE8.everywhere()
        for one in misses.tried(TABLE8, cell, ROOT)
    }
    every = Store(ROOT / misses.HOMES["ditto/table8"]).records().values()
    assert names == {one["change"] for one in every if "change" in one}
    assert len(names) > 7
