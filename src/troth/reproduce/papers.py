"""The papers' own numbers as printed, from one file per paper."""

import re
from functools import cache
from typing import Any, NamedTuple

from troth.reproduce.settings import packaged

PAPERS = ("ditto", "fmtl", "spurious", "certified", "equivalence")
_PRINTED = re.compile(r"(\d?\.\d+)(?: \((\.\d+)\))?")


class Value(NamedTuple):
    """A number of a table."""

    mean: float
    std: float | None  # over clients, where it is printed


class Part(NamedTuple):
    """The rows of a table about one data set."""

    data: str  # as the paper names it
    columns: tuple[str, ...]
    rows: dict[str, tuple[Value | None, ...]]  # None where the paper has none

    def at(self, row: str, column: str) -> Value | None:
        """Return what is printed there; None where nothing is."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


class Printed(NamedTuple):
    """A table of a paper."""

    where: str  # table and section
    parts: tuple[Part, ...]


@cache
def read(paper: str) -> dict[str, Any]:
    """Read the file of a paper: its title, its entries, and the tables as printed."""
    return packaged(paper)


@cache
def table(paper: str, name: str) -> Printed:
    """Return a table that the paper prints, with its numbers."""
    found = read(paper)["tables"][name]
    return Printed(found["where"], tuple(map(_part, found["parts"])))


def _part(found: dict[str, Any]) -> Part:
    rows = {name: tuple(map(value, cells)) for name, cells in found["rows"].items()}
    return Part(found["data"], tuple(found["columns"]), rows)


def value(printed: str) -> Value | None:
    """`0.911 (.08)` or `.852` as numbers; None for what is no number (N/A)."""
    found = _PRINTED.fullmatch(printed)
    if found is None:
        return None
    return Value(float(found[1]), float(found[2]) if found[2] else None)
