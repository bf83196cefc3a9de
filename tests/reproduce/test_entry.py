"""Which cells of an entry, and what they need."""

import re

import pytest

from troth.data import catalogue
from troth.reproduce import kept, listing, store
from troth.reproduce.entry import chosen, key
from troth.types import Refusal

ENTRIES = listing.entries()


def test_cells_by_pattern():
    entry = ENTRIES["ditto/table8"]
    cells = entry.everywhere()
    assert len(chosen(entry, cells, [])) == 140
    assert len(chosen(entry, cells, ["Ditto, λ=1"])) == 10
    assert len(chosen(entry, cells, ["A1 50%"])) == 14
    assert len(chosen(entry, cells, ["Ditto* / A1*", "global / clean"])) == 10
    with pytest.raises(Refusal, match=r"no cell 'Dito, λ=1' \(did you mean 'Ditto, λ"):
        chosen(entry, cells, ["clean", "Dito, λ=1"])


HINTS = {
    "Ditto, λ=1 / A9 20%": "did you mean 'Ditto, λ=1 / A",
    "Fashion MNIST: Kurm / clean": "did you mean 'Krum / clean'?",
    "Ditto, λ=1 / cleen": "did you mean 'Ditto, λ=1 / clean'?",
    "Krumm": "did you mean 'Krum'?",
    "nothing of it / at all": "has no cell 'nothing of it / at all'; give 'ROW",
}


def test_rows_and_columns_are_guessed_apart():
    entry = ENTRIES["ditto/table8"]
    for pattern, hint in HINTS.items():
        with pytest.raises(Refusal, match=re.escape(hint)):
            chosen(entry, entry.everywhere(), [pattern])


def test_forms_of_a_letter_do_not_matter():
    entry = ENTRIES["ditto/table8"]
    forms = ["Ditto,\u00a0λ=1 / clean", " Ditto,  \U0001d706=1\u2003/ clean "]
    for form in forms:
        (cell,) = chosen(entry, entry.everywhere(), [form])
        assert (cell.row, cell.column) == ("Ditto, λ=1", "clean")


def test_full_scale_without_the_data_says_which_file(bare):
    if catalogue.entry("fashion_mnist").place is not None:
        pytest.skip("Fashion-MNIST comes with this system")
    with pytest.raises(Refusal, match="train-images.*--scale small|--scale.*train-im"):
        ENTRIES["ditto/table8"].at("full")
    with pytest.raises(Refusal, match="mytrain.json"):
        ENTRIES["ditto/table6"].at("full")
    assert len(ENTRIES["ditto/table8"].at("small")) == 140


def test_parts_whose_data_are_here_can_be_chosen(bare):
    (bare / "vehicle").mkdir()
    (bare / "vehicle" / "mytrain.json").touch()
    table4 = ENTRIES["ditto/table4"]
    cells = table4.at("full", None, ["Vehicle: best λ / *"])
    assert len(cells) == 10 and {c.federation.kind for c in cells} == {"stand-in"}
    with pytest.raises(Refusal, match="stackoverflow.*choose other cells with --cells"):
        table4.at("full", None, ["StackOverflow"])
    (bare / "vehicle" / "mytest.json").touch()
    (cell,) = table4.at("full", None, ["Vehicle: best λ / clean"])
    assert cell.federation.kind == "original"


def test_committed_results_are_those_of_their_experiments():
    """An option added later leaves the keys of earlier results (`reader.ADDED`)."""
    root = kept.experiments()
    assert root is not None
    records = store.Store(root / kept.COMMITTED).records()
    assert len(records) > 1000
    for name, one in records.items():
        assert key(one["experiment"], one["seed"]) == one["key"], name
