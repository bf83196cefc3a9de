"""A user's table from a CSV file, and its columns as features, labels and owners.

Python's strict reader goes over the file first and knows the line in which every row
begins. pandas then reads the values as texts and guesses no types, so that "007", "NA"
and 2⁵³ + 1 stay what they are.
"""

import csv
import gzip
import math
import os
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from troth.types import Refusal

MISSING = ["", "?", "NA", "NaN", "nan", "null", "None"]
_SHORT = 40  # characters of a text that a refusal repeats
_GZIP = b"\x1f\x8b"
_MANY = 1000  # categories of a column, at most
_FEW = 20  # that many texts may all be different without being names of things
_CLASSES = 100  # different whole numbers that are taken for labels without asking
_LINES = 8  # lines that a refusal names
TRUTH = {"false": 0, "true": 1}
_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, **TRUTH}

Plan = Callable[[list[str]], Mapping[str, Collection[str]]]
"""Header → the columns that are wanted, each with the texts that stand for no value."""


def number(text: str) -> float | None:
    """The number that a text is; None: it is none."""
    try:
        return None if "_" in text else float(text)  # Python reads 1_0 as 10
    except ValueError:
        return None


def float32(values: Sequence[float | None]) -> np.ndarray:
    """Numbers, and at the end, where code −1 points, NaN."""
    with np.errstate(over="ignore"):
        return np.array([*values, None], np.float64).astype(np.float32)


def shown(text: str) -> str:
    """A text of a user's file as one short line."""
    plain = (c if c.isprintable() else repr(c)[1:-1] for c in text[:_SHORT])
    return "".join(plain) + "…" * (len(text) > _SHORT)


class Column(NamedTuple):
    """One column as texts, each different one once, and which of them a row holds."""

    path: str  # of the file, for refusals
    name: str
    texts: list[str]  # in the order in which they first come
    codes: np.ndarray  # [m] int64, the number of a row's text, −1 where it is missing
    lines: np.ndarray  # [m] int64, where a row begins

    @property
    def shown(self) -> str:
        """Its name in a refusal."""
        return shown(self.name)

    def line(self, code: int) -> int:
        """The first line that holds a text, or for −1 none."""
        return int(self.lines[(self.codes == code).argmax()])

    def holds(self, code: int) -> str:
        """How a refusal of a text begins."""
        text, line = shown(self.texts[code]), self.line(code)
        return f"{self.path}: column '{self.shown}' holds '{text}' in line {line}"

    def mixed(self, code: int, others: str) -> NoReturn:
        """Refuse a column of numbers and texts."""
        raise Refusal(
            f"{self.path}: column '{self.shown}' holds {others} and, in line "
            f"{self.line(code)}, '{shown(self.texts[code])}': correct it, add it to "
            "data.missing, or add the column to data.categorical (its values are "
            "names) or to data.drop"
        )

    def numbers(self) -> np.ndarray:
        """[m] float32, NaN where a value is missing."""
        values = list(map(number, self.texts))
        if None in values:
            self.mixed(values.index(None), "numbers")
        short = float32(values)
        if (wrong := ~np.isfinite(short[:-1])).any():
            raise Refusal(
                f"{self.holds(int(wrong.argmax()))}, which is no finite number of 32 "
                "bits: correct it, or add it to data.missing"
            )
        found: np.ndarray = short[self.codes]  # −1: the last
        return found


class Table(NamedTuple):
    """What was read: the columns that were asked for, and where each row stood."""

    path: str
    columns: dict[str, Column]
    lines: np.ndarray  # [m] int64


def read(path: str, delimiter: str, names: Sequence[str], plan: Plan) -> Table:
    """Read a text file in UTF-8, or such a file in gzip.

    Args:
        path: the file.
        delimiter: what stands between values.
        names: of all columns, where the file has no line of names.
        plan: which columns are wanted.
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
    dialect = {"delimiter": delimiter, "skipinitialspace": delimiter != " "}
    try:
        with _open(place) as file:
            rows = csv.reader(file, strict=True, **dialect)  # type: ignore[arg-type]
            wanted, header, lines = _scan(path, rows, names, plan)
        with _open(place) as file:
            return _texts(path, file, dialect, wanted, header, lines)
    except UnicodeDecodeError:
        raise Refusal(
            f"{path} is not a text in UTF-8 (line {_undecodable(place)} is not): save "
            "it as UTF-8, or as CSV if it is a spreadsheet"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise Refusal(
            f"{path} cannot be read ({error}): write it again, as plain or gzipped text"
        ) from None


def _open(place: str, errors: str = "strict") -> IO[str]:
    with open(place, "rb") as file:
        packed = file.read(2) == _GZIP
    opened: Any = gzip.open if packed else open
    text: IO[str] = opened(place, "rt", encoding="utf-8-sig", errors=errors, newline="")
    return text


def _undecodable(place: str) -> int:
    """The first line that is not UTF-8: its bytes come as surrogates."""
    with _open(place, "surrogateescape") as file:
        odd = (any("\udc80" <= c <= "\udcff" for c in line) for line in file)
        return next(i for i, bad in enumerate(odd, 1) if bad)


def _scan(
    path: str, rows: Any, names: Sequence[str], plan: Plan
) -> tuple[Mapping[str, Collection[str]], list[str], np.ndarray]:
    """What is wanted, all columns, and the line of each row; 0: a blank, the names."""
    lines: list[int] = []
    wanted: Mapping[str, Collection[str]] = {}
    header: list[str] = []
    line = 1
    try:
        for row in rows:
            there = bool(row)
            if row and not header:
                header, there = _header(path, line, row, names), bool(names)
                wanted = plan(header)
            if there and len(row) != len(header):
                raise Refusal(
                    f"{path}: line {line} holds {len(row)} values and there are "
                    f"{len(header)} columns: correct it (a text with a delimiter in "
                    'it stands in quotation marks, "a, b")'
                )
            lines.append(line if there else 0)
            line = rows.line_num + 1
    except csv.Error as error:
        raise Refusal(
            f"{path}: the row that begins in line {line} cannot be read ({error}): "
            'close its quotation marks, and write one inside a text as ""'
        ) from None
    if not header:
        raise Refusal(
            f"{path} is empty: it needs a line of names, then one line per row"
        )
    if not any(lines):
        raise Refusal(f"{path} holds names and no rows: add one line per example")
    return wanted, header, np.array(lines)


def _header(path: str, line: int, row: list[str], names: Sequence[str]) -> list[str]:
    header = [value.strip() for value in row]
    if header == list(names):
        raise Refusal(
            f"{path}: line {line} is the names that data.columns gives: leave "
            "data.columns out, for the file has them"
        )
    return list(names) or header


def _texts(
    path: str,
    file: IO[str],
    dialect: dict[str, Any],
    wanted: Mapping[str, Collection[str]],
    header: list[str],
    lines: np.ndarray,
) -> Table:
    """The values of the wanted columns, in rows that `_scan` has found good."""
    import pandas  # slow to import, and only tables need it

    places = [i for i, name in enumerate(header) if name in wanted]
    frame = pandas.read_csv(
        file,
        **dialect,
        engine="c" if dialect["delimiter"].isascii() else "python",
        header=None,
        names=range(len(header)),
        index_col=False,
        usecols=places,
        dtype=str,
        na_filter=False,
        skip_blank_lines=False,
    )
    assert len(frame) == len(lines)  # both readers see the same rows
    frame, lines = frame[lines > 0], lines[lines > 0]
    columns = {}
    for i in places:
        written, raw = pandas.factorize(frame.pop(i))
        texts = (text.strip() for text in raw)
        missing = wanted[header[i]]
        kept = np.array([None if t in missing else t for t in texts], object)
        codes, unique = pandas.factorize(kept)
        columns[header[i]] = Column(
            path, header[i], unique.tolist(), codes[written], lines
        )
    return Table(path, columns, lines)


# Features


def features(
    table: Table, columns: list[Column], categorical: list[str]
) -> tuple[np.ndarray, list[str]]:
    """The inputs x [m, features] in float32, and the names of the features.

    Each value of a `categorical` column is a category, even if it is a number.
    """
    if not columns:
        raise Refusal(
            f"{table.path} has no column left for a feature: take one out of "
            "data.drop, or add one to the file"
        )
    words = [_categories(column, column.name in categorical) for column in columns]
    x = np.zeros(
        (len(table.lines), sum(len(texts) or 1 for texts in words)), np.float32
    )
    names: list[str] = []
    for column, texts in zip(columns, words, strict=True):
        at = len(names)
        if texts:
            place = np.array([at + texts.index(text) for text in column.texts])
            there = np.flatnonzero(column.codes >= 0)
            x[there, place[column.codes[there]]] = 1
        elif _truths(column):
            truth = [TRUTH[text.lower()] for text in column.texts]
            x[:, at] = np.array([*truth, np.nan])[column.codes]  # −1: the last
        else:
            x[:, at] = column.numbers()
        names += [f"{column.name}={text}" for text in texts] or [column.name]
    return x, names


def _truths(column: Column) -> bool:
    return {text.lower() for text in column.texts} <= {*TRUTH}


def _categories(column: Column, asked: bool) -> list[str]:
    """The categories of a column in order; none for numbers and truths."""
    texts, head = column.texts, f"{column.path}: column '{column.shown}' holds"
    if not texts:
        raise Refusal(f"{head} no value in any row: add it to data.drop")
    if not asked and number(texts[0]) is not None:
        return []
    if len(texts) > _MANY:
        raise Refusal(
            f"{head} {len(texts)} different texts, and each would be a feature of its "
            f"own (at most {_MANY}): add it to data.drop"
        )
    if _truths(column):
        return []
    if not asked:
        _check(column, head, len(column.lines))
    return sorted(texts)


def _check(column: Column, head: str, m: int) -> None:
    """Refuse texts that are no categories."""
    for code, text in enumerate(column.texts):
        if number(text) is not None:
            column.mixed(code, "texts")
    if all(number(text.replace(",", ".", 1)) is not None for text in column.texts):
        raise Refusal(
            f"{column.holds(0)}, and numbers are written with a point and without "
            "grouping: replace the commas"
        )
    if len(column.texts) > max(_FEW, m / 2):
        raise Refusal(
            f"{head} {len(column.texts)} different texts in {m} rows, as names of "
            "things do, and these say nothing about other things: add it to data.drop, "
            "or, to use it all the same, to data.categorical"
        )


# Labels, owners and groups

Target = tuple[np.ndarray, int, list[str]]
"""y, the number of classes (0: a regression), and their names."""


def check_there(table: Table, key: str, name: str, remedy: str) -> None:
    """Refuse a column of which some values are missing."""
    lines = table.lines[table.columns[name].codes < 0]
    if len(lines):
        some = ", ".join(map(str, lines[:_LINES])) + " …" * (len(lines) > _LINES)
        raise Refusal(
            f"{table.path}: data.{key} is column '{shown(name)}', and it holds nothing "
            f"in {len(lines)} of {len(table.lines)} rows (in line {some}): fill it in, "
            f"leave these rows out, {remedy}"
        )


def identifiers(table: Table, key: str, name: str) -> np.ndarray:
    """Owners or groups as int64: whole numbers as they are, texts in sorted order.

    "7" is a whole number, "007" and "7.0" are texts, and with one text all are.
    """
    check_there(table, key, name, f"or set data.{key} to another column")
    texts = table.columns[name].texts
    try:
        value = np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        value = np.array([], np.int64)
    if list(map(str, value.tolist())) != texts:
        value = np.unique(np.array(texts, object), return_inverse=True)[1]
    whose: np.ndarray = value[table.columns[name].codes]
    return whose


def target(table: Table, names: list[str], kind: str) -> Target:
    """What is to be predicted: one column, or several of 0 and 1."""
    remedy = "or take a word that is a class out of data.missing"
    for name in names:
        check_there(table, "label", name, remedy)
    columns = [table.columns[name] for name in names]
    if len(columns) > 1:
        return _several(columns, kind)
    column = columns[0]
    values = [_exact(text) for text in column.texts]
    found = [value for value in values if value is not None]
    numeric = len(found) == len(values)
    head = f"{table.path}: the label in column '{column.shown}'"
    if not numeric and (kind == "targets" or (kind == "auto" and found)):
        code = values.index(None)
        raise Refusal(
            f"{head} is '{shown(column.texts[code])}' in line {column.line(code)}, "
            f"which is no finite number{', and others are' if found else ''}: correct "
            "it, or set data.kind = 'labels' if every value is a class"
        )
    whole = numeric and all(value == int(value) for value in found)
    if kind == "targets" or (kind == "auto" and numeric and not whole):
        return _targets(head, column, found)
    if kind == "auto" and whole and len({*found}) > _CLASSES:
        raise Refusal(
            f"{head} holds {len({*found})} different whole numbers: set data.kind = "
            "'labels' if each is a class, or 'targets' for a regression"
        )
    return _classes(head, column, found if numeric else column.texts)


def _exact(text: str) -> float | int | None:
    """The finite number that a text is, whole ones of any size; None: it is none."""
    value = number(text)
    if value is None or not math.isfinite(value):
        return None
    return int(text) if text.lstrip("+-").isdecimal() else value


def _targets(head: str, column: Column, values: Sequence[float]) -> Target:
    y = float32(values)
    if (bad := ~np.isfinite(y[:-1])).any():
        code = int(bad.argmax())
        raise Refusal(
            f"{head} is {values[code]:g} in line {column.line(code)}, which does not "
            "fit into 32 bits: rescale it"
        )
    return y[column.codes], 0, []


def _classes(head: str, column: Column, values: Sequence[Any]) -> Target:
    """Labels 0 … C−1 in sorted order, by value where all are numbers."""
    order = sorted(set(values))
    if len(order) < 2:
        raise Refusal(
            f"{head} is '{shown(_name(order[0]))}' in every row, so that there is "
            "nothing to learn: name another in data.label"
        )
    place = {value: i for i, value in enumerate(order)}
    y = np.array([place[value] for value in values])[column.codes]
    return y, len(order), [_name(value) for value in order]


def _name(value: float | str) -> str:
    whole = isinstance(value, float) and value == int(value)
    return str(int(value) if whole else value)


def _several(columns: list[Column], kind: str) -> Target:
    """[m, L] of 0 and 1."""
    if kind == "targets":
        raise Refusal(
            f"data.kind = 'targets' and data.label names {len(columns)} columns: a "
            "regression has one target an example, so name one"
        )
    y = []
    for column in columns:
        truth = [_BINARY.get(text.lower(), -1) for text in column.texts]
        if -1 in truth:
            raise Refusal(
                f"{column.holds(truth.index(-1))}, and it is one of {len(columns)} in "
                "data.label: each must hold 0 and 1, or true and false"
            )
        y.append(np.array(truth)[column.codes])
    return np.stack(y, axis=1), len(columns), [column.name for column in columns]
