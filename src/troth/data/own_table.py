"""A site's own table, read by what all sites agreed on: `[deployment]` names columns.

One site may lack a category that another has, so that what a feature is called, and
which class is which, cannot be learnt from its file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from troth.config.schema import Experiment
from troth.data import preprocess
from troth.data.datasets._encoding import encode
from troth.data.datasets._table import Column, number, read, shown
from troth.data.datasets.csv import MISSING
from troth.types import Refusal

ENDINGS = (".csv", ".csv.gz")


def examples(e: Experiment, path: str) -> dict[str, np.ndarray]:
    """The arrays x and y of a CSV file.

    Args:
        e: with `deployment.features` and `label`, and `labels` where classes have
            names.
        path: the file; its first line names the columns.

    Raises:
        Refusal: the columns are not agreed on, or not there.
    """
    own = e.deployment
    if not own.features or not own.label:
        raise Refusal(
            f"{path} is a table, and all sites must read theirs alike: set deployment."
            "features to the features' names (age, or sex=f for a category) and "
            "deployment.label to the column to predict; or give an .npz file"
        )
    options = {"missing": MISSING, "label": own.label}
    x = encode(Path(path), own.features, options, gaps=preprocess.active(e.features))
    return {"x": x, "y": _labels(path, own.label, own.labels)}


def _labels(path: str, label: str, names: list[str]) -> np.ndarray:
    """What is to be predicted: names of classes, or numbers."""

    def plan(header: list[str]) -> dict[str, Column]:
        if label not in header:
            there = ", ".join(map(shown, header[:20]))
            raise Refusal(
                f"{path} has no column '{shown(label)}', which deployment.label names; "
                f"there are: {there}"
            )
        return {label: Column(path, label, MISSING, True)}

    table = read(path, ",", [], plan)
    column = table.columns[label]
    codes = column.codes()
    if (codes < 0).any():
        raise Refusal(
            f"{path}: column '{column.shown}' has no value in line "
            f"{table.line[(codes < 0).argmax()]}: leave that row out"
        )
    if names:
        words: np.ndarray = np.array(list(column.texts))
        return np.take(words, codes)
    values = [number(text) for text in column.texts]
    if None in values:
        text = shown(list(column.texts)[values.index(None)])
        raise Refusal(
            f"{path}: column '{column.shown}' holds '{text}', which is no number; set "
            "deployment.labels to the names of the classes, in their order"
        )
    found = np.array(values, dtype=np.float64)
    whole = bool((found == found.round()).all())
    return np.take(found.astype(np.int64) if whole else found, codes)
