"""Columns and rows of the tables: who is malicious, and what methods see of it."""

from itertools import product
from pathlib import Path

from troth.reproduce import listing, rows
from troth.reproduce.entry import experiment
from troth.reproduce.settings import SETTINGS
from troth.reproduce.store import named

ROOT = Path(__file__).parents[2] / "experiments"
ENTRIES = listing.entries()
GRIDS = ENTRIES["ditto/table3"].everywhere()


def test_malicious_clients_are_those_of_the_authors():
    fashion = SETTINGS["Fashion MNIST"].original
    tree = rows.threat(fashion, "A3 20%")
    (committed,) = named(ROOT, "fashion_ditto/table/Ditto λ=1.0, A3 20%, seed 0")
    own = {k: committed["changes"][k] for k in ("adversary", "attack")}
    assert tree == own and rows.threat(fashion, "clean") == {}
    assert [rows.hostile(23, share) for share in (0.1, 0.2, 0.5, 0.8)] == [3, 5, 11, 18]
    assert [rows.hostile(500, share) for share in (0.1, 0.2, 0.8)] == [50, 100, 400]


def test_local_models_do_not_see_how_others_attack():
    cells = {c.label: c for c in ENTRIES["ditto/table8"].everywhere()}
    three = [cells[f"Fashion MNIST: local / A{k} 20%"].choices[0] for k in (1, 2, 3)]
    assert three[0] == three[1] == three[2]
    shared = cells["Fashion MNIST: global / A3 50%"]
    ditto = cells["Fashion MNIST: Ditto, λ=1 / A3 50%"]
    assert shared.choices == ditto.choices and shared.whose == ("shared",)


def test_strong_attacks():
    columns = ("clean", "A1 50%", "A1 80%", "A3 10%")
    assert [rows.strong(one) for one in columns] == [False, False, True, True]


def test_ditto_s_table_3_is_every_method_with_every_value_of_its_grid():
    (part,) = ENTRIES["ditto/table3"].printed.parts
    every = {*product(part.rows, part.columns)}
    assert {(cell.row, cell.column) for cell in GRIDS} == every
    assert (len(GRIDS), len(rows.GRIDS), len(part.columns)) == (40, 10, 4)
    for cell in GRIDS:
        parts = rows.GRIDS[cell.row]
        assert [tree["personalizer"] for tree in cell.choices] == parts
        for tree in cell.choices:
            e = experiment(tree, 0)
            assert e.partition.split[1] > 0  # validation data, to choose by
            assert e.adversary.fraction == (0.5 if "A1" in cell.column else 0.0)
            assert e.data.name == cell.federation.data
        faces = cell.column.startswith("CelebA")
        data = "celeba" if faces else "mnist_by_writer"
        assert cell.federation.data == data and cell.federation.kind == "stand-in"
        assert len(cell.kept) == len(cell.choices)
    original = rows.grids("ditto", [], lambda setting: setting.original)
    for cells in (original, ENTRIES["ditto/table3"].at("small")):
        assert len(cells) == 40 and not any(cell.kept for cell in cells)


def test_labels():
    part = {"name": "ewc", "lam": 1.0, "epochs": 5}
    assert rows.label("EWC", part) == "EWC lam=1.0 epochs=5"
    assert rows.label("mapper", {"name": "mapper"}) == "mapper"
    every = [rows.label(name, p) for name, parts in rows.GRIDS.items() for p in parts]
    assert len({*every}) == len(every) == 25


def test_what_stands_in_never_has_the_name_of_the_original():
    assert len(SETTINGS) == 6
    for setting in SETTINGS.values():
        assert setting.original.kind == "original"
        other = setting.stand_in
        if other is not None:
            assert other.kind == "stand-in" and other.name != setting.original.name
