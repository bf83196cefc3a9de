"""Cells of Ditto's Table 8 that are off, with one thing changed, after 2,900 rounds.

    python experiments/fashion_ditto/variants.py "t = 2" --cells "fair / A2 50%"
    python experiments/fashion_ditto/variants.py

The first trains what is not there yet of one change, the second prints all there is.
After 2,900 rounds most cells of the table are as in the paper (docs/results.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from troth import runs
from troth.reproduce import judging, kept, listing, running
from troth.reproduce.entry import Cell, merged
from troth.reproduce.settings import Tree

ROOT = Path(__file__).parent
ENTRY = listing.find("ditto/table8")
ROUNDS = 2900
FEWER: Tree = {"train": {"rounds": ROUNDS}}
CHANGES: dict[str, tuple[str, Tree]] = {  # name → row, what is changed
    "t = 2": ("fair", merged(FEWER, {"aggregator": {"name": "term", "t": 2.0}})),
    "tuned earlier": ("finetuning", FEWER),
}


def changed(name: str, patterns: list[str] | None = None) -> list[Cell]:
    """The cells of a change, as they are trained with it."""
    row, change = CHANGES[name]
    cells = ENTRY.at("full", patterns=patterns or [row])
    assert all(cell.row == row for cell in cells), f"{name} is a change of {row}"
    return [
        cell._replace(choices=tuple(merged(t, change) for t in cell.choices), kept=())
        for cell in cells
    ]


def shelf(name: str) -> kept.Shelf:
    """Where its results are."""
    return kept.Shelf(ROOT / "draws" / name, None)


def table() -> str:
    """As Markdown: the paper's number, Table 8's run, and that with the change."""
    lines = ["| | | the paper | Table 8's | changed |", "|---|---|---|---|---|"]
    for name in CHANGES:
        new = judging.table(ENTRY, changed(name), shelf(name), 1)
        for one in new:
            if not one.seeds:
                continue
            assert one.theirs is not None
            before = ENTRY.at("full", patterns=[f"{one.cell.row} / {one.cell.column}"])
            (old,) = judging.table(ENTRY, before, kept.Shelf(None, ROOT.parent), 1)
            value = old.way.get(ROUNDS, old.mean)
            met = judging.verdict(value - one.theirs.mean, old.error) == "reproduced"
            lines.append(
                f"| {name} | {one.cell.row}, {one.cell.column} | "
                f"{one.theirs.mean:.3f} | {_said(value, met)} | "
                f"{_said(one.mean, not one.missed)} |"
            )
    return "\n".join(lines)


def _said(value: float, met: bool) -> str:
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
        cells, place = changed(given.change, given.cells), shelf(given.change)
        running.run(cells, place, 1, device=given.device, keep=True, watch=_watch)
    print(table())
