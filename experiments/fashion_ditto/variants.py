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
from troth.reproduce.entry import Cell, chosen, merged
from troth.reproduce.settings import Tree

ROOT = Path(__file__).parent
ENTRY = listing.find("ditto/table8")
ROUNDS = 2900
FEWER: Tree = {"train": {"rounds": ROUNDS}}
CHANGES: dict[str, tuple[list[str], Tree]] = {  # name → cells, what is changed
    "t = 2": (["fair"], merged(FEWER, {"aggregator": {"name": "term", "t": 2.0}})),
    "t = 5": (["fair"], merged(FEWER, {"aggregator": {"name": "term", "t": 5.0}})),
    "tuned earlier": (["finetuning"], FEWER),
    "times 20": (
        [f"{row} / A3 *" for row in ("global", "Krum", "k-loss")],
        merged(FEWER, {"attack": {"name": "model_replacement", "factor": 20.0}}),
    ),
}


def changed(name: str) -> list[tuple[Cell, Cell]]:
    """The cells of a change, as they are in the table and with it."""
    patterns, change = CHANGES[name]
    cells = chosen(ENTRY, ENTRY.everywhere(), patterns)
    trees = [tuple(_with(tree, change) for tree in c.choices) for c in cells]
    pairs = zip(cells, trees, strict=True)
    return [(cell, cell._replace(choices=new, kept=())) for cell, new in pairs]


def _with(tree: Tree, change: Tree) -> Tree:
    """What a cell trains, with a change; parts that are a name alone are replaced."""
    plain = {k: v for k, v in tree.items() if not (k in change and isinstance(v, str))}
    return merged(plain, change)


def shelf(name: str) -> kept.Shelf:
    """Where its results are."""
    return kept.Shelf(ROOT / "draws" / name, None)


def table() -> str:
    """As Markdown: the paper's number, Table 8's run, and that with the change."""
    lines = ["| | | the paper | Table 8's | changed |", "|---|---|---|---|---|"]
    committed = kept.Shelf(None, ROOT.parent)
    for name in CHANGES:
        own = shelf(name)
        for cell, other in changed(name):
            (old,) = judging.table(ENTRY, [cell], committed, 1)
            (new,) = judging.table(ENTRY, [other], own, 1)
            if new.seeds:
                assert new.theirs is not None
                value, theirs = old.way.get(ROUNDS, old.mean), new.theirs.mean
                met = judging.verdict(value - theirs, old.error) == "reproduced"
                numbers = [f"{theirs:.3f}", _said(value, met)]
                numbers += [_said(new.mean, not new.missed)]
                where = f"{cell.row}, {cell.column}"
                lines.append(f"| {name} | {where} | {' | '.join(numbers)} |")
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
        cells = chosen(ENTRY, [c for _, c in changed(given.change)], given.cells or ())
        place = shelf(given.change)
        running.run(cells, place, 1, device=given.device, keep=True, watch=_watch)
    print(table())
