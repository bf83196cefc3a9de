"""Written explanations of cells that are not reproduced, with computed numbers."""

import json
import re
from pathlib import Path
from typing import Any

import misses

from troth.reproduce import judging, tables
from troth.reproduce.kept import COMMITTED, Shelf
from troth.reproduce.listing import find

FILE, TIMES = "notes.json", "device.json"
HOLDS = ("holds", "holds in part", "too small to tell", "does not hold")
"""The verdicts on an entry for which the paper prints no numbers."""
_NUMBER = re.compile(
    r"\{((?P<what>theirs|looks|late) )?((?P<entry>\w+/\w+): )?"
    r"(?P<row>[^{}]+?) / (?P<column>[^{}@]+?)( @ (?P<round>\d+))?\}"
)
_DEVICE = re.compile(r"\{device (?P<what>runs|seconds), (?P<of>[^{}]+)\}")


Notes = dict[str, dict[str, str]]
"""Entry → what of it → why."""


def read(root: Path) -> Notes:
    """Return all texts, as written."""
    found: Notes = _json(root, FILE)
    return found


def _json(root: Path, name: str) -> Any:
    file = root / COMMITTED / name
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def filled(text: str, name: str, shelf: Shelf, seeds: int) -> str:
    """Return a text with its numbers filled in.

    `{global / A3 20%}` is our number of that cell, `{global / A3 20% @ 2900}` the
    number after this round, and `{theirs global / A3 20%}` the paper's. `{late …}` is
    the range of ours in the last fifth of the rounds. `{looks …}` is the number of
    evaluations after which the cell would be reproduced. The name of another entry may
    come first (`{ditto/figure5: TERM, t=5 / clean}`). `{device seconds, first seeds}`
    adds up batches of `device.json`: the time of a device, and its number of runs.
    """

    def number(match: re.Match[str]) -> str:
        entry = find(match["entry"] or name)
        here = (match["row"], match["column"])
        if entry.cells is None:
            every = judging.of_script(entry, shelf.root) if shelf.root else []
            one = next(o for o in every if (o.cell.row, o.cell.column) == here)
        else:
            cell = next(c for c in entry.everywhere() if (c.row, c.column) == here)
            (one,) = judging.table(entry, [cell], shelf, seeds)
        return _said(one, match["what"] or "", int(match["round"] or 0))

    def device(match: re.Match[str]) -> str:
        every = _json(shelf.root, TIMES).get("batches", []) if shelf.root else []
        own = [one[match["what"]] for one in every if one["what"] == match["of"]]
        return f"{sum(own):,}" if own else "(not run)"

    return _NUMBER.sub(number, _DEVICE.sub(device, text))


def _said(one: judging.Judged, what: str, after: int) -> str:
    """Return a number of a cell, as the page has it."""
    if what == "theirs":
        assert one.theirs is not None
        return tables.number(one.theirs.mean)
    if not one.seeds:
        return "(not run)"
    if what == "looks":
        return misses.looks(one)
    if what == "late":
        return misses.late(one)
    return tables.number(one.way[after] if after else one.mean)
