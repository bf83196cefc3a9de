"""Why we think that cells are off: texts by hand, their numbers from the results."""

from __future__ import annotations

import json
import re
from pathlib import Path

from troth.reproduce import judging, tables
from troth.reproduce.kept import COMMITTED, Shelf
from troth.reproduce.listing import find

FILE = "notes.json"
_NUMBER = re.compile(
    r"\{(?P<theirs>theirs )?((?P<entry>\w+/\w+): )?"
    r"(?P<row>[^{}]+?) / (?P<column>[^{}@]+?)( @ (?P<round>\d+))?\}"
)


Notes = dict[str, dict[str, str]]
"""Entry → what of it → why."""


def read(root: Path) -> Notes:
    """All of them, as written."""
    file = root / COMMITTED / FILE
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def filled(text: str, name: str, shelf: Shelf, seeds: int) -> str:
    """A text with its numbers.

    `{global / A3 20%}` is ours of that cell, `{global / A3 20% @ 2900}` what it was
    after so many rounds, `{theirs global / A3 20%}` the paper's; another entry's name
    may stand before the cell (`{ditto/figure5: TERM, t=5 / clean}`).

    Args:
        text: with cells in braces.
        name: of the entry whose cells they are, unless told.
        shelf: where results are looked for.
        seeds: how many of each.
    """

    def number(match: re.Match[str]) -> str:
        entry = find(match["entry"] or name)
        here = (match["row"], match["column"])
        cell = next(c for c in entry.everywhere() if (c.row, c.column) == here)
        (one,) = judging.table(entry, [cell], shelf, seeds)
        if match["theirs"]:
            assert one.theirs is not None
            return tables.number(one.theirs.mean)
        if not one.seeds:
            return "(not run)"
        after = match["round"]
        return tables.number(one.way[int(after)] if after else one.mean)

    return _NUMBER.sub(number, text)
