"""Cells that are not reproduced: their course, and runs with one setting changed.

Records of such runs are in the table of the experiments that belong to an entry. Each
has its `change`, which the script next to the table describes.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from troth.reproduce import judging, kept, store, tables
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.settings import TEXTS

HOMES = {"ditto/table8": "fashion_ditto"}
"""Entry → the folder of experiments/ that holds its changed runs."""


class Tried(NamedTuple):
    """A cell with one setting changed."""

    change: str
    rounds: int  # number of rounds if it is not that of the entry; otherwise 0
    one: judging.Judged

    @property
    def met(self) -> bool:
        """Whether the cell is reproduced after its last round."""
        return self.one.verdict == "reproduced"

    @property
    def words(self) -> str:
        """The change and its result, for a table."""
        text = f"{self.change}, {self.rounds:,} rounds" if self.rounds else self.change
        text += f": {tables.number(self.one.mean)}"
        if self.met:
            return f"{text} ="
        of = f" (inside after {looks(self.one)} looks)"
        return text + of if self.one.inside else text


def tried(entry: Entry, cell: Cell, root: Path) -> list[Tried]:
    """Return every changed run of a cell, by the name of the change.

    Of a cell with several candidates, such as FedMGDA+'s ε, the best on test data is
    returned, as the authors choose.
    """
    home, found = HOMES.get(entry.name), dict[tuple[str, int], Tried]()
    pattern = f"*/{cell.row}, {cell.column}*, seed 0~*"
    for record in store.named(root, f"{home}/{pattern}") if home else []:
        one = judging.judge(entry, cell, [kept.Result(record)])
        rounds = int(record["experiment"]["train"]["rounds"])
        fewer = rounds != cell.choices[0]["train"]["rounds"]
        new = Tried(record["change"], rounds if fewer else 0, one)
        old = found.get(new[:2])
        if old is None or one.mean > old.one.mean:
            found[new[:2]] = new
    return [*found.values()]


def off(entry: Entry, found: Sequence[judging.Judged], root: Path) -> Iterator[str]:
    """List the cells that are not reproduced, then the reproduced ones that are draws.

    Args:
        entry: The table or figure.
        found: Its cells.
        root: The folder of experiments.
    """
    known = [one for one in found if one.missed]
    if known:
        draws = sum(one.draw for one in known)
        yield TEXTS["off"].format(off=len(known), draws=draws)
        yield _table(entry, known, root)
    good = [one for one in found if one.verdict == "reproduced" and one.way]
    draws_ = [one for one in good if one.draw]
    if draws_:
        each = (
            f"{one.cell.row}, {one.cell.column} ({_outside(one)})" for one in draws_
        )
        facts = {"draws": len(draws_), "good": len(good), "cells": "; ".join(each)}
        yield TEXTS["steady"].format(**facts)


def _table(entry: Entry, known: Sequence[judging.Judged], root: Path) -> str:
    rows = []
    for one in known:
        assert one.theirs is not None
        name = f"{one.cell.row}, {one.cell.column}"
        changes = "; ".join(each.words for each in tried(entry, one.cell, root))
        numbers = [tables.number(one.mean), tables.number(one.theirs.mean)]
        draw = "a draw" if one.draw else ""
        rows.append([name, *numbers, late(one), _inside(one), draw, changes])
    heads = ["ours", "the paper", "late", "inside", "", "tried"]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    return "\n".join(tables.grid(heads, rows)) + "\n"


def _inside(one: judging.Judged) -> str:
    """Write after how many evaluations a cell is reproduced, and the last of them."""
    if not one.way:
        return ""
    last = ", ".join(f"{r:,}" for r in one.inside[-3:])
    more = "…, " if len(one.inside) > 3 else ""
    return looks(one) + (f": {more}{last}" if last else "")


def _outside(one: judging.Judged) -> str:
    """Write after how many evaluations of the last fifth a cell is missed."""
    last = {r for r in one.way if r >= kept.late(one.way)}
    return f"{len(last - {*one.inside})} of {len(last)}"


def readings(found: Sequence[judging.Judged]) -> Iterator[str]:
    """Count the cells of each row that would be reproduced after fewer rounds."""
    known = looked_at(found)
    far = dict.fromkeys(one.cell.row for one in known if one.missed)
    parts = {row: [one for one in known if one.cell.row == row] for row in far}
    rows: list[list[str]] = []
    for whose in ("shared", "personal"):
        models = [one for one in known if one.cell.whose[0] == whose]
        if 0 < len(models) < len(known):
            parts[f"all {whose} models"] = models
    for name, own in (parts | {"all evaluated during training": known}).items():
        if not (read := by_round(own)):  # evaluated after different rounds
            continue
        last, most = read[max(read)], max(read.values())
        best = [f"{r:,}" for r, good in read.items() if good == most]
        when = ", ".join(best[:4]) + (", …" if len(best) > 4 else "")
        then = sorted({*read.values()} - {most}, reverse=True)[:3]
        after = ", ".join(map(str, then))
        rows.append([name, str(len(own)), str(last), str(most), when, after])
    if len(rows) < 2:
        return
    yield TEXTS["readings"]
    heads = ["cells", "after the last round", "at most", "after", "then"]
    yield "\n".join(tables.grid(heads, rows)) + "\n"


def late(one: judging.Judged) -> str:
    """Write the range of our mean in the last fifth of the rounds; "" if unknown."""
    return " to ".join(map(tables.number, one.late)) if one.late else ""


def looks(one: judging.Judged) -> str:
    """Write after how many of its evaluations a cell would be reproduced."""
    return f"{len(one.inside)} of {len(one.way)}"


def looked_at(judged: Sequence[judging.Judged]) -> list[judging.Judged]:
    """Return the judged cells that were evaluated during training."""
    return [one for one in judged if one.judged and one.way]


def by_round(judged: Sequence[judging.Judged]) -> dict[int, int]:
    """Count the reproduced cells if means are read after a round: round → count.

    Only rounds after which all cells were evaluated are counted.
    """
    known = looked_at(judged)
    seen = Counter(r for one in known for r in one.way)
    good = Counter(r for one in known for r in one.inside)
    return {r: good[r] for r in sorted(seen) if seen[r] == len(known)}
