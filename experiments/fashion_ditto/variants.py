"""Cells of Ditto's Table 8 that are off, with one thing changed.

    python experiments/fashion_ditto/variants.py "t = 2" --cells "fair / A2 50%"
    python experiments/fashion_ditto/variants.py

The first trains what is not there yet of one change, the second prints all there is:
after 2,900 rounds, when most cells of the table are as in the paper (docs/results.md),
and after all 5,000, where a change was trained for so many.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NamedTuple

from troth import runs
from troth.reproduce import judging, kept, listing, running
from troth.reproduce.entry import Cell, chosen, merged
from troth.reproduce.settings import Tree

ROOT = Path(__file__).parent
ENTRY = listing.find("ditto/table8")
COMMITTED = kept.Shelf(None, ROOT.parent)
ROUNDS, WHOLE = 2900, 5000
_WHO = ("Table 8's", "changed")
FEWER: Tree = {"train": {"rounds": ROUNDS}}


class Change(NamedTuple):
    """What is tried."""

    cells: list[str]
    tree: Tree
    whole: bool = True  # trained for all rounds, not for fewer


class Changed(NamedTuple):
    """A cell of the table, with a change, and with it and fewer rounds."""

    plain: Cell
    whole: Cell
    short: Cell


_TERM = {t: {"aggregator": {"name": "term", "t": t}} for t in (2.0, 5.0)}
_REPEATED: Tree = {"attack": "repeated:repeated"}  # of the file beside this one
_NEAR: Tree = {"aggregator": {"neighbours": "byzfl"}}  # n − f − 1
_NOISY = ("global", "fair", "median", "Krum", "multi-Krum", "clipping", "k-loss")
CHANGES = {
    "t = 2": Change(["fair"], _TERM[2.0], whole=False),
    "t = 5": Change(["fair"], _TERM[5.0]),
    "noise that repeats": Change([f"{row} / A2 *" for row in _NOISY], _REPEATED),
    "t = 5, noise that repeats": Change(["fair / A2 *"], _TERM[5.0] | _REPEATED),
    "one neighbour more": Change(["multi-Krum / A2 *"], _NEAR),
    "ties by number": Change(["multi-Krum / A2 *"], {"aggregator": {"ties": "id"}}),
    "50 epochs": Change(["finetuning / A3 *"], {"personalizer": {"epochs": 50}}),
    "tuned earlier": Change(["finetuning"], {}, whole=False),
    "tuned after 3,600": Change(["finetuning / A3 50%"], {"train": {"rounds": 3600}}),
    "times 20": Change(
        [f"{row} / A3 *" for row in ("global", "Krum", "k-loss")],
        {"attack": {"name": "model_replacement", "factor": 20.0}},
        whole=False,
    ),
}


def changed(name: str) -> list[Changed]:
    """The cells of a change."""
    patterns, change, _ = CHANGES[name]
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
    heads = [f"{who}, {after:,}" for after in (ROUNDS, WHOLE) for who in _WHO]
    lines = [f"| | | the paper | {' | '.join(heads)} |", "|---|---|" + "---|" * 5]
    for name in CHANGES:
        for cell, whole, short in changed(name):
            old, long = judging.table(ENTRY, [cell, whole], COMMITTED, 1)
            own, new = judging.table(ENTRY, [whole, short], shelf(name), 1)
            long = own if own.seeds else long
            if not (new.seeds or long.way):  # not trained so far
                continue
            assert old.theirs is not None
            found = [_after(old), _after(long), (old.mean, old.error), _last(long)]
            if new.seeds:
                found[1] = new.mean, new.error
            numbers = " | ".join(_said(*one, old.theirs.mean) for one in found)
            said = f"{name} | {cell.row}, {cell.column} | {old.theirs.mean:.3f}"
            lines.append(f"| {said} | {numbers} |")
    return "\n".join(lines)


def _after(one: judging.Judged) -> tuple[float, float]:
    """After fewer rounds: a number that was seen on the way, and its error."""
    return one.way.get(ROUNDS, math.nan), one.error


def _last(one: judging.Judged) -> tuple[float, float]:
    """After the last round, where so many were trained."""
    return one.mean if one.way or one.seeds else math.nan, one.error


def _said(value: float, error: float, theirs: float) -> str:
    if math.isnan(value):
        return ""
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
        long = CHANGES[given.change].whole
        wanted = [c.whole if long else c.short for c in changed(given.change)]
        cells = chosen(ENTRY, wanted, given.cells or ())
        place = kept.Shelf(ROOT / "draws" / given.change, ROOT.parent)
        running.run(cells, place, 1, device=given.device, keep=True, watch=_watch)
    print(table())
