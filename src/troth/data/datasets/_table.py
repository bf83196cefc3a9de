"""A table of texts and numbers from a CSV file, column by column.

Python's own reader is used, in blocks of rows: it never guesses a type, so that "007",
"NA" and 2⁵³ + 1 stay what they are, and what is wrong can be said with its line. (It
needs a few microseconds a row of 20 values, some four times as long as pandas.)
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from troth.types import Refusal

_BLOCK = 512  # rows converted at a time: more fill the caches and stir the collector
_SHORT = 40  # characters of a text that a refusal repeats
_GZIP = b"\x1f\x8b"


def number(text: str) -> float | None:
    """The number that a text is; None: it is none."""
    try:
        return None if "_" in text else float(text)  # Python reads 1_0 as 10
    except ValueError:
        return None


def shown(text: str) -> str:
    """A text of a user's file as one short line."""
    plain = (c if c.isprintable() else repr(c)[1:-1] for c in text[:_SHORT])
    return "".join(plain) + "…" * (len(text) > _SHORT)


class Column:
    """One column while it is read: numbers, or texts, numbered as they come.

    Args:
        path: the file, for refusals.
        name: the column.
        missing: texts that stand for no value.
        text: whether its values are texts even where they look like numbers.
    """

    def __init__(
        self, path: str, name: str, missing: Sequence[str], text: bool = False
    ) -> None:
        self.path, self.name, self.missing = path, name, frozenset(missing)
        self.shown = shown(name)
        self.kind = "text" if text else ""  # "": no value seen yet
        self.texts: dict[str, int] = {}  # text → its number
        self.lines: list[int] = []  # where each text was first seen
        self._codes = dict.fromkeys(missing, -1)  # as written → number of its text
        self._pieces: list[np.ndarray] = []

    def add(self, values: Sequence[str], lines: Sequence[int]) -> None:
        """Take in the next rows."""
        if not self.kind:
            there = (v for v in map(str.strip, values) if v not in self.missing)
            if first := next(there, None):
                self.kind = "text" if number(first) is None else "number"
        piece = np.full(len(values), np.nan, np.float32)
        if self.kind == "number":
            piece = self._numbers(values, lines)
        elif self.kind == "text":
            piece = self._texts(values, lines)
        self._pieces.append(piece)

    def _numbers(self, values: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        texts = list(map(str.strip, values))
        there, given = np.ones(len(texts), bool), texts
        if not self.missing.isdisjoint(texts):
            there = np.array([text not in self.missing for text in texts])
            given = list(itertools.compress(texts, there))
        found = np.full(len(texts), np.nan)
        try:
            if "_" in "".join(given):  # Python reads 1_0 as 10
                raise ValueError
            found[there] = np.fromiter(map(float, given), np.float64, len(given))
        except ValueError:
            bad = [
                yes and number(text) is None
                for text, yes in zip(texts, there, strict=True)
            ]
            self.mixed(texts[bad.index(True)], lines[bad.index(True)], "numbers")
        with np.errstate(over="ignore"):
            short = found.astype(np.float32)
        if (wrong := there & ~np.isfinite(short)).any():
            at = int(wrong.argmax())
            raise Refusal(
                f"{self.path}: column '{self.shown}' holds '{shown(texts[at])}' in "
                f"line {lines[at]}, which is no finite number of 32 bits: correct it, "
                "or add it to data.missing"
            )
        return short

    def mixed(self, text: str, line: int, others: str) -> NoReturn:
        """Refuse a column of numbers and texts."""
        raise Refusal(
            f"{self.path}: column '{self.shown}' holds {others} and, in line {line}, "
            f"'{shown(text)}': correct it, add it to data.missing, or add the column "
            "to data.categorical (its values are names) or to data.drop"
        )

    def _texts(self, values: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        codes = self._codes
        for value, line in zip(values, lines, strict=True):
            if value not in codes:
                codes[value] = self._code(value.strip(), line)
        return np.fromiter(map(codes.__getitem__, values), np.int64, len(values))

    def _code(self, text: str, line: int) -> int:
        if text in self.missing:
            return -1
        if text not in self.texts:
            self.texts[text] = len(self.lines)
            self.lines.append(line)
        return self.texts[text]

    def numbers(self) -> np.ndarray:
        """[m] float32, NaN where a value is missing."""
        return np.concatenate(self._pieces)

    def codes(self) -> np.ndarray:
        """[m] int64, the number of each text, −1 where a value is missing."""
        if not self.kind:
            return np.full(sum(map(len, self._pieces)), -1)
        gaps = (np.where(np.isnan(p), -1, p).astype(np.int64) for p in self._pieces)
        return np.concatenate(list(gaps))


class Table(NamedTuple):
    """What was read: the columns that were asked for, and where each row stood."""

    columns: dict[str, Column]
    line: np.ndarray  # [m] int64


def read(
    path: str,
    delimiter: str,
    names: Sequence[str],
    plan: Callable[[list[str]], dict[str, Column]],
) -> Table:
    """Read a table.

    Args:
        path: a text file in UTF-8, or such a file in gzip.
        delimiter: what stands between values.
        names: of all columns, where the file has no line of names.
        plan: header → the columns that are wanted.

    Raises:
        Refusal: it cannot be read; says which line and why.
    """
    place = os.path.expanduser(path)
    if not os.path.isfile(place):
        raise Refusal(
            f"there is no file '{path}' (seen from {os.getcwd()}): set data.path to a "
            "CSV file"
        )
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Refusal(
            f"data.delimiter = {delimiter!r} must be one character, such as ',' or ';' "
            "or '\\t'"
        )
    try:
        with _open(place) as raw:
            file = io.TextIOWrapper(raw, "utf-8-sig", newline="")
            return _columns(path, _rows(path, file, delimiter), names, plan)
    except UnicodeDecodeError:
        raise Refusal(
            f"{path} is not a text in UTF-8 (line {_undecodable(place)} is not): save "
            "it as UTF-8, or as CSV if it is a spreadsheet"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(
            f"{path} cannot be read ({error}): write it again, as plain or gzipped text"
        ) from None


def _open(place: str) -> IO[bytes]:
    with open(place, "rb") as file:
        packed = file.read(2) == _GZIP
    return gzip.open(place, "rb") if packed else open(place, "rb")  # type: ignore[return-value]


def _undecodable(place: str) -> int:
    """The first line that is not UTF-8."""

    def fine(line: bytes) -> bool:
        try:
            line.decode()
        except UnicodeDecodeError:
            return False
        return True

    with _open(place) as raw:
        return next(i for i, line in enumerate(raw, 1) if not fine(line))


def _rows(
    path: str, file: io.TextIOWrapper, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """(line it begins in, values) of every row that is not blank."""
    reader = csv.reader(
        file, delimiter=delimiter, strict=True, skipinitialspace=delimiter != " "
    )
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise Refusal(
            f"{path}: the row that begins in line {line} cannot be read ({error}): "
            'close its quotation marks, and write one inside a text as ""'
        ) from None


def _columns(
    path: str,
    rows: Iterator[tuple[int, list[str]]],
    names: Sequence[str],
    plan: Callable[[list[str]], dict[str, Column]],
) -> Table:
    line, first = next(rows, (0, []))
    if not line:
        raise Refusal(f"{path} is empty: it needs a line of names and a line a row")
    header = [value.strip() for value in first]
    if names:
        if header == list(names):
            raise Refusal(
                f"{path}: line {line} is the names that data.columns gives: leave "
                "data.columns out, for the file has them"
            )
        rows, header = itertools.chain([(line, first)], rows), list(names)
    wanted = plan(header)
    taken = [(i, wanted[name]) for i, name in enumerate(header) if name in wanted]
    lines: list[int] = []
    while block := list(itertools.islice(rows, _BLOCK)):
        for at, row in block:
            if len(row) != len(header):
                raise Refusal(
                    f"{path}: line {at} holds {len(row)} values and there are "
                    f"{len(header)} columns: correct it (a text with a delimiter in "
                    'it stands in quotation marks, "a, b")'
                )
        here = [at for at, _ in block]
        values: list[Any] = list(zip(*(row for _, row in block), strict=True))
        for i, column in taken:
            column.add(values[i], here)
        lines += here
    if not lines:
        raise Refusal(f"{path} holds names and no rows: add a line an example")
    return Table(wanted, np.array(lines))
