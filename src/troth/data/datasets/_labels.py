"""Columns of a table as what is to be predicted, and as owners and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NoReturn

import numpy as np

from troth.data.datasets._table import Column, Table, number, shown
from troth.types import Refusal

_SOME = 100  # different whole numbers that are taken for labels without asking
_FEW = 8  # lines that a refusal names
_TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}

Target = tuple[np.ndarray, int, list[str]]
"""y, the number of classes (0: a regression), and their names."""


def target(
    path: str,
    table: Table,
    names: list[str],
    kind: Literal["auto", "labels", "targets"],
) -> Target:
    """What is to be predicted.

    Args:
        path: the file, for refusals.
        table: what was read.
        names: the column, or the columns of 0 and 1.
        kind: what it is.

    Raises:
        Refusal: a value is missing, or cannot be what it should be.
    """
    remedy = "or take a word that is a class out of data.missing"
    for name in names:
        check_there(path, table, "label", name, remedy)
    columns = [table.columns[name] for name in names]
    if len(columns) > 1:
        return _several(path, columns, kind)
    column, codes = columns[0], columns[0].codes()
    values = [_exact(text) for text in column.texts]
    found = [value for value in values if value is not None]
    numeric = len(found) == len(values)
    if not numeric and (kind == "targets" or (kind == "auto" and found)):
        _no_number(column, values.index(None), bool(found))
    whole = numeric and all(value == int(value) for value in found)
    if kind == "targets" or (kind == "auto" and numeric and not whole):
        return _targets(column, codes, found)
    if kind == "auto" and whole and len({*found}) > _SOME:
        raise Refusal(
            f"{path}: the label in column '{column.shown}' holds {len({*found})} "
            "different whole numbers: set data.kind = 'labels' if each is a class, or "
            "'targets' for a regression"
        )
    return _classes(column, codes, found if numeric else list(column.texts))


def _no_number(column: Column, at: int, others: bool) -> NoReturn:
    raise Refusal(
        f"{column.path}: the label in column '{column.shown}' is "
        f"'{shown(list(column.texts)[at])}' in line {column.lines[at]}, which is no "
        f"finite number{', and others are' if others else ''}: correct it, or set "
        "data.kind = 'labels' if every value is a class"
    )


def _exact(text: str) -> float | int | None:
    """The finite number that a text is, whole ones of any size; None: it is none."""
    value = number(text)
    if value is None or not math.isfinite(value):
        return None
    return int(text) if text.lstrip("+-").isdecimal() else value


def _targets(column: Column, codes: np.ndarray, values: Sequence[float]) -> Target:
    with np.errstate(over="ignore"):
        y = np.array(values, np.float64).astype(np.float32)
    if (bad := ~np.isfinite(y)).any():
        at = int(bad.argmax())
        raise Refusal(
            f"{column.path}: the label in column '{column.shown}' is {values[at]:g} in "
            f"line {column.lines[at]}, which does not fit into 32 bits: rescale it"
        )
    return y[codes], 0, []


def _classes(column: Column, codes: np.ndarray, values: Sequence[Any]) -> Target:
    """Labels 0 … C−1 in sorted order, by value where all are numbers."""
    order = sorted(set(values))
    if len(order) < 2:
        raise Refusal(
            f"{column.path}: the label in column '{column.shown}' is "
            f"'{shown(_name(order[0]))}' in every row, so that there is nothing to "
            "learn: name another in data.label"
        )
    place = {value: i for i, value in enumerate(order)}
    y = np.array([place[value] for value in values])[codes]
    return y, len(order), [_name(value) for value in order]


def _name(value: float | str) -> str:
    whole = isinstance(value, float) and value == int(value)
    return str(int(value) if whole else value)


def _several(path: str, columns: list[Column], kind: str) -> Target:
    """[m, L] of 0 and 1."""
    if kind == "targets":
        raise Refusal(
            f"data.kind = 'targets' and data.label names {len(columns)} columns: a "
            "regression has one target an example, so name one"
        )
    y = []
    for column in columns:
        for text, line in zip(column.texts, column.lines, strict=True):
            if text.lower() not in _TRUTH:
                raise Refusal(
                    f"{path}: column '{column.shown}', one of {len(columns)} in "
                    f"data.label, holds '{shown(text)}' in line {line}: each must "
                    "hold 0 and 1, or true and false"
                )
        truth = np.array([_TRUTH[text.lower()] for text in column.texts])
        y.append(truth[column.codes()])
    return np.stack(y, axis=1), len(columns), [column.name for column in columns]


def check_there(path: str, table: Table, key: str, name: str, remedy: str) -> None:
    """Refuse a column of which some values are missing."""
    lines = table.line[table.columns[name].codes() < 0]
    if len(lines):
        some = ", ".join(map(str, lines[:_FEW])) + " …" * (len(lines) > _FEW)
        raise Refusal(
            f"{path}: data.{key} is column '{shown(name)}', and it holds nothing in "
            f"{len(lines)} of {len(table.line)} rows (in line {some}): fill it in, "
            f"leave these rows out, {remedy}"
        )


def identifiers(path: str, table: Table, key: str, name: str) -> np.ndarray:
    """Owners or groups as int64: whole numbers as they are, texts in sorted order.

    "7" is a whole number, "007" and "7.0" are texts, and with one text all are.
    """
    check_there(path, table, key, name, f"or set data.{key} to another column")
    column = table.columns[name]
    texts = list(column.texts)
    try:
        value = np.array([int(text) for text in texts], np.int64)
    except (ValueError, OverflowError):
        value = np.zeros(len(texts), np.int64)
    if list(map(str, value.tolist())) != texts:
        place = {text: i for i, text in enumerate(sorted(texts))}
        value = np.array([place[text] for text in texts], np.int64)
    whose: np.ndarray = value[column.codes()]
    return whose
