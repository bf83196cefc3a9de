"""Ditto's tables and figures, and what of them is committed."""

from __future__ import annotations

from statistics import mean

import numpy as np

from troth.reproduce import listing, papers
from troth.reproduce.entry import Cell

ROWS = {
    *("global", "local", "fair", "median", "Krum", "multi-Krum", "clipping"),
    *("k-norm", "k-loss", "FedMGDA+", "finetuning"),
    *("Ditto, λ=0.1", "Ditto, λ=1", "Ditto, λ=2"),
}
COLUMNS = [
    "clean",
    *(f"A{k} {share}%" for k in (1, 2) for share in (20, 50, 80)),
    *(f"A3 {share}%" for share in (10, 20, 50)),
]
OWN = ("Fashion", "Ditto")


def cells(name: str) -> list[Cell]:
    return listing.find(f"ditto/{name}").everywhere()


def test_table_8_is_every_method_under_every_threat() -> None:
    found = cells("table8")
    assert len(found) == 140
    every = {(row, column) for row in ROWS for column in COLUMNS}
    assert {(cell.row, cell.column) for cell in found} == every
    assert all(listing.find("ditto/table8").theirs(cell) for cell in found)


def test_table_8_has_the_authors_cohorts_and_hostile_clients() -> None:
    for cell in cells("table8"):
        for tree in cell.choices:
            assert tree["train"]["sampling"] == "ditto"
            if cell.column != "clean":
                number = int(500 * int(cell.column[3:-1]) / 100)
                hostile = np.random.RandomState(1234567).choice(
                    500, number, replace=False
                )
                assert tree["adversary"]["clients"] == sorted(hostile.tolist())


def test_ditto_of_table_2_chooses_its_own_lambda() -> None:
    found = [c for c in cells("table2") if c.row == "Ditto" and c.part == "Fashion"]
    assert [cell.column for cell in found] == COLUMNS
    for cell in found:
        (tree,) = cell.choices
        part = tree["personalizer"]
        assert (part["name"], part["lam"], part["choose"]) == ("ditto", "auto", "paper")
        strong = cell.column.startswith("A3") or cell.column.endswith("80%")
        assert part["fallback"] == (0.1 if strong else 1.0)


def test_figures_show_cells_of_table_8_and_ditto_of_table_2() -> None:
    whole = {cell.label: cell for cell in cells("table8")}
    own = {c.column: c for c in cells("table2") if (c.part, c.row) == OWN}
    for name, many in (("figure3", 60), ("figure6", 24)):
        found, entry = cells(name), listing.find(f"ditto/{name}")
        assert len(found) == many
        for cell in found:
            if cell.row == "Ditto":  # whose clients choose λ
                other = own[cell.column]
                assert cell.choices == other.choices and cell.part == "Fashion MNIST"
                assert entry.theirs(cell) == listing.find("ditto/table2").theirs(other)
            else:
                assert whole[cell.label] == cell
            assert entry.theirs(cell)
    (part,) = papers.table("ditto", "table8").parts
    rules = ("median", "Krum", "multi-Krum", "clipping", "k-norm", "k-loss", "FedMGDA+")
    scores = {rule: mean(v.mean for v in part.rows[rule][1:] if v) for rule in rules}
    strongest = sorted(rules, key=lambda rule: -scores[rule])[:3]
    shown = {cell.row for cell in cells("figure3")}
    assert shown == {"global", "local", "Ditto", *strongest}
    assert {cell.column for cell in cells("figure6")} == {*COLUMNS[1:4]}
    named = {"global", "Ditto", *rules} - {"FedMGDA+"}  # in the text beside it
    assert {cell.row for cell in cells("figure6")} == named


def test_figure_5_is_term_at_three_temperatures() -> None:
    found = cells("figure5")
    assert len(found) == 16 and {cell.column for cell in found} == {*COLUMNS[:4]}
    for cell in found:
        assert cell.whose == ("shared",)
        (tree,) = cell.choices
        rules = {"global": None}
        rules |= {f"TERM, t={t}": {"name": "term", "t": float(t)} for t in (1, 2, 5)}
        assert tree.get("aggregator") == rules[cell.row]
        assert ("adversary" in tree) == (cell.column != "clean")


def test_figures_8_and_9_are_about_other_things() -> None:
    entries = {n: listing.find(f"ditto/figure{n}") for n in (8, 9)}
    assert entries[8].over == entries[9].over
    assert entries[8].shows == ("personal, weighted", "personal, std")
    seen = {"all clients', train_loss", "all clients', valid_accuracy"}
    assert seen < {*entries[9].shows}
