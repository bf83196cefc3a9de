"""Heart disease at four hospitals: a natural federation of 920 patients.

References: janosi1988heart.
"""

import math
from pathlib import Path
from typing import Literal

import numpy as np

from troth.data.datasets._files import Remote, Source, again, locate, text
from troth.types import Arrays, Refusal

HOSPITALS = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}
"""Hospital → number of patients. Hospitals are numbered in this order."""

COLUMNS: dict[str, tuple[int, ...]] = {
    "age": (),
    "sex": (0, 1),
    "cp": (1, 2, 3, 4),
    "trestbps": (),
    "chol": (),
    "fbs": (0, 1),
    "restecg": (0, 1, 2),
    "thalach": (),
    "exang": (0, 1),
    "oldpeak": (),
    "slope": (1, 2, 3),
    "ca": (0, 1, 2, 3),
    "thal": (3, 6, 7),
    "num": (0, 1, 2, 3, 4),
}
"""Column → its possible codes; () for a measurement."""

_KINDS = ("cp", "restecg", "slope", "thal")  # columns with codes that have no order
_NEVER_ZERO = ("trestbps", "chol")  # measurements that cannot be 0
_ROOT = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease"
_SIZES = {"cleveland": 18_461, "hungarian": 10_263, "switzerland": 4_109, "va": 6_737}
_FILES = tuple(f"processed.{hospital}.data" for hospital in HOSPITALS)

SOURCE = Source(
    name="heart_disease",
    folder="heart_disease",
    files=_FILES,
    page="https://archive.ics.uci.edu/dataset/45/heart+disease",
    licence="CC BY 4.0",
    remotes=tuple(
        Remote(f"{_ROOT}/processed.{hospital}.data", size=size)
        for hospital, size in _SIZES.items()
    ),
)


def heart_disease(
    data_dir: str | None = None,
    *,
    label: Literal["presence", "severity"] = "presence",
    encode: bool = True,
    zeros_missing: bool = True,
) -> Arrays:
    """Heart disease (UCI): 920 patients of four hospitals, 13 findings each.

    The function reads the publisher's
    `processed.{cleveland,hungarian,switzerland,va}.data`, with 303, 294, 123 and 200
    patients. `owner` is the hospital, numbered 0 to 3 in this order. Missing values
    ('?') are NaN in `x`. The methods "own" and "federated" of `[features]` fill them
    in.

    Args:
        data_dir: Folder to search first for the files.
        label: Label: "presence" of disease (`num` above 0) or "severity" (`num`, 0 …
            4). `num` is a column of the publisher's files. In Hungary, it is only 0 or
            1.
        encode: Whether codes without an order become indicators. If true, each of cp,
            restecg, slope and thal becomes one indicator per code, and there are 22
            features. If a code is missing, all its indicators are 0. If false, there
            are 13 numbers, and missing codes are NaN.
        zeros_missing: Whether a resting blood pressure or cholesterol of 0 becomes NaN.
            No living patient has such a value, so 0 must mean missing. The files have 0
            for all 123 cholesterol values of Switzerland, and for 49 cholesterol values
            and one blood pressure of Long Beach (va). If false, these values stay 0.
    """
    place = locate(SOURCE, data_dir)
    sizes = list(HOSPITALS.values())
    tables = [_read(place / file, n) for file, n in zip(_FILES, sizes, strict=True)]
    table = np.concatenate(tables)
    columns = dict(zip(COLUMNS, table.T, strict=True))
    num = columns.pop("num").astype(np.int64)
    if zeros_missing:
        for name in _NEVER_ZERO:
            columns[name][columns[name] == 0] = np.nan
    features: list[np.ndarray] = []
    for name, values in columns.items():  # a missing code, NaN, equals no code
        codes = COLUMNS[name] if encode and name in _KINDS else ()
        features += [values == code for code in codes] or [values]
    x = np.column_stack(features)
    owner = np.repeat(np.arange(len(HOSPITALS)), sizes)
    y, classes = (num, 5) if label == "severity" else ((num > 0).astype(np.int64), 2)
    return Arrays(x.astype(np.float32), y, classes, owner=owner)


def _read(path: Path, patients: int) -> np.ndarray:
    """Return the table of a hospital, [patients, 14], in which '?' becomes NaN."""
    lines = text(path, again(SOURCE)).split()
    try:
        rows = [[_value(cell) for cell in line.split(",")] for line in lines]
        table = np.array(rows).reshape(patients, len(COLUMNS))
        for (name, codes), column in zip(COLUMNS.items(), table.T, strict=True):
            known = column if name == "num" else column[~np.isnan(column)]
            if not (np.isin(known, codes) if codes else np.isfinite(known)).all():
                raise ValueError(f"{name} holds another value")
    except ValueError as error:
        raise Refusal(
            f"{path} is not the publisher's table of {patients} patients and "
            f"{len(COLUMNS)} values each ({str(error)[:80]}): {again(SOURCE)}"
        ) from None
    return table


def _value(cell: str) -> float:
    return math.nan if cell == "?" else float(cell)
