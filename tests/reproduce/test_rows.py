"""Columns and rows of the tables: who is hostile, and what methods see of it."""

from pathlib import Path

import pytest

from troth.reproduce import listing, rows
from troth.reproduce.settings import SETTINGS
from troth.reproduce.store import named

ROOT = Path(__file__).parents[2] / "experiments"
ENTRIES = listing.entries()


def test_hostile_clients_are_those_of_the_authors():
    fashion = SETTINGS["Fashion MNIST"].original
    tree = rows.threat(fashion, "A3 20%")
    (committed,) = named(ROOT, "fashion_ditto/table/Ditto λ=1.0, A3 20%, seed 0")
    assert tree == {
        key_: value
        for key_, value in committed["changes"].items()
        if key_ in ("adversary", "attack")
    }
    assert rows.threat(fashion, "clean") == {}
    assert [rows.hostile(23, share) for share in (0.1, 0.2, 0.5, 0.8)] == [3, 5, 11, 18]
    assert [rows.hostile(500, share) for share in (0.1, 0.2, 0.8)] == [50, 100, 400]


def test_local_models_do_not_see_how_others_attack():
    cells = {c.label: c for c in ENTRIES["ditto/table8"].everywhere()}
    three = [cells[f"Fashion MNIST: local / A{k} 20%"].choices[0] for k in (1, 2, 3)]
    assert three[0] == three[1] == three[2]
    shared = cells["Fashion MNIST: global / A3 50%"]
    ditto = cells["Fashion MNIST: Ditto, λ=1 / A3 50%"]
    assert shared.choices == ditto.choices and shared.whose == ("shared",)


@pytest.mark.parametrize(
    ("column", "strong"),
    [("clean", False), ("A1 50%", False), ("A1 80%", True), ("A3 10%", True)],
)
def test_strong_attacks(column, strong):
    assert rows.strong(column) == strong
