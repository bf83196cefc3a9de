"""Columns and rows of the tables: who is malicious, and what methods see of it."""

import json
from itertools import product
from pathlib import Path

import pytest

from troth.data import load
from troth.reproduce import listing, rows, running
from troth.reproduce.entry import experiment, key, merged
from troth.reproduce.settings import SETTINGS
from troth.reproduce.store import Store, named
from troth.types import Refusal

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


def leaf(root, writers):
    """Write FEMNIST as LEAF does, three empty pictures per writer."""
    names = [f"f{k:04}_{k % 50:02}" for k in range(writers)]
    own = {"x": [[1.0] * 784] * 3, "y": [0, 1, 61]}
    text = {"users": names, "num_samples": [3] * writers}
    folder = root / "femnist" / "train"
    folder.mkdir(parents=True)
    made = text | {"user_data": dict.fromkeys(names, own)}
    (folder / "all_data_0.json").write_text(json.dumps(made))


@pytest.mark.parametrize("column", ["A1 20%", "A1 80%", "A3 10%"])
def test_femnist_with_more_writers_has_the_share_of_the_column(bare, column):
    """The paper's 205 writers are drawn from 400; 80 % of them is 164."""
    leaf(bare, 400)
    cells = ENTRIES["ditto/table7"].at("full", str(bare), [f"global / {column}"])
    (tree,) = cells[0].choices
    e = experiment(tree, 0)
    n = len(load.deal(e, str(bare))[1].train)
    assert (n, cells[0].federation.kind) == (205, "original")
    share = int(column[3:-1]) / 100
    assert e.adversary.number(n) / n == pytest.approx(share, abs=1 / n)


def test_data_with_other_clients_are_refused(bare):
    leaf(bare, 200)
    cell = ENTRIES["ditto/table7"].at("full", str(bare), ["global / A1 80%"])[0]
    job = running.Job(cell, 0, 0, experiment(cell.choices[0], 0))
    with pytest.raises(Refusal, match="data.writers = 205 must be 1 to 200"):
        running.check(job, str(bare))
    tree = merged(cell.choices[0], {"data": {"writers": 0}})
    job = job._replace(experiment=experiment(tree, 0))
    with pytest.raises(Refusal, match="have 200 clients here, and FEMNIST has 205"):
        running.check(job, str(bare))


def test_originals_are_trained_as_the_authors_train_them():
    femnist, celeba = (SETTINGS[name].original for name in ("FEMNIST", "CelebA"))
    for f in (femnist, SETTINGS["FEMNIST (skewed)"].original):
        assert f.tree["model"]["dropout"] == [0.25, 0.5]
    assert (femnist.tree["data"]["writers"], femnist.clients) == (205, 205)
    e = experiment(celeba.tree, 0)
    assert e.model.normalize == "none"  # inputs are 0 to 255
    own = e.data.options["identities"], e.data.options["at_least"], celeba.clients
    assert own == (515, 5, 515)


def test_stackoverflow_has_attacks_of_its_own():
    f = SETTINGS["StackOverflow"].original
    columns = ("A1 20%", "A2 20%", "A3 10%")
    one, two, three = (
        experiment(merged(f.tree, rows.threat(f, column)), 0) for column in columns
    )
    assert all(e.corruption.redraw for e in (one, two, three))
    assert one.attack.name == "none"
    assert (two.attack.name, two.attack.options["std"]) == ("random_update", 1.0)
    assert three.attack.options == {"factor": "size"}
    fashion = SETTINGS["Fashion MNIST"].original
    assert "corruption" not in rows.threat(fashion, "A1 20%")


def test_local_models_do_not_see_how_others_attack():
    cells = {c.label: c for c in ENTRIES["ditto/table8"].everywhere()}
    three = [cells[f"Fashion MNIST: local / A{k} 20%"].choices[0] for k in (1, 2, 3)]
    assert three[0] == three[1] == three[2]
    shared = cells["Fashion MNIST: global / A3 50%"]
    ditto = cells["Fashion MNIST: Ditto, λ=1 / A3 50%"]
    assert shared.choices == ditto.choices and shared.whose == ("shared",)


@pytest.mark.parametrize("number", [1, 3, 4, 5, 6, 7])
def test_fmtl_has_its_own_anchor_and_that_of_ditto(number):
    """Every row FMTL is its Algorithm 1; a row Ditto differs in the anchor alone."""
    entry = ENTRIES[f"fmtl/table{number}"]
    cells = {cell.label: cell for cell in entry.everywhere()}
    own = [cell for cell in cells.values() if cell.row.startswith("FMTL")]
    assert own
    for cell in own:
        other = cells[cell.label.replace(": FMTL", ": Ditto")]
        assert entry.theirs(other) == entry.theirs(cell) is not None
        assert len(other.choices) == len(cell.choices)
        for tree, same in zip(cell.choices, other.choices, strict=True):
            assert tree == merged(same, {"personalizer": {"anchor": "moving"}}) != same
    ditto = [c for c in cells.values() if c.row.startswith("Ditto")]
    assert len(ditto) == len(own)


def test_with_one_step_per_round_both_mixes_of_apfl_are_one():
    """Vehicle's clients take one step, and before it w_k is the model of the round."""
    home = Store(ROOT / "reproduce")
    every = {(one["key"], one["seed"]): one for one in home.records().values()}
    both = []
    for cell in ENTRIES["fmtl/table3"].everywhere():
        if cell.row.startswith("APFL"):
            (tree,) = cell.choices
            assert tree["train"]["steps"] == 1
            own = {k: v for k, v in tree["personalizer"].items() if k != "mix"}
            published = {**tree, "personalizer": own}
            pair = [every.get((key(t, 0), 0)) for t in (tree, published)]
            both += [[one["accuracy"] for one in pair]] if all(pair) else []
    assert len(both) == 21 and all(fixed == moving for fixed, moving in both)


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
        for cell in cells:
            adversary = experiment(cell.choices[0], 0).adversary
            n = cell.federation.clients
            wanted = rows.authors(n, n // 2) if "A1" in cell.column else None
            assert (adversary.clients, adversary.fraction) == (wanted, 0.0)


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
