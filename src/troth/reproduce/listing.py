"""All entries, and one by name."""

from __future__ import annotations

import difflib
import importlib
import re
from functools import cache

from troth.reproduce.entry import Entry
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
    number = re.search(r"\d+$", entry.name)
    assert number is not None
    return "figure" in entry.name, int(number[0])


def find(name: str) -> Entry:
    """The entry of this name.

    Raises:
        Refusal: there is none; says which are nearest.
    """
    every = entries()
    if name in every:
        return every[name]
    plain = name.strip().lower()
    close = [other for other in every if other.startswith(f"{plain}/")][:3]
    close = close or difflib.get_close_matches(plain, every, n=3, cutoff=0.5)
    hint = f"; the nearest are {', '.join(close)}" if close else ""
    raise Refusal(
        f"there is no table or figure '{name}'{hint}; troth reproduce lists all of them"
    )
