"""Cells of Ditto's Table 8 that are off, with one thing changed, after 2,900 rounds.

    python experiments/fashion_ditto/variants.py "t = 2" --cells "fair / A2 50%"
    python experiments/fashion_ditto/variants.py

The first trains what is not there yet of one change, the second prints all there is.
After 2,900 rounds most cells of the table are as in the paper (docs/results.md). A run
of all rounds with the change, where there is one, is read after so many.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from troth import runs
from troth.reproduce import judging, kept, listing, running
from troth.reproduce.entry import Cell, chosen, merged
from troth.reproduce.settings import Tree

ROOT = Path(__file__).parent
ENTRY = listing.find("ditto/table8")
ROUNDS = 2900
FEWER: Tree = {"train": {"rounds": ROUNDS}}
CHANGES: dict[str, tuple[list[str], Tree]] = {  # name → cells, what is changed
    "t = 2": (["fair"], {"aggregator": {"name": "term", "t": 2.0}}),
    "t = 5": (["fair"], {"aggregator": {"name": "term", "t": 5.0}}),
    "tuned earlier": (["finetuning"], {}),
    "times 20": (
        [f"{row} / A3 *" for row in ("global", "Krum", "k-loss")],
        {"attack": {"name": "model_replacement", "factor": 20.0}},
    ),
}


class Changed(NamedTuple):
    """A cell of the table, with a change, and with it and fewer rounds."""

    plain: Cell
    whole: Cell
    short: Cell


def changed(name: str) -> list[Changed]:
    """The cells of a change."""
    patterns, change = CHANGES[name]
    return [
        Changed(cell, _with(cell, change), _with(cell, merged(FEWER, change)))
        for cell in chosen(ENTRY, ENTRY.everywhere(), patterns)
    ]


def _with(cell: Cell, change: Tree) -> Cell:
    """A cell with a change."""
    choices = tuple(merged(tree, change) for tree in cell.choices)
    return cell._replace(choices=choices, kept=())


def shelf(name: str) -> kept.Shelf:
    """Where its results are."""
    return kept.Shelf(ROOT / "draws" / name, None)


def table() -> str:
    """As Markdown: the paper's number, Table 8's run, and that with the change."""
    lines = ["| | | the paper | Table 8's | changed |", "|---|---|---|---|---|"]
    committed = kept.Shelf(None, ROOT.parent)
    for name in CHANGES:
        for cell, whole, short in changed(name):
            old, long = judging.table(ENTRY, [cell, whole], committed, 1)
            (new,) = judging.table(ENTRY, [short], shelf(name), 1)
            after = new.mean if new.seeds else long.way.get(ROUNDS)
            if after is None:  # neither trained so far nor looked at there
                continue
            assert old.theirs is not None
            theirs, error = old.theirs.mean, new.error if new.seeds else long.error
            before = _said(old.way.get(ROUNDS, old.mean), theirs, old.error)
            numbers = f"{theirs:.3f} | {before} | {_said(after, theirs, error)}"
            lines.append(f"| {name} | {cell.row}, {cell.column} | {numbers} |")
    return "\n".join(lines)


def _said(value: float, theirs: float, error: float) -> str:
    met = judging.verdict(value - theirs, error) == "reproduced"
    return f"{value:.3f}" + (" =" if met else "")


def _watch(p: runs.Progress) -> None:
    if p.done % 100 == 0:
        print(p.label, p.done, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("change", nargs="?", choices=[*CHANGES])
    parser.add_argument("--cells", action="append", help="ROW / COLUMN; repeatable")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    if given.change:
        short = [each.short for each in changed(given.change)]
        cells = chosen(ENTRY, short, given.cells or ())
        place = shelf(given.change)
        running.run(cells, place, 1, device=given.device, keep=True, watch=_watch)
    print(table())
