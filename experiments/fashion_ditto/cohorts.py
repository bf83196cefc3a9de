"""Print Table 8 of Ditto with our own cohorts and with the authors'.

    python experiments/fashion_ditto/cohorts.py

The last cohorts decide the results of some cells. The table has the cells that were
trained with both, and of which at least one is not reproduced.
"""

from __future__ import annotations

from pathlib import Path

from troth.reproduce import judging, kept, listing
from troth.reproduce.entry import Cell, merged
from troth.reproduce.settings import Tree

ROOT = Path(__file__).parent
ENTRY = listing.find("ditto/table8")
NAMES = {  # row → labels of `run.py`
    "global": "Ditto λ=1.0",
    "Ditto, λ=0.1": "Ditto λ=0.1",
    "Ditto, λ=1": "Ditto λ=1.0",
    "Ditto, λ=2": "Ditto λ=2.0",
    "finetuning": "finetuning",
    "local": "local",
}


def own(cell: Cell) -> Cell:
    """Return the same cell with our own cohorts and products in float32."""
    changes: Tree = {"train": {"sampling": "size"}}
    if len(cell.choices) > 1:
        changes["partition"] = {"valid": 0.1}  # of which the choice was made
    trees = [merged(tree, changes) for tree in cell.choices]
    for tree in trees:
        del tree["train"]["precision"]
    file = f"{NAMES.get(cell.row, '')}, {cell.column}, seed {{seed}}"
    known = (f"fashion_ditto/table/{file}",) if cell.row in NAMES else ()
    return cell._replace(choices=tuple(trees), kept=known)


def table() -> str:
    """Return the table in Markdown."""
    before = kept.Shelf(ROOT, ROOT.parent, "our own cohorts")
    after = kept.Shelf(None, ROOT.parent)
    cells = ENTRY.everywhere()
    ours = judging.table(ENTRY, [own(cell) for cell in cells], before, 1)
    theirs = judging.table(ENTRY, cells, after, 1)
    both = [
        pair for pair in zip(ours, theirs, strict=True) if all(p.seeds for p in pair)
    ]
    lines = ["| | the paper | their cohorts | our cohorts |", "|---|---|---|---|"]
    for own_, their in both:
        if own_.missed or their.missed:
            assert their.theirs is not None
            lines.append(
                f"| {their.cell.row}, {their.cell.column} | {their.theirs.mean:.3f} | "
                f"{_said(their)} | {_said(own_)} |"
            )
    met = [sum(not pair[k].missed for pair in both) for k in (0, 1)]
    lines += [
        "",
        f"Of {len(both)} cells that were trained with both, {met[1]} are reproduced "
        f"with the authors' cohorts and {met[0]} with ours.",
    ]
    return "\n".join(lines)


def _said(one: judging.Judged) -> str:
    return f"{one.mean:.3f}" + ("" if one.missed else " =")


if __name__ == "__main__":
    print(table())
