"""Entries (tables and figures of the papers) and their cells (numbers or points).

A part of a table is about one data set. A federation has the data and the settings of
training. A setting is a federation of a paper, with a substitute if its data are not on
this machine.
"""

import dataclasses
import difflib
import json
import unicodedata
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from troth import lookup
from troth.config import reader
from troth.config.schema import Experiment
from troth.reproduce import papers
from troth.reproduce.settings import Federation, Scale, Setting, Tree
from troth.types import Refusal


@cache
def folded(text: str) -> str:
    """Normalize Unicode characters (NFKC) and spaces of a name, for comparisons."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


class Cell(NamedTuple):
    """One number of a table, or one point of a figure."""

    part: str  # the data set, as the paper names it
    row: str
    column: str
    choices: tuple[
        Tree, ...
    ]  # experiments; the one with the best validation accuracy counts
    federation: Federation
    kept: tuple[str, ...] = ()  # for each choice, FOLDER/NAME of a committed result
    whose: tuple[str, ...] = ("personal",)  # path of keys in the run's summary
    metric: str = "weighted"  # statistic over clients
    stands: tuple[str, str] = ("", "")  # part and row in the paper, if different

    @property
    def label(self) -> str:
        """The name of the cell, which is unique in its entry."""
        return f"{self.part}: {self.row} / {self.column}"

    @property
    def ours(self) -> str:
        """The name of the cell with the name of our data, which may be a substitute."""
        name = self.federation.name.partition(" (")[0]
        return f"{name}: {self.row} / {self.column}"

    @property
    def printed(self) -> tuple[str, str]:
        """Part and row in the paper with whose number the cell is compared."""
        return self.stands if any(self.stands) else (self.part, self.row)

    def fits(self, pattern: str) -> bool:
        """Return whether a pattern matches the label, the row, column or part."""
        names = (self.label, f"{self.row} / {self.column}")
        return any(
            fnmatchcase(folded(name), folded(pattern))
            for name in (*names, self.row, self.column, self.part)
        )


Pick = Callable[[Setting], Federation]
"""Function from a setting to its federation: the original, a substitute or a small one.
"""


class Entry(NamedTuple):
    """A table or figure of a paper."""

    name: str  # such as ditto/table8
    title: str
    settings: tuple[Setting, ...] = ()
    cells: Callable[[Pick], list[Cell]] | None = None
    script: tuple[str, ...] = ()  # file in experiments/, and its arguments
    results: tuple[str, ...] = ()  # records of the script: FOLDER/NAME, * is any text
    form: Literal["table", "lines", "scatter"] = "table"
    shows: tuple[str, ...] = ()  # numbers and curves to show; empty: all
    over: tuple[str, str] = ("", "")  # name of the x axis; pattern of x in labels
    note: str = ""  # what is missing, or differs from the paper
    points: tuple[str, ...] = ()  # tables that have the printed numbers of a figure
    data: tuple[str, ...] = ()  # names of the data sets that a script needs
    work: tuple[int, float] = (0, 0.0)  # cost: client-steps; seconds on two cores
    numbers: Callable[[Path], dict[tuple[str, str, str], list[float]]] | None = None
    # folder experiments/ → (part, row, column) → our numbers, one per seed
    own: str = ""  # description of our data in `numbers`

    @property
    def paper(self) -> str:
        """The name of the paper, which is the first part of the entry's name."""
        return self.name.partition("/")[0]

    @property
    def printed(self) -> papers.Printed | None:
        """The numbers that the paper prints; None if there are none."""
        names = self.points or (self.name.partition("/")[2],)
        known = papers.read(self.paper)["tables"]
        tables = [papers.table(self.paper, name) for name in names if name in known]
        if not tables:
            return None
        parts = tuple(part for table in tables for part in table.parts)
        return papers.Printed("; ".join(table.where for table in tables), parts)

    def at(
        self,
        scale: Scale,
        data_dir: str | None = None,
        patterns: Sequence[str] = (),
        needed: bool = True,
    ) -> list[Cell]:
        """Return the cells, with substitutes for data that are not on this machine.

        Args:
            scale: "full" or "small".
            data_dir: Folder to search first for data.
            patterns: Patterns of the cells to return; empty: all cells.
            needed: Whether to raise Refusal if a cell has neither data nor a
                substitute.
        """
        lacking: dict[str, Refusal] = {}

        def pick(setting: Setting) -> Federation:
            try:
                return setting.choose(scale, data_dir)
            except Refusal as refusal:
                if not needed:
                    return setting.stand_in or setting.original
                lacking[setting.original.name] = refusal
                return setting.original

        cells = chosen(self, self.cells(pick) if self.cells else [], patterns)
        for cell in cells:
            if cell.federation.name in lacking:
                raise lacking[cell.federation.name]
        return cells

    def everywhere(self) -> list[Cell]:
        """Return all cells; with substitute data also where the original data exist."""
        if self.cells is None:
            return []
        return self.cells(lambda setting: setting.stand_in or setting.original)

    def theirs(self, cell: Cell) -> papers.Value | None:
        """Return the paper's number for a cell; None if there is none."""
        part, row = cell.printed
        parts = self.printed.parts if self.printed else ()
        own = (one.at(row, cell.column) for one in parts if one.data == part)
        return next(own, None)


def chosen(entry: Entry, cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """Return the cells that match one of the patterns; without patterns, all cells.

    Raise Refusal if a pattern matches no cell.
    """
    for pattern in patterns:
        if not any(cell.fits(pattern) for cell in cells):
            rows = list(dict.fromkeys(cell.row for cell in cells))
            columns = list(dict.fromkeys(cell.column for cell in cells))
            hint = _nearest(folded(pattern), rows, columns)
            hint = hint or lookup.nearest(pattern, (cell.label for cell in cells))
            raise Refusal(
                f"{entry.name} has no cell '{pattern}'{hint}; give 'ROW / COLUMN', a "
                f"row or a column, where * matches any text; rows: {'; '.join(rows)}; "
                f"columns: {'; '.join(columns)}"
            )
    return [c for c in cells if not patterns or any(c.fits(p) for p in patterns)]


def _nearest(pattern: str, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Return a hint with the most similar row, column, or both; "" if there is none."""
    row, both, column = pattern.rpartition(" / ")
    if not both:
        return lookup.nearest(pattern, [*rows, *columns])
    close = [
        difflib.get_close_matches(word, words, n=1, cutoff=0.5)
        for word, words in ((row.rpartition(": ")[2], rows), (column, columns))
    ]
    if not all(close):
        return ""
    return f" (did you mean '{' / '.join(found[0] for found in close)}'?)"


def experiment(tree: Tree, seed: int) -> Experiment:
    """Return the checked experiment of a cell."""
    return _made(json.dumps(tree, sort_keys=True), seed)[0]


def key(tree: Tree, seed: int) -> str:
    """Return the fingerprint of a run, which identifies its result."""
    return _made(json.dumps(tree, sort_keys=True), seed)[1]


@cache
def _checked(text: str) -> Experiment:
    return reader.from_dict(json.loads(text))


@cache
def _made(text: str, seed: int) -> tuple[Experiment, str]:
    e = dataclasses.replace(_checked(text), seed=seed)
    return e, reader.fingerprint(e)


def merged(base: Tree, changes: Tree) -> Tree:
    """Return an experiment with changes: sections are merged, other values replaced."""
    tree = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(tree.get(key), dict)
        tree[key] = merged(tree[key], value) if both else value
    return tree
