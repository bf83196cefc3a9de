"""Ditto's Table 3: every method with every value of its grid."""

from itertools import product
from pathlib import Path

import pytest

from troth.reproduce import listing, personal
from troth.reproduce.entry import experiment
from troth.reproduce.store import named

ROOT = Path(__file__).parents[2] / "experiments"
CELLS = listing.find("ditto/table3").everywhere()


def test_ten_methods_on_two_data_sets_clean_and_attacked():
    printed = listing.find("ditto/table3").printed
    assert printed is not None and len(CELLS) == 40
    (part,) = printed.parts
    every = {*product(part.rows, part.columns)}
    assert {(cell.row, cell.column) for cell in CELLS} == every
    assert len(personal.METHODS) == 10 and len(part.columns) == 2 * 2


def test_every_value_of_a_grid_is_a_choice():
    for cell in CELLS:
        parts = personal.METHODS[cell.row]
        assert [tree["personalizer"] for tree in cell.choices] == parts
        for tree in cell.choices:
            e = experiment(tree, 0)
            assert e.partition.split[1] > 0  # validation data, to choose by
            assert e.adversary.fraction == (0.5 if "A1" in cell.column else 0.0)
            assert e.data.name == cell.federation.data
        faces = cell.column.startswith("CelebA")
        data = "celeba" if faces else "mnist_by_writer"
        assert cell.federation.data == data and cell.federation.kind == "stand-in"


@pytest.mark.parametrize(
    ("method", "part", "label"),
    [
        ("mapper", {"name": "mapper"}, "mapper"),
        ("Ditto", {"name": "ditto", "lam": 0.1}, "Ditto lam=0.1"),
        ("EWC", {"name": "ewc", "lam": 1.0, "epochs": 5}, "EWC lam=1.0 epochs=5"),
    ],
)
def test_labels(method, part, label):
    assert personal.label(method, part) == label


def test_no_two_choices_have_a_label_in_common():
    every = [
        personal.label(method, part)
        for method, parts in personal.METHODS.items()
        for part in parts
    ]
    assert len({*every}) == len(every) == 25


def test_what_stands_in_is_committed():
    for cell in CELLS:
        assert len(cell.kept) == len(cell.choices)
        for tree, pattern in zip(cell.choices, cell.kept, strict=True):
            (said,) = named(ROOT, pattern.format(seed=0))
            for section in ("data", "personalizer"):
                assert said["changes"][section] == tree[section]
            assert pattern.endswith(f"/{said['label']}, seed {{seed}}")


def test_other_federations_have_no_results_of_these():
    original = personal.grids("ditto", [], lambda setting: setting.original)
    for cells in (original, listing.find("ditto/table3").at("small")):
        assert len(cells) == 40 and not any(cell.kept for cell in cells)
