"""What an entry is: a table or figure of a paper, and the cells that make it."""

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
    """Return a name as it is compared: one of a letter's forms, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


class Cell(NamedTuple):
    """One number of a table, or one point of a figure."""

    part: str  # the data set, as the paper names it
    row: str
    column: str
    choices: tuple[Tree, ...]  # of several, data of benign clients choose
    federation: Federation
    kept: tuple[str, ...] = ()  # FOLDER/NAME of a committed result per choice
    whose: tuple[str, ...] = ("personal",)  # where in a summary its numbers stand
    metric: str = "weighted"
    stands: tuple[str, str] = ("", "")  # part and row of the paper's, if others

    @property
    def label(self) -> str:
        """A name that no other cell of its entry has."""
        return f"{self.part}: {self.row} / {self.column}"

    @property
    def ours(self) -> str:
        """The same by what is trained, which may stand in for the paper's data."""
        name = self.federation.name.partition(" (")[0]
        return f"{name}: {self.row} / {self.column}"

    def fits(self, pattern: str) -> bool:
        """Whether a pattern names it: its label, or its row, column or part alone."""
        names = (self.label, f"{self.row} / {self.column}")
        return any(
            fnmatchcase(folded(name), folded(pattern))
            for name in (*names, self.row, self.column, self.part)
        )


Pick = Callable[[Setting], Federation]
"""What a setting comes to at a scale, on this machine."""


class Entry(NamedTuple):
    """A table or figure of a paper."""

    name: str  # such as ditto/table8
    title: str
    settings: tuple[Setting, ...] = ()
    cells: Callable[[Pick], list[Cell]] | None = None
    script: tuple[str, ...] = ()  # below experiments/, with its arguments
    results: tuple[str, ...] = ()  # what the script leaves: FOLDER/NAME, * is anything
    form: Literal["table", "lines", "scatter"] = "table"
    shows: tuple[str, ...] = ()  # the numbers and curves it is about; else all
    over: tuple[str, str] = ("", "")  # over what numbers go, and where labels have it
    note: str = ""  # what of it cannot be had, or departs
    points: tuple[str, ...] = ()  # the tables whose printed numbers a figure shows
    data: tuple[str, ...] = ()  # what a script needs, by the data sets' names here
    work: tuple[int, float] = (0, 0.0)  # a script's client-steps, seconds on two cores
    numbers: Callable[[Path], dict[tuple[str, str, str], list[float]]] | None = None
    # of a script's results, below experiments/: (part, row, column) → ours, a seed each
    own: str = ""  # what those numbers are of

    @property
    def paper(self) -> str:
        """Its first part."""
        return self.name.partition("/")[0]

    @property
    def printed(self) -> papers.Printed | None:
        """What the paper prints of it."""
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
        """Its cells with the data that are here; all of them, or those of patterns.

        Data sets are looked for in `data_dir` first. Refuse a cell whose data are not
        here, if they are `needed`; else what stands in stands in.
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
        """Its cells whatever data are here: with what stands in, if anything does."""
        if self.cells is None:
            return []
        return self.cells(lambda setting: setting.stand_in or setting.original)

    def theirs(self, cell: Cell) -> papers.Value | None:
        """Return what the paper prints for a cell."""
        part, row = cell.stands if any(cell.stands) else (cell.part, cell.row)
        parts = self.printed.parts if self.printed else ()
        own = (one.at(row, cell.column) for one in parts if one.data == part)
        return next(own, None)


def chosen(entry: Entry, cells: Sequence[Cell], patterns: Sequence[str]) -> list[Cell]:
    """Return the cells that patterns name, else all; refuse one that names none."""
    for pattern in patterns:
        if not any(cell.fits(pattern) for cell in cells):
            rows = list(dict.fromkeys(cell.row for cell in cells))
            columns = list(dict.fromkeys(cell.column for cell in cells))
            hint = _nearest(folded(pattern), rows, columns)
            hint = hint or lookup.nearest(pattern, (cell.label for cell in cells))
            raise Refusal(
                f"{entry.name} has no cell '{pattern}'{hint}; a cell is 'ROW / COLUMN',"
                f" a row or a column, * standing for anything: rows {'; '.join(rows)}: "
                f"columns {'; '.join(columns)}"
            )
    return [c for c in cells if not patterns or any(c.fits(p) for p in patterns)]


def _nearest(pattern: str, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Return a hint: row and column apart, where both are given."""
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
    """Return a cell's experiment, checked."""
    return _made(json.dumps(tree, sort_keys=True), seed)[0]


def key(tree: Tree, seed: int) -> str:
    """Return what names a result: all that decides the numbers of a cell's run."""
    return _made(json.dumps(tree, sort_keys=True), seed)[1]


@cache
def _checked(text: str) -> Experiment:
    return reader.from_dict(json.loads(text))


@cache
def _made(text: str, seed: int) -> tuple[Experiment, str]:
    e = dataclasses.replace(_checked(text), seed=seed)
    return e, reader.fingerprint(e)


def merged(base: Tree, changes: Tree) -> Tree:
    """Return the base with some keys changed; sections are merged, others replaced."""
    tree = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(tree.get(key), dict)
        tree[key] = merged(tree[key], value) if both else value
    return tree
