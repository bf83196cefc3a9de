"""A further table as the inputs of a model that was trained on a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from troth import lookup
from troth.data.datasets._table import TRUTH, Column, float32, number, read, shown
from troth.types import Refusal


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
    """
    if not path.is_file():
        raise Refusal(f"there is no file {path}; give --data a CSV file")
    sources: list[tuple[str, str | None]] = []

    def plan(header: list[str]) -> dict[str, list[str]]:
        aside = _aside(options)
        usable = Counter(name for name in header if name not in aside)
        sources.extend(_source(path, usable, name) for name in features)
        return dict.fromkeys(dict(sources), options.get("missing", [""]))

    table = read(str(path), options.get("delimiter", ","), [], plan)
    x = np.zeros((len(table.lines), len(features)), np.float32)
    for j, (name, category) in enumerate(sources):
        column = table.columns[name]
        if category is None:
            x[:, j] = _values(column, gaps)
        elif category in column.texts:
            x[:, j] = column.codes == column.texts.index(category)
    return x


def _aside(options: Mapping[str, Any]) -> set[str]:
    """Columns that were no features."""
    label = options.get("label", [])
    labels = [label] if isinstance(label, str) else label
    roles = (options.get(key, "") for key in ("owner", "group", "split"))
    return {*labels, *roles, *options.get("drop", [])}


def _source(path: Path, header: Counter[str], feature: str) -> tuple[str, str | None]:
    """A feature's column, and its category or None; both may hold a "="."""
    parts = feature.split("=")
    cuts = [("=".join(parts[:i]), "=".join(parts[i:])) for i in range(1, len(parts))]
    ways = [*cuts, (feature, None)]
    found: list[tuple[str, str | None]] = [way for way in ways if way[0] in header]
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


def _values(column: Column, gaps: bool) -> np.ndarray:
    """[m] what a column holds as numbers or truths, NaN where it is missing."""
    values = [TRUTH.get(text.lower(), number(text)) for text in column.texts]
    short = float32(values)
    if (bad := ~np.isfinite(short[:-1])).any():
        raise Refusal(
            f"{column.holds(int(bad.argmax()))}, and this run takes a finite number "
            "there: correct it"
        )
    if not gaps and (column.codes < 0).any():
        raise Refusal(
            f"{column.path}: column '{column.shown}' has no value in line "
            f"{column.line(-1)}, and this run fills nothing in: drop that row, or "
            "train with features.name = 'own' or 'federated'"
        )
    found: np.ndarray = short[column.codes]
    return found
