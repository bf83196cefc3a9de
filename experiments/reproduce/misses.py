"""Cells that are off: what they went through, and runs with one thing changed.

Records of such runs are in the table of the experiments that belong to an entry, each
with its `change`; the script beside the table says what that is.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from troth.reproduce import judging, kept, store, tables
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.settings import TEXTS

HOMES = {"ditto/table8": "fashion_ditto"}
"""Entry → the folder below experiments/ that has its changes."""


class Tried(NamedTuple):
    """A cell with one thing changed."""

    change: str
    rounds: int  # of so many, where these are not the entry's; else 0
    one: judging.Judged

    @property
    def met(self) -> bool:
        """Whether it is reproduced after its last round."""
        return self.one.verdict == "reproduced"

    @property
    def words(self) -> str:
        """In a line, for a table."""
        text = f"{self.change}, {self.rounds:,} rounds" if self.rounds else self.change
        text += f": {tables.number(self.one.mean)}"
        if self.met:
            return f"{text} ="
        of = f" (inside after {looks(self.one)} looks)"
        return text + of if inside(self.one) else text


def tried(entry: Entry, cell: Cell, root: Path) -> list[Tried]:
    """Every change of a cell that was trained, by name."""
    home, found = HOMES.get(entry.name), list[Tried]()
    pattern = f"*/{cell.row}, {cell.column}, seed 0~*"
    for record in store.named(root, f"{home}/{pattern}") if home else []:
        one = judging.judge(entry, cell, [kept.Result(record)])
        rounds = int(record["experiment"]["train"]["rounds"])
        fewer = rounds != cell.choices[0]["train"]["rounds"]
        found.append(Tried(record["change"], rounds if fewer else 0, one))
    return found


def off(entry: Entry, found: Sequence[judging.Judged], root: Path) -> Iterator[str]:
    """Every judged cell that is off, on its way, and with one thing changed."""
    known = [one for one in found if one.missed]
    if not known:
        return
    draws = swings(found)
    yield TEXTS["off"].format(off=len(known), draws=len(draws))
    rows = []
    for one in known:
        assert one.theirs is not None
        name = f"{one.cell.row}, {one.cell.column}"
        changes = "; ".join(each.words for each in tried(entry, one.cell, root))
        numbers = [tables.number(one.mean), tables.number(one.theirs.mean)]
        draw = "a draw" if one in draws else ""
        rows.append([name, *numbers, late(one), _inside(one), draw, changes])
    heads = ["ours", "theirs", "late", "inside", "", "tried"]
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    yield "\n".join(tables.grid(heads, rows)) + "\n"


def _inside(one: judging.Judged) -> str:
    """After how many looks it would be reproduced, and the last few of them."""
    if not one.way:
        return ""
    rounds = inside(one)
    last = ", ".join(f"{r:,}" for r in rounds[-3:])
    more = "…, " if len(rounds) > 3 else ""
    return looks(one) + (f": {more}{last}" if rounds else "")


def readings(found: Sequence[judging.Judged]) -> Iterator[str]:
    """How many cells of a row would be reproduced after fewer rounds."""
    known = looked_at(found)
    far = dict.fromkeys(one.cell.row for one in known if one.missed)
    parts = {row: [one for one in known if one.cell.row == row] for row in far}
    rows: list[list[str]] = []
    for whose in ("shared", "personal"):
        models = [one for one in known if one.cell.whose[0] == whose]
        if 0 < len(models) < len(known):
            parts[f"all {whose} models"] = models
    for name, own in (parts | {"all that were looked at": known}).items():
        if not (read := by_round(own)):  # they were looked at differently
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
    """Between what ours was in the last fifth of the rounds; "" where not known."""
    return " to ".join(map(tables.number, one.late)) if one.late else ""


def looks(one: judging.Judged) -> str:
    """After how many of the looks on the way a judged cell would be reproduced."""
    return f"{len(inside(one))} of {len(one.way)}"


def inside(one: judging.Judged) -> list[int]:
    """The rounds on the way after which a judged cell would be reproduced."""
    assert one.theirs is not None
    off = {r: value - one.theirs.mean for r, value in one.way.items()}
    good = "reproduced"
    return [r for r, far in off.items() if judging.verdict(far, one.error) == good]


def looked_at(judged: Sequence[judging.Judged]) -> list[judging.Judged]:
    """Cells that were judged, and looked at on the way."""
    return [one for one in judged if one.verdict in judging.JUDGED and one.way]


def swings(judged: Sequence[judging.Judged]) -> list[judging.Judged]:
    """Misses that would be reproduced after a look in the last fifth of the rounds."""
    return [
        one
        for one in judged
        if one.missed and max(inside(one), default=0) >= kept.late(one.way)
    ]


def by_round(judged: Sequence[judging.Judged]) -> dict[int, int]:
    """Round → how many judged cells are reproduced if ours are read after that one.

    Of cells that were looked at on the way, after rounds at which all of them were.
    """
    known = looked_at(judged)
    seen = Counter(r for one in known for r in one.way)
    good = Counter(r for one in known for r in inside(one))
    return {r: good[r] for r in sorted(seen) if seen[r] == len(known)}
