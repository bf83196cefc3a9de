"""What was tried on cells that are off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from troth.reproduce import listing, tried
from troth.reproduce.store import Store

TABLE8 = listing.find("ditto/table8")
ROOT = Path(__file__).parents[2] / "experiments"


def said(mean: float, rounds: int, way: list[float]) -> dict[str, Any]:
    summary = {"clients": 500, "malicious": 100, "shared": {}}
    summary["shared"] = {"accuracy_weighted": mean, "accuracy_std": 0.1}
    looks = [rounds * (k + 1) // len(way) for k in range(len(way))]
    curve = {"round": looks, "shared_weighted": way}
    train = {"train": {"rounds": rounds}}
    return {"summary": summary, "curve": curve, "experiment": train}


def test_every_change_of_a_cell(tmp_path: Path, made: Any, put: Any) -> None:
    """Theirs is .911."""
    home = tmp_path / "fashion_ditto"
    cell = made.cell()
    assert tried.tried(TABLE8, cell, tmp_path) == []
    for change, column, *found in (
        ("a", "clean", 0.5, 5000, [0.9, 0.8, 0.5]),
        ("a", "A1 20%", 0.5, 5000, [0.5]),
        ("b", "clean", 0.91, 2900, [0.91]),
        ("c", "clean", 0.2, 5000, [0.1, 0.2]),
    ):
        name = f"{change}/global, {column}, seed 0~1"
        put(home, name, {**said(*found), "change": change})
    put(home, "draws/global, clean, our cohorts", {})
    found = tried.tried(TABLE8, cell, tmp_path)
    assert [one.words for one in found] == [
        "a: .500 (inside after 1 of 3 looks)",
        "b, 2,900 rounds: .910 =",
        "c: .200",
    ]
    assert [one.met for one in found] == [False, True, False]
    assert tried.tried(listing.find("ditto/table2"), cell, tmp_path) == []


def test_what_is_committed_is_found() -> None:
    names = {
        one.change
        for cell in TABLE8.everywhere()
        for one in tried.tried(TABLE8, cell, ROOT)
    }
    every = Store(ROOT / tried.HOMES["ditto/table8"]).records().values()
    assert names == {one["change"] for one in every if "change" in one}
    assert len(names) > 7
