"""The list of all entries (tables and figures), from one JSON file per paper."""

import difflib
import re
from functools import cache, partial
from typing import Any

from troth.reproduce import papers, rows, scripts
from troth.reproduce.entry import Entry, folded
from troth.reproduce.settings import SETTINGS, WORDS
from troth.types import Refusal


@cache
def entries() -> dict[str, Entry]:
    """Return name → entry, in the order of the papers."""
    return {
        f"{paper}/{name}": _entry(paper, name, source)
        for paper in papers.PAPERS
        for name, source in sorted(papers.read(paper)["entries"].items(), key=_order)
    }


def _entry(paper: str, name: str, source: dict[str, Any]) -> Entry:
    """Return an entry from its description in the file of a paper."""
    found: dict[str, Any] = {
        field: tuple(value) if isinstance(value, list) else value
        for field, value in source.items()
    }
    if "settings" in source:
        found["settings"] = tuple(SETTINGS[one] for one in source["settings"])
    if "cells" in source:
        make = dict(source["cells"])
        names = found.get("points", (name,))
        by = getattr(rows, make.pop("by"))
        found["cells"] = partial(by, paper, names, **make)
    if "numbers" in source:
        found["numbers"] = getattr(scripts, source["numbers"])
    words = WORDS | papers.read(paper).get("words", {})
    while (filled := found.get("note", "").format(**words)) != found.get("note", ""):
        found["note"] = filled
    return Entry(f"{paper}/{name}", **found)


def _order(named: tuple[str, object]) -> tuple[bool, int]:
    return "figure" in named[0], _number(named[0])


def find(name: str) -> Entry:
    """Return the entry with a name; raise Refusal if there is none."""
    every = entries()
    if folded(name) in every:
        return every[folded(name)]
    close = _nearest(folded(name).lower())
    hint = f"; the nearest are {', '.join(close)}" if close else ""
    raise Refusal(
        f"there is no table or figure '{name}'{hint}; troth reproduce lists all of them"
    )


def _nearest(name: str) -> list[str]:
    """Return the names of entries that are similar to an unknown name.

    If it is the name of a paper, they are all entries of the paper.
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
