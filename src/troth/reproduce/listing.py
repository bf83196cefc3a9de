"""All entries, and one by name."""

from __future__ import annotations

import difflib
import importlib
import re
from functools import cache

from troth.reproduce.entry import Entry, folded
from troth.reproduce.papers import PAPERS
from troth.types import Refusal


@cache
def entries() -> dict[str, Entry]:
    """Every table and figure by name, in the order of the papers."""
    found: dict[str, Entry] = {}
    for paper in PAPERS:
        module = importlib.import_module(f"troth.reproduce.{paper}")
        for entry in sorted(module.ENTRIES, key=_order):
            found[entry.name] = entry
    return found


def _order(entry: Entry) -> tuple[bool, int]:
    return "figure" in entry.name, _number(entry.name)


def find(name: str) -> Entry:
    """The entry of this name.

    Raises:
        Refusal: there is none; says which are nearest.
    """
    every = entries()
    if folded(name) in every:
        return every[folded(name)]
    close = _nearest(folded(name).lower())
    hint = f"; the nearest are {', '.join(close)}" if close else ""
    raise Refusal(
        f"there is no table or figure '{name}'{hint}; troth reproduce lists all of them"
    )


def _nearest(name: str) -> list[str]:
    """All of a paper's where no other is named; those of the nearest numbers, or words.

    A figure is near to figures alone.
    """
    paper, _, rest = name.partition("/")
    own = [other for other in entries() if other.startswith(f"{paper}/")]
    if own and not rest:
        return own
    named = re.fullmatch(r"(table|figure)(\d+)", rest)
    same = [other for other in own if named and f"/{named[1]}" in other]
    if named and same:
        far = {other: abs(_number(other) - int(named[2])) for other in same}
        return sorted(same, key=lambda other: far[other])[
            : 1 if 0 in far.values() else 2
        ]
    return difflib.get_close_matches(name, entries(), n=3, cutoff=0.5)


def _number(name: str) -> int:
    found = re.search(r"\d+$", name)
    assert found is not None
    return int(found[0])
