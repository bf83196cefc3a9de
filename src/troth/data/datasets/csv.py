"""A user's own table, from one CSV file."""

from typing import Literal

import numpy as np

from troth import lookup
from troth.data.datasets._arrays import marks
from troth.data.datasets._table import (
    MISSING,
    features,
    identifiers,
    listed,
    number,
    read,
    shown,
    target,
)
from troth.types import Arrays, Refusal


def csv(
    *,
    path: str,
    label: str | list[str],
    owner: str = "",
    group: str = "",
    split: str = "",
    kind: Literal["auto", "labels", "targets"] = "auto",
    drop: list[str] = [],  # noqa: B006
    categorical: list[str] = [],  # noqa: B006
    missing: list[str] = MISSING,
    delimiter: str = ",",
    columns: list[str] = [],  # noqa: B006
) -> Arrays:
    """Your own table from a CSV file: a line of names, then one row per example.

    The file is UTF-8 text, plain or gzipped, with any line endings. Text that holds the
    delimiter or a line break must be in quotation marks. Spaces around a value are
    ignored.

    - Label: texts and whole numbers are classes 0 … C−1 in sorted order. Fractional
      numbers are the targets of a regression. Several columns of 0 and 1 (or true and
      false) are several labels of an example.
    - Owner and group: whole numbers keep their value. Texts are numbered in sorted
      order, and 007 is a text different from 7. Only an empty value is missing.
    - Split: 0, 1, 2 or train, valid, test.
    - All other columns are features. Numbers become float32 (about 7 digits). They are
      NaN if missing, which `[features]` fills in. True and false become 1 and 0. A
      column of texts becomes one feature per category, 1 if the row has this category
      and 0 otherwise. If the value is missing, all of them are 0. The categories are
      those of the whole file, in sorted order. All sites of a real federation must
      agree on them beforehand.

    Args:
        path: Path of the file.
        label: Column to predict, or a list of columns of 0 and 1.
        owner: Column with the owner of each example; "": none.
        group: Column by which an audit may split; "": none.
        split: Column with the part (train, valid, test) of each example; "": none.
        kind: Type of the label: "labels" (classes), "targets" (numbers), or "auto".
            "auto" decides by the values. It refuses more than 100 different whole
            numbers, which may be either.
        drop: Columns to leave out.
        categorical: Columns whose values are categories, even if they are numbers.
        missing: Texts that mean a missing value in labels and features.
        delimiter: Character between values.
        columns: Names of all columns, if the file does not begin with them.
    """
    labels = [label] if isinstance(label, str) else label
    roles = {"label": labels, "owner": [owner], "group": [group], "split": [split]}
    roles = {key: [name for name in names if name] for key, names in roles.items()}
    labels, aside = roles["label"], {"drop": drop, "categorical": categorical}

    def plan(header: list[str]) -> dict[str, list[str]]:
        _check_header(path, header, drop)
        _check_names(path, header, roles, aside, delimiter)
        ids = {*roles["owner"], *roles["group"], *roles["split"]} - {*labels}
        kept = [name for name in header if name not in drop]
        return {name: [""] if name in ids else missing for name in kept}

    table = read(path, delimiter, columns, plan)
    named = {name for names in roles.values() for name in names}
    rest = [column for name, column in table.items() if name not in named]
    x, names = features(path, rest, categorical)
    y, classes, words = target([table[name] for name in labels], kind)
    who, what = (
        identifiers(table[roles[key][0]], key) if roles[key] else None
        for key in ("owner", "group")
    )
    part = None
    if split:
        column = table[split]
        column.check_whole(", or set data.split to another column", "split")
        where = f"{path}: column '{column.shown}'"
        part = marks(where, np.array(column.texts))[column.codes]
    return Arrays(x, y, classes, 1.0, who, what, part, tuple(names), tuple(words))


def _check_header(path: str, header: list[str], drop: list[str]) -> None:
    """Refuse a header without names, and names that are not unique."""
    values = [number(name) for name in header if name]
    if values and None not in values:
        raise Refusal(
            f"{path}: the first line holds values ({listed(header)}) where the names "
            "of the columns should stand: write them there, or give them in "
            "data.columns"
        )
    seen: dict[str, int] = {}
    for i, name in enumerate(header, 1):
        if name in drop:
            continue
        if not name:
            raise Refusal(
                f"{path}: column {i} has no name (pandas writes its index so): name "
                'it, or add "" to data.drop'
            )
        if name in seen:
            raise Refusal(
                f"{path}: columns {seen[name]} and {i} are both called '{shown(name)}':"
                " give each its own name, or add it to data.drop, which drops both"
            )
        seen[name] = i


def _check_names(
    path: str,
    header: list[str],
    roles: dict[str, list[str]],
    aside: dict[str, list[str]],
    delimiter: str,
) -> None:
    """Refuse option values that name no column, and columns with two roles."""
    for key, names in {**roles, **aside}.items():
        for name in names:
            if name in header or (key, name) == ("drop", ""):
                continue
            other = next((c for c in ";\t|," if c in header[0] and c != delimiter), "")
            alone = len(header) == 1 and other
            hint = f" (should data.delimiter be {other!r}?)" if alone else ""
            close = lookup.nearest(name, map(shown, header))
            raise Refusal(
                f"{path} has no column '{shown(name)}', which data.{key} names{close}; "
                f"there are: {listed(header)}{hint}"
            )
    for key, names in aside.items():
        for role, others in {**roles, **aside}.items():
            if role != key and (both := [name for name in names if name in others]):
                raise Refusal(
                    f"data.{key} and data.{role} both name '{shown(both[0])}', which "
                    "cannot have both roles: remove it from one of them"
                )
    if len(roles["label"]) == 0 or len({*roles["label"]}) < len(roles["label"]):
        raise Refusal(
            f"data.label = {roles['label']!r} must name the column to predict, or "
            "several columns, each once"
        )
