"""The numbers that the papers print, from one JSON file per paper."""

import re
from functools import cache
from typing import Any, NamedTuple

from troth.reproduce.settings import packaged

PAPERS = ("ditto", "fmtl", "spurious", "certified", "equivalence")
_PRINTED = re.compile(r"(\d?\.\d+)(?: \((\.\d+)\))?")


class Value(NamedTuple):
    """A number that a paper prints in a table."""

    mean: float
    std: float | None  # standard deviation over clients; None if not printed


class Part(NamedTuple):
    """The part of a table about one data set."""

    data: str  # name of the data set in the paper
    columns: tuple[str, ...]
    rows: dict[str, tuple[Value | None, ...]]  # None: not printed

    def at(self, row: str, column: str) -> Value | None:
        """Return the value of a table cell; None if the paper does not print it."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


class Printed(NamedTuple):
    """A table of a paper."""

    where: str  # its number and section
    parts: tuple[Part, ...]


@cache
def read(paper: str) -> dict[str, Any]:
    """Read the file of a paper: its title, its entries and its printed tables."""
    return packaged(paper)


@cache
def table(paper: str, name: str) -> Printed:
    """Return a table of a paper by its name."""
    found = read(paper)["tables"][name]
    return Printed(found["where"], tuple(map(_part, found["parts"])))


def _part(found: dict[str, Any]) -> Part:
    rows = {name: tuple(map(value, cells)) for name, cells in found["rows"].items()}
    return Part(found["data"], tuple(found["columns"]), rows)


def value(printed: str) -> Value | None:
    """Read a printed number; return None if it is no number.

    Example:
        >>> value("0.911 (.08)"), value("N/A")
        (Value(mean=0.911, std=0.08), None)
    """
    found = _PRINTED.fullmatch(printed)
    if found is None:
        return None
    return Value(float(found[1]), float(found[2]) if found[2] else None)
