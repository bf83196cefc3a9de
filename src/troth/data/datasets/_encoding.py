"""A further table as the inputs of a model that was trained on a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from troth import lookup
from troth.data.datasets._table import Column, number, read, shown
from troth.types import Refusal

_TRUTH = {"true": 1.0, "false": 0.0}

Source = tuple[str, str | None]
"""Where a feature comes from: a column, and the category; None: the value itself."""


def encode(
    path: Path, features: Sequence[str], options: Mapping[str, Any], *, gaps: bool
) -> np.ndarray:
    """The inputs x [m, features] in float32, feature by feature as it is called.

    "age" is the number in column `age` (true and false are 1 and 0), NaN where it is
    missing; "sex=f" is 1 where column `sex` holds `f`, else 0. So a category that was
    not trained on, like a missing one, is 0 in all features of its column. Columns that
    are no features need not be there and are not looked at; order does not matter.

    Args:
        path: a table whose first line names its columns.
        features: what the features are called, in their order.
        options: of the data that were trained on: `delimiter`, `missing`, and which
            columns were no features.
        gaps: whether numbers may be missing.

    Raises:
        Refusal: the file cannot be read, a column is not there or not known for
            certain, or a value is no number.
    """
    if not path.is_file():
        raise Refusal(f"there is no file {path}; give --data a CSV file")
    sources: list[Source] = []

    def plan(header: list[str]) -> dict[str, Column]:
        aside = _aside(options)
        usable = Counter(name for name in header if name not in aside)
        sources.extend(_source(path, usable, name) for name in features)
        missing = options.get("missing", [""])
        return {name: Column(str(path), name, missing, True) for name in dict(sources)}

    table = read(str(path), options.get("delimiter", ","), [], plan)
    codes = {name: column.codes() for name, column in table.columns.items()}
    x = np.zeros((len(table.line), len(features)), np.float32)
    for j, (name, category) in enumerate(sources):
        column = table.columns[name]
        if category is None:
            x[:, j] = _numbers(column, codes[name], table.line, gaps)
        elif category in column.texts:
            x[:, j] = codes[name] == column.texts[category]
    return x


def _aside(options: Mapping[str, Any]) -> set[str]:
    """Columns that were no features."""
    label = options.get("label", [])
    labels = [label] if isinstance(label, str) else label
    roles = (options.get(key, "") for key in ("owner", "group", "split"))
    return {*labels, *roles, *options.get("drop", [])}


def _source(path: Path, header: Counter[str], feature: str) -> Source:
    """Where a feature comes from; a column and a category may both hold a "="."""
    parts = feature.split("=")
    cuts = [("=".join(parts[:i]), "=".join(parts[i:])) for i in range(1, len(parts))]
    found: list[Source] = [(name, text) for name, text in cuts if name in header]
    found += [(feature, None)] if feature in header else []
    if not found:
        name, there = parts[0], list(map(shown, header))
        raise Refusal(
            f"{path} has no column '{shown(name)}', which this run was trained on"
            f"{lookup.nearest(shown(name), there)}; its first line must "
            f"name its columns, and there are: {', '.join(there[:20])}"
        )
    if len(found) > 1 or header[found[0][0]] > 1:
        raise Refusal(
            f"{path} has several columns that may be the feature '{shown(feature)}' of "
            f"this run: {', '.join(shown(name) for name, _ in found)}; keep one"
        )
    return found[0]


def _numbers(
    column: Column, codes: np.ndarray, line: np.ndarray, gaps: bool
) -> np.ndarray:
    """[m] what a column holds as numbers, NaN where it is missing."""
    values = np.full(len(column.texts) + 1, np.nan, np.float32)  # −1: the last
    for (text, k), at in zip(column.texts.items(), column.lines, strict=True):
        value = number(text)
        value = _TRUTH.get(text.lower()) if value is None else value
        with np.errstate(over="ignore"):
            values[k] = np.nan if value is None else value
        if not np.isfinite(values[k]):
            raise Refusal(
                f"{column.path}: column '{column.shown}' holds '{shown(text)}' in line "
                f"{at}, and this run takes a finite number there: correct it"
            )
    if not gaps and (codes < 0).any():
        raise Refusal(
            f"{column.path}: column '{column.shown}' has no value in line "
            f"{line[(codes < 0).argmax()]}, and this run fills nothing in: drop "
            "that row, or train with features.name = 'own' or 'federated'"
        )
    found: np.ndarray = values[codes]
    return found
