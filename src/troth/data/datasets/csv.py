"""A user's own table, from one CSV file."""

from typing import Literal

from troth.data.datasets import _roles
from troth.data.datasets._table import MISSING, read
from troth.types import Arrays


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
    classes: int | list[str] = 0,
) -> Arrays:
    """Your own table from a CSV file: a line of names, then one row per example.

    The file is text in UTF-8, which may be gzipped. A text with the delimiter or a line
    break in it must be in quotation marks. Spaces around a value are ignored.

    - Label: texts and whole numbers are classes 0 … C−1 in sorted order. Fractional
      numbers are the targets of a regression. Several columns of 0 and 1 (or true and
      false) are several labels of an example.
    - Owner and group: whole numbers keep their value. Texts are numbered in sorted
      order, and 007 is a text different from 7. Only an empty value is missing.
    - Split: 0, 1, 2 or train, valid, test.
    - All other columns are features. Numbers become float32 (about 7 digits). If they
      are missing, they become NaN, which `[features]` can fill in. True and false
      become 1 and 0. A column of texts becomes one feature per category, 1 if the row
      has this category and 0 otherwise. If the value is missing, all these features are
      0. The categories are those of the whole file, in sorted order. All sites of a
      real federation must agree on them before.

    Args:
        path: Path of the file.
        label: Column to predict, or a list of columns of 0 and 1.
        owner: Column with the owner of each example; "": none.
        group: Column with the group of each example, such as 1 if it conflicts with a
            shortcut; "": none.
        split: Column with the part (train, valid, test) of each example; "": none.
        kind: Type of the label: "labels" (classes), "targets" (numbers), or "auto".
            "auto" decides by the values. For more than 100 different whole numbers it
            raises Refusal, because they may be either.
        drop: Columns to leave out.
        categorical: Columns whose values are categories, even if they are numbers.
        missing: Texts that mean a missing value in labels and features.
        delimiter: Character between values.
        columns: Names of all columns, if the first line of the file does not have them.
        classes: Number of classes if labels are whole numbers 0 … C−1, or the classes'
            names in order; some may have no example. 0: the classes that occur.
    """
    roles = _roles.Roles(
        label, owner, group, split, kind, drop, categorical, missing, classes
    )

    def plan(header: list[str]) -> dict[str, list[str]]:
        _roles.check_named(path, header)
        return _roles.plan(path, header, roles, delimiter)

    return _roles.arrays(path, read(path, delimiter, columns, plan), roles)
