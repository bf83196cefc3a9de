"""A user's own table: a Parquet, Feather or CSV file, or a folder."""

from typing import Literal

from troth.data.datasets import _frame
from troth.data.datasets._roles import Roles
from troth.data.datasets._table import MISSING
from troth.types import Arrays


def table(
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
    classes: int | list[str] = 0,
    x: str = "",
    scale: float = 0.0,
) -> Arrays:
    """Your own table: a Parquet, Feather or CSV file, or a folder of such files.

    - The ending of a file determines its format: .parquet, .feather, .csv or .csv.gz.
    - In a folder, each file is the table of one owner, whose name is the file's name.
      All files have the same columns.
    - A folder may also be a data set of Hugging Face that was written by
      `save_to_disk`. The split consists of the parts of a `DatasetDict` (train,
      validation, test).

    Parquet and Feather need pyarrow (pip install 'troth[parquet]'), and data sets of
    Hugging Face the library datasets (pip install 'troth[hf]').

    The columns have the same roles as in the data set `csv`. Numbers that are stored as
    numbers are read exactly. The classes of a categorical label (`ClassLabel` of
    Hugging Face) are its categories, in their order. With `x`, the inputs are the cells
    of one column: arrays, nested lists, or encoded images.

    Args:
        path: Path of the file or folder.
        label: Column to predict, or a list of columns of 0 and 1.
        owner: Column with the owner of each example; "": no owners, or in a folder of
            files, the names of the files.
        group: Column with the group of each example, such as 1 if it conflicts with a
            shortcut; "": none.
        split: Column with the part (train, valid, test) of each example; "": none.
        kind: Type of the label: "labels" (classes), "targets" (numbers), or "auto".
        drop: Columns to leave out.
        categorical: Columns whose values are categories, even if they are numbers.
        missing: Texts that mean a missing value in labels and features.
        classes: Number of classes if labels are whole numbers 0 … C−1, or the classes'
            names in order; some may have no example. 0: the classes that occur.
        x: Column of the inputs; "": all columns without another role are features.
        scale: With `x`: value that is scaled to 1; 0: 255 for bytes, otherwise 1.
    """
    roles = Roles(label, owner, group, split, kind, drop, categorical, missing, classes)
    return _frame.arrays(path, _frame.read(path, owner), roles, x, scale)
