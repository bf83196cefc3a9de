"""Columns of a table as features: numbers, truths, and a feature a category."""

from __future__ import annotations

import numpy as np

from troth.data.datasets._table import Column, number, shown
from troth.types import Refusal

_MANY = 1000  # categories of a column, at most
_FEW = 20  # that many texts may all be different without being names of things


def features(
    path: str, columns: list[Column], categorical: list[str], m: int
) -> tuple[np.ndarray, list[str]]:
    """The inputs x [m, features] in float32, and the names of the features.

    Args:
        path: the file, for refusals.
        columns: what was read.
        categorical: columns of which each value is a category, even if it is a number.
        m: rows.

    Raises:
        Refusal: no column, an empty one, or one that holds no categories.
    """
    if not columns:
        raise Refusal(
            f"{path} has no column left for a feature: take one out of data.drop, or "
            "add one to the file"
        )
    for column in columns:
        _check(column, column.name in categorical, m)
    words = [_categories(column) for column in columns]
    x = np.zeros((m, sum(len(texts) or 1 for texts in words)), np.float32)
    names: list[str] = []
    for column, texts in zip(columns, words, strict=True):
        at = len(names)
        if column.kind == "number":
            x[:, at] = column.numbers()
        elif not texts:
            truth = [text.lower() == "true" for text in column.texts]
            x[:, at] = np.array([*truth, np.nan])[column.codes()]  # −1: the last
        else:
            codes = column.codes()
            place = np.array([texts.index(text) for text in column.texts])
            there = np.flatnonzero(codes >= 0)
            x[there, at + place[codes[there]]] = 1
        names += [f"{column.name}={text}" for text in texts] or [column.name]
    return x, names


def _categories(column: Column) -> list[str]:
    """The categories of a column in order; none for numbers and truths."""
    if column.kind == "number" or _truths(column):
        return []
    return sorted(column.texts)


def _truths(column: Column) -> bool:
    return {text.lower() for text in column.texts} <= {"true", "false"}


def _check(column: Column, asked: bool, m: int) -> None:
    """Refuse a column without values, and texts that are no categories."""
    count, head = len(column.texts), f"{column.path}: column '{column.shown}' holds"
    if column.kind != "number" and count == 0:
        raise Refusal(f"{head} no value in any row: add it to data.drop")
    if count > _MANY:
        raise Refusal(
            f"{head} {count} different texts, and each would be a feature of its own "
            f"(at most {_MANY}): add it to data.drop"
        )
    if column.kind == "number" or asked or _truths(column):
        return
    for text, line in zip(column.texts, column.lines, strict=True):
        if number(text) is not None:
            column.mixed(text, line, "texts")
    first = next(iter(column.texts))
    if all(number(text.replace(",", ".", 1)) is not None for text in column.texts):
        raise Refusal(
            f"{head} '{shown(first)}' in line {column.lines[0]}, and numbers are "
            "written with a point and without grouping: replace the commas"
        )
    if count > max(_FEW, m / 2):
        raise Refusal(
            f"{head} {count} different texts in {m} rows, as names of things do, and "
            "these say nothing about other things: add it to data.drop, or, to use it "
            "all the same, to data.categorical"
        )
