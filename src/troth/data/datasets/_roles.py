"""Check the roles of a table's columns, and make a data set of the table.

The role of a column says whether it is a label, an owner, a group, a split or a
feature. In all functions, `path` is the name of the table for error messages.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from troth import lookup
from troth.data.datasets._arrays import Classes, check_classes, marks
from troth.data.datasets._table import (
    MISSING,
    Column,
    features,
    identifiers,
    listed,
    number,
    shown,
    target,
)
from troth.types import Arrays, Refusal


class Roles(NamedTuple):
    """The options of the data set `csv` that give columns their roles."""

    label: str | list[str]
    owner: str = ""
    group: str = ""
    split: str = ""
    kind: Literal["auto", "labels", "targets"] = "auto"
    drop: list[str] = []
    categorical: list[str] = []
    missing: list[str] = MISSING
    classes: Classes = 0

    @property
    def labels(self) -> list[str]:
        """The columns to predict."""
        names = [self.label] if isinstance(self.label, str) else self.label
        return [name for name in names if name]

    @property
    def named(self) -> dict[str, list[str]]:
        """Option → the columns that it names, without options for features."""
        single = {"owner": self.owner, "group": self.group, "split": self.split}
        some = {key: [name] if name else [] for key, name in single.items()}
        return {"label": self.labels, **some}

    def numeric(self, header: list[str]) -> set[str]:
        """Return the columns that are features, except those in `categorical`."""
        named = {name for names in self.named.values() for name in names}
        return {*header} - named - {*self.categorical}

    @property
    def features(self) -> dict[str, list[str]]:
        """Option → the feature columns that it names."""
        return {"drop": self.drop, "categorical": self.categorical}


def plan(
    path: str, header: list[str], roles: Roles, delimiter: str = ","
) -> dict[str, list[str]]:
    """Return the columns to read, each with the texts that mean a missing value.

    Raise Refusal if the header does not fit the roles.

    Args:
        path: name of the table, for error messages.
        header: names of all columns.
        roles: roles of the columns.
        delimiter: character between the values, for error messages.
    """
    check_classes(roles.classes)
    _check_header(path, header, roles.drop)
    _check_names(path, header, roles, delimiter)
    ids = {name for key in ("owner", "group", "split") for name in roles.named[key]}
    kept = [name for name in header if name not in roles.drop]
    return {
        name: [""] if name in ids - {*roles.labels} else roles.missing for name in kept
    }


def arrays(
    path: str,
    table: Mapping[str, Column],
    roles: Roles,
    x: np.ndarray | None = None,
) -> Arrays:
    """Return a data set made of the columns of a table.

    Args:
        path: name of the table, for error messages.
        table: the columns that `plan` returned.
        roles: roles of the columns.
        x: [m, …] inputs; None: the columns without another role.
    """
    named = {name for each in roles.named.values() for name in each}
    names: list[str] = []
    if x is None:
        rest = [column for name, column in table.items() if name not in named]
        x, names = features(path, rest, roles.categorical)
    y, number, words = target(
        [table[name] for name in roles.labels], roles.kind, roles.classes
    )
    who, owners = (
        identifiers(table[roles.owner], "owner") if roles.owner else (None, [])
    )
    what = identifiers(table[roles.group], "group")[0] if roles.group else None
    part = None
    if roles.split:
        column = table[roles.split]
        column.check_whole(", or set data.split to another column", "split")
        where = f"{path}: column '{column.shown}'"
        part = marks(where, np.array(column.texts))[column.codes]
    texts = tuple(names), tuple(words), tuple(owners)
    return Arrays(x, y, number, 1.0, who, what, part, *texts)


def check_named(path: str, header: list[str]) -> None:
    """Raise Refusal if a file does not begin with the names of its columns."""
    values = [number(name) for name in header if name]
    if values and None not in values:
        raise Refusal(
            f"{path}: the first line holds values ({listed(header)}) where the names "
            "of the columns should stand: write them there, or use data 'csv' and give "
            "them in data.columns"
        )


def _check_header(path: str, header: list[str], drop: list[str]) -> None:
    """Raise Refusal if a column has no name, or two have the same name."""
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
    options: Roles,
    delimiter: str,
) -> None:
    """Raise Refusal if an option names no column, or a column has two roles."""
    roles, aside = options.named, options.features
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
            f"data.label = {options.label!r} must name the column to predict, or "
            "several columns, each once"
        )
