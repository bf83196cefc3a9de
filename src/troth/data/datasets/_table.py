"""Read a user's table from a CSV file, and convert columns to features, labels, owners.

Values are read as texts, and no types are guessed. So "007", "NA" and 2⁵³ + 1 do not
change. Error messages name the line in which a row begins.
"""

import csv
import gzip
import math
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from troth.data.datasets import _files
from troth.data.datasets._arrays import Classes, Targets, targets
from troth.types import Refusal

MISSING = ["", "?", "NA", "NaN", "nan", "null", "None"]
_SHORT = 40  # largest number of characters of a text in an error message
_GZIP = b"\x1f\x8b"  # first bytes of a gzip file
_MANY = 1000  # largest number of categories of a column
_FEW = 20  # up to this number of different texts, a column may always be categories
_CLASSES = 100  # largest number of different whole numbers that may be classes
_LINES = 8  # largest number of lines in an error message
TRUTH = {"false": 0, "true": 1}
_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, **TRUTH}

Plan = Callable[[list[str]], Mapping[str, Collection[str]]]
"""Function: header → the columns to read, each with the texts for a missing value."""


def number(text: str) -> float | None:
    """Return the number that a text represents, or None."""
    try:
        return None if "_" in text else float(text)  # Python reads 1_0 as 10
    except ValueError:
        return None


def float32(values: Sequence[float | None]) -> np.ndarray:
    """Return numbers in float32, with NaN at the end, for the index −1 (missing)."""
    with np.errstate(over="ignore"):
        return np.array([*values, None], np.float64).astype(np.float32)


def shown(text: str) -> str:
    """Return a text of a user's file as one short printable line."""
    plain = (c if c.isprintable() else repr(c)[1:-1] for c in text[:_SHORT])
    return "".join(plain) + "…" * (len(text) > _SHORT)


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names in one line; if there are more than `most`, only the first ones."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


class Column(NamedTuple):
    """One column: its distinct texts, and the index of each row's text."""

    path: str  # path of the file, for error messages
    name: str  # name of the column
    texts: list[str]  # distinct texts, in the order of their first occurrence
    codes: np.ndarray  # [m] int64, index (code) of each row's text, −1 if missing
    lines: np.ndarray  # [m] int64, line in which each row begins
    unit: str = "line"  # name of the things in `lines`, for error messages
    values: np.ndarray | None = None  # [m] float32, if the source has numbers

    @property
    def shown(self) -> str:
        """The column's name in an error message."""
        return shown(self.name)

    @property
    def truths(self) -> bool:
        """Whether the column has only the values true and false."""
        return {text.lower() for text in self.texts} <= {*TRUTH}

    def line(self, code: int) -> str:
        """Return the first line with the text of this code (−1: a missing value)."""
        return f"{self.unit} {self.lines[(self.codes == code).argmax()]}"

    def holds(self, code: int) -> str:
        """Return the beginning of an error message about the text of this code."""
        text, line = shown(self.texts[code]), self.line(code)
        return f"{self.path}: column '{self.shown}' holds '{text}' in {line}"

    def mixed(self, code: int, others: str) -> NoReturn:
        """Raise Refusal because the column has numbers and texts.

        Args:
            code: code of a value that differs from the others.
            others: "numbers" or "texts".
        """
        raise Refusal(
            f"{self.path}: column '{self.shown}' holds {others} and, in "
            f"{self.line(code)}, '{shown(self.texts[code])}': correct it, add it to "
            "data.missing, or add the column to data.categorical (its values are "
            "names) or to data.drop"
        )

    def check_whole(self, remedy: str, key: str = "") -> None:
        """Raise Refusal if values are missing in this column.

        Args:
            remedy: another remedy, for the error message.
            key: the option that names the column, for the error message.
        """
        lines = self.lines[self.codes < 0]
        if len(lines):
            some = ", ".join(map(str, lines[:_LINES])) + " …" * (len(lines) > _LINES)
            some = f"{self.unit} {some}"
            raise Refusal(
                f"{self.path}: column '{self.shown}'{key and f' (data.{key})'} has no "
                f"value in {len(lines)} of {len(self.lines)} rows (in {some}): "
                f"fill it in, leave these rows out{remedy}"
            )

    def numbers(self) -> np.ndarray:
        """Return the column as numbers [m] in float32; missing values are NaN."""
        if self.values is not None:
            return self._finite(self.values)
        if self.truths:
            truth = float32([TRUTH[text.lower()] for text in self.texts])
            return np.take(truth, self.codes)
        values = list(map(number, self.texts))
        if None in values:
            self.mixed(values.index(None), "numbers")
        short = float32(values)
        if (wrong := ~np.isfinite(short[:-1])).any():
            raise Refusal(
                f"{self.holds(int(wrong.argmax()))}, which is no finite number of 32 "
                "bits: correct it, or add it to data.missing"
            )
        return np.take(short, self.codes)

    def _finite(self, values: np.ndarray) -> np.ndarray:
        if (wrong := np.isinf(values)).any():
            raise Refusal(
                f"{self.path}: column '{self.shown}' is infinite, or too large for 32 "
                f"bits, in {self.unit} {self.lines[wrong.argmax()]}: correct it"
            )
        return values

    def categories(self, asked: bool) -> list[str]:
        """Return the categories in sorted order.

        The result is empty for numbers, and for true and false. If `asked`, numbers are
        categories too. Raise Refusal if the texts cannot be categories.
        """
        if self.values is not None and not np.isnan(self.values).all():
            return []
        texts, head = self.texts, f"{self.path}: column '{self.shown}' holds"
        if not texts:
            raise Refusal(f"{head} no value in any row: add it to data.drop")
        if not asked and number(texts[0]) is not None:
            return []
        if len(texts) > _MANY:
            raise Refusal(
                f"{head} {len(texts)} different texts, and each would be a feature of "
                f"its own (at most {_MANY}): add it to data.drop"
            )
        if self.truths:
            return []
        if not asked:
            self._check_names(head)
        return sorted(texts)

    def _check_names(self, head: str) -> None:
        """Raise Refusal if some texts are numbers, or most rows differ."""
        for code, text in enumerate(self.texts):
            if number(text) is not None:
                self.mixed(code, "texts")
        if all(number(text.replace(",", ".", 1)) is not None for text in self.texts):
            raise Refusal(
                f"{self.holds(0)}, and numbers are written with a point and without "
                "grouping: replace the commas"
            )
        m = len(self.lines)
        if len(self.texts) > max(_FEW, m / 2):
            raise Refusal(
                f"{head} {len(self.texts)} different texts in {m} rows, like a column "
                "of names, from which nothing can be learned about other rows: add it "
                "to data.drop, or to data.categorical to use it anyway"
            )


def read(
    path: str, delimiter: str, names: Sequence[str], plan: Plan
) -> dict[str, Column]:
    """Read columns of a CSV file in UTF-8, which may be gzipped.

    Args:
        path: the file.
        delimiter: the character between values.
        names: names of all columns; empty: they are in the first line of the file.
        plan: function that chooses the columns to read, by the header.
    """
    place = _files.own_file(path, "set data.path to a CSV file, or give one by --data")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Refusal(
            f"data.delimiter = {delimiter!r} must be one character, such as ',' or ';' "
            "or '\\t'"
        )
    blanks = delimiter != " "
    try:
        with _open(place) as file:
            rows = csv.reader(
                file, strict=True, delimiter=delimiter, skipinitialspace=blanks
            )
            return _columns(path, rows, names, plan)
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
    """Return the number of the first line that is not UTF-8.

    Bytes that cannot be decoded are read as surrogates.
    """
    with _open(place, "surrogateescape") as file:
        odd = (any("\udc80" <= c <= "\udcff" for c in line) for line in file)
        return next(i for i, bad in enumerate(odd, 1) if bad)


def _columns(
    path: str, rows: Any, names: Sequence[str], plan: Plan
) -> dict[str, Column]:
    """Read the file row by row, and store every distinct value of a column once."""
    wanted: dict[str, Collection[str]] = {}
    header: list[str] = []
    places: list[tuple[int, dict[str, int], array[int]]] = []
    lines = array("q")
    line = 1
    try:
        for row in rows:
            begin, line = line, rows.line_num + 1
            if row and not header:
                header = _header(path, begin, row, names)
                wanted = dict(plan(header))
                there = [i for i, name in enumerate(header) if name in wanted]
                places = [(i, {}, array("q")) for i in there]
                row = row if names else []
            if not row:
                continue
            if len(row) != len(header):
                raise Refusal(
                    f"{path}: line {begin} holds {len(row)} values and there are "
                    f"{len(header)} columns: correct it (a text with a delimiter in "
                    'it stands in quotation marks, "a, b")'
                )
            lines.append(begin)
            for i, values, codes in places:
                codes.append(values.setdefault(row[i], len(values)))
    except csv.Error as error:
        raise Refusal(
            f"{path}: the row that begins in line {line} cannot be read ({error}): "
            'close its quotation marks, and write one inside a text as ""'
        ) from None
    if not header:
        raise Refusal(
            f"{path} is empty: it needs a line of names, then one line per row"
        )
    if not lines:
        raise Refusal(f"{path} holds names and no rows: add one line per example")
    first = np.array(lines)
    columns = {}
    for i, values, codes in places:
        name, each = header[i], np.array(codes)
        columns[name] = column_of(path, name, values, each, wanted[name], first)
    return columns


def _header(path: str, line: int, row: list[str], names: Sequence[str]) -> list[str]:
    header = [value.strip() for value in row]
    if header == list(names):
        raise Refusal(
            f"{path}: line {line} has the names that are in data.columns: leave "
            "data.columns out, because the file has the names"
        )
    return list(names) or header


def column_of(
    path: str,
    name: str,
    values: Iterable[str],
    codes: np.ndarray,
    missing: Collection[str],
    lines: np.ndarray,
) -> Column:
    """Return a column, with spaces around values removed and missing values marked.

    Args:
        path: name of the table, for error messages.
        name: name of the column.
        values: the distinct texts.
        codes: [m] index of each row's text; −1 if the row has none.
        missing: texts that mean a missing value.
        lines: [m] line in which each row begins.
    """
    texts: dict[str, int] = {}
    code = [
        -1 if text in missing else texts.setdefault(text, len(texts))
        for text in map(str.strip, values)
    ]
    code.append(-1)  # for rows whose index is −1
    return Column(path, name, list(texts), np.array(code)[codes], lines)


def features(
    path: str, columns: list[Column], categorical: list[str]
) -> tuple[np.ndarray, list[str]]:
    """Return the inputs x [m, features] in float32, and the names of the features.

    Each value of a `categorical` column is a category, even if it is a number.
    """
    if not columns:
        raise Refusal(
            f"{path} has no column left for a feature: take one out of data.drop, or "
            "add one to the file"
        )
    blocks: list[np.ndarray] = []
    names: list[str] = []
    for column in columns:
        texts = column.categories(column.name in categorical)
        codes = [column.texts.index(text) for text in texts]
        each = column.codes[:, None] == codes if texts else column.numbers()[:, None]
        blocks.append(each)
        names += [f"{column.name}={text}" for text in texts] or [column.name]
    return np.concatenate(blocks, axis=1, dtype=np.float32), names


def identifiers(column: Column, key: str) -> tuple[np.ndarray, list[str]]:
    """Return owners or groups as int64, and their names if they are texts.

    Whole numbers keep their value. "7" is a whole number, but "007" and "7.0" are
    texts. If one value is a text, all values are texts, numbered in sorted order.
    """
    column.check_whole(f", or set data.{key} to another column", key)
    texts = column.texts
    try:
        value = np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        value = np.array([], np.int64)
    names: list[str] = []
    if list(map(str, value.tolist())) != texts:
        names = sorted(texts)
        value = np.unique(np.array(texts, object), return_inverse=True)[1]
    return np.take(value, column.codes), names


def target(columns: list[Column], kind: str, classes: Classes = 0) -> Targets:
    """Return the labels or targets from one column, or from several of 0 and 1.

    Args:
        columns: the columns to predict.
        kind: "labels", "targets" or "auto".
        classes: number or names of the classes; 0: those in the labels.
    """
    if classes and (kind == "targets" or len(columns) > 1):
        raise Refusal(
            f"data.classes = {classes!r} goes only with one column of labels; remove "
            "it, or name one column in data.label and set data.kind = 'labels'"
        )
    for column in columns:
        remedy = ", or take a word that is a class out of data.missing"
        column.check_whole(remedy, "label")
    if len(columns) > 1:
        return _several(columns, kind)
    column = columns[0]
    values = [_exact(text) for text in column.texts]
    numbers = [value for value in values if value is not None]
    numeric = len(numbers) == len(values)
    if classes:
        return _given_classes(column, numbers if numeric else [], classes)
    head = f"{column.path}: the label in column '{column.shown}'"
    if not numeric and (kind == "targets" or (kind == "auto" and numbers)):
        code = values.index(None)
        raise Refusal(
            f"{head} is '{shown(column.texts[code])}' in {column.line(code)}, "
            f"which is no finite number{', and others are' if numbers else ''}: "
            "correct it, or set data.kind = 'labels' if every value is a class"
        )
    whole = numeric and all(value == int(value) for value in numbers)
    if kind == "targets" or (kind == "auto" and numeric and not whole):
        return _targets(head, column, numbers)
    if kind == "auto" and whole and len({*numbers}) > _CLASSES:
        raise Refusal(
            f"{head} holds {len({*numbers})} different whole numbers: set data.kind = "
            "'labels' if each is a class, or 'targets' for a regression"
        )
    return _classes(head, column, numbers if numeric else column.texts)


def _exact(text: str) -> float | int | None:
    """Return the finite number that a text represents, or None.

    Whole numbers of any size are exact.
    """
    value = number(text)
    if value is None or not math.isfinite(value):
        return None
    return int(text) if text.lstrip("+-").isdecimal() else value


def _targets(head: str, column: Column, values: Sequence[float]) -> Targets:
    y = float32(values)
    if (bad := ~np.isfinite(y[:-1])).any():
        code = int(bad.argmax())
        raise Refusal(
            f"{head} is {values[code]:g} in {column.line(code)}, which does not "
            "fit into 32 bits: rescale it"
        )
    return y[column.codes], 0, []


def _classes(head: str, column: Column, values: Sequence[Any]) -> Targets:
    """Return labels 0 … C−1 in sorted order; numbers are sorted by value."""
    order = sorted(set(values))
    if len(order) < 2:
        raise Refusal(
            f"{head} is '{shown(_name(order[0]))}' in every row, so that there is "
            "nothing to learn: name another in data.label"
        )
    place = {value: i for i, value in enumerate(order)}
    y = np.array([place[value] for value in values])[column.codes]
    return y, len(order), [_name(value) for value in order]


def _given_classes(
    column: Column, numbers: Sequence[float], classes: Classes
) -> Targets:
    """Return labels 0 … C−1, for given classes.

    Texts are numbered in the order of `classes`. Whole numbers must be 0 … C−1.
    """
    head = f"{column.path}: column '{column.shown}'"
    named_ = not isinstance(classes, int) and {*column.texts} <= {*classes}
    y, whole = np.array(column.texts), np.array(numbers)
    if not named_ and len(whole) and (whole == whole.round()).all():
        y = whole.astype(np.int64)
    y, number, names = targets(head, y, classes)
    return y[column.codes], number, names or list(map(str, range(number)))


def _name(value: float | str) -> str:
    whole = isinstance(value, float) and value == int(value)
    return str(int(value) if whole else value)


def _several(columns: list[Column], kind: str) -> Targets:
    """Return several labels per example, [m, L] of 0 and 1."""
    if kind == "targets":
        raise Refusal(
            f"data.kind = 'targets' and data.label names {len(columns)} columns: a "
            "regression has one target per example, so name one column"
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
