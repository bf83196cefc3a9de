"""Cells that are off: what they went through, and what was tried on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from troth.reproduce import judging, tables
from troth.reproduce.entry import Entry
from troth.reproduce.tried import tried


def off(entry: Entry, found: Sequence[judging.Judged], root: Path) -> Iterator[str]:
    """Every judged cell that is off, on its way, and with one thing changed.

    Args:
        entry: whose cells they are.
        found: cells with their results.
        root: the folder of experiments.
    """
    known = [one for one in found if one.missed]
    if not known:
        return
    draws = judging.swings(found)
    yield (
        f"Cells that are off: {len(known)}; in {len(draws)} of them ours would be "
        "reproduced after some look in the last fifth of the rounds, so that the last "
        "is a draw. *Late*: ours in that fifth. *Inside*: after how many of the looks "
        "on the way it would be reproduced, and the last of them. *Tried*: ours with "
        "one thing changed; = is reproduced:\n"
    )
    rows = []
    for one in known:
        assert one.theirs is not None
        name = f"{one.cell.row}, {one.cell.column}"
        changes = "; ".join(each.words for each in tried(entry, one.cell, root))
        numbers = [tables.number(one.mean), tables.number(one.theirs.mean)]
        said = "a draw" if one in draws else ""
        rows.append([name, *numbers, tables.late(one), _inside(one), said, changes])
    heads = ["ours", "theirs", "late", "inside", "", "tried"]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    yield "\n".join(tables.grid(heads, rows)) + "\n"


def _inside(one: judging.Judged) -> str:
    """After how many looks it would be reproduced, and the last few of them."""
    if not one.way:
        return ""
    looks = judging.inside(one)
    last = ", ".join(f"{r:,}" for r in looks[-3:])
    more = "…, " if len(looks) > 3 else ""
    return tables.looks(one) + (f": {more}{last}" if looks else "")


def readings(found: Sequence[judging.Judged]) -> Iterator[str]:
    """How many cells of a row would be reproduced after fewer rounds."""
    known = judging.looked_at(found)
    far = dict.fromkeys(one.cell.row for one in known if one.missed)
    parts = {row: [one for one in known if one.cell.row == row] for row in far}
    rows: list[list[str]] = []
    for whose in ("shared", "personal"):
        models = [one for one in known if one.cell.whose[0] == whose]
        if 0 < len(models) < len(known):
            parts[f"all {whose} models"] = models
    for name, own in (parts | {"all that were looked at": known}).items():
        if not (read := judging.readings(own)):  # they were looked at differently
            continue
        last, most = read[max(read)], max(read.values())
        best = [f"{r:,}" for r, good in read.items() if good == most]
        when = ", ".join(best[:4]) + (", …" if len(best) > 4 else "")
        then = sorted({*read.values()} - {most}, reverse=True)[:3]
        after = ", ".join(map(str, then))
        rows.append([name, str(len(own)), str(last), str(most), when, after])
    if len(rows) < 2:
        return
    yield (
        "Of what a row has of cells that were looked at on the way, so many are "
        "reproduced if ours are read after the last round, and after the rounds at "
        "which most are. Those rounds were found afterwards, as the best of all looks, "
        "so that some of what they gain is luck; *then*: what the next best have:\n"
    )
    heads = ["cells", "after the last round", "at most", "after", "then"]
    yield "\n".join(tables.grid(heads, rows)) + "\n"
