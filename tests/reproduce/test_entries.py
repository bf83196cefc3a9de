"""Every table and figure that the papers have, and the cells that make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from troth.reproduce import listing
from troth.reproduce.entry import Entry, experiment

ROOT = Path(__file__).parents[2] / "experiments"
ENTRIES = listing.entries()
CELLS = [entry for entry in ENTRIES.values() if entry.cells]


def test_every_entry_can_be_run() -> None:
    for entry in ENTRIES.values():
        assert entry.title
        assert bool(entry.cells) != bool(entry.script)
        if entry.script:
            assert (ROOT / entry.script[0]).exists()
        assert entry.settings or entry.data or entry.name.startswith("ditto/figure")


@pytest.mark.parametrize("entry", CELLS, ids=lambda entry: entry.name)
def test_cells_are_experiments_with_names_of_their_own(entry: Entry) -> None:
    for cells in (entry.everywhere(), entry.at("small")):
        labels = [cell.label for cell in cells]
        assert len({*labels}) == len(labels)
        for cell in cells[:: max(1, len(cells) // 12)]:
            for tree in cell.choices:
                e = experiment(tree, 0)
                assert e.data.name and (len(cell.choices) == 1 or _validates(e))


def _validates(e: object) -> bool:
    """Whether there are validation data to choose by, or the authors had none."""
    split = e.partition.split  # type: ignore[attr-defined]
    return split == "given" or split[1] > 0


@pytest.mark.parametrize("entry", CELLS, ids=lambda entry: entry.name)
def test_a_whole_table_has_a_cell_for_every_number(entry: Entry) -> None:
    """But for what the entry's note says is not run."""
    printed, cells = entry.printed, entry.everywhere()
    if printed is None or "figure" in entry.name:
        return
    there = {(cell.part, cell.row, cell.column) for cell in cells}
    every = {
        (part.data, row, column)
        for part in printed.parts
        for row, values in part.rows.items()
        for column, value in zip(part.columns, values, strict=True)
        if value is not None
    }
    assert there <= every
    left = {column for _, _, column in every - there}
    assert all("CelebA" in column for column in left)
