"""Read a user's table as a pandas DataFrame, and make a data set of it.

The role of a column says whether it is a label, an owner, a group, a split or a
feature. In all functions, `where` is the name of the table for error messages.
"""

import hashlib
import io
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from PIL import Image

from troth.data.datasets import _files, _huggingface, _roles, _table
from troth.data.datasets._arrays import inputs
from troth.data.datasets._roles import Roles
from troth.data.datasets._table import Column, column_of, listed, shown
from troth.types import Arrays, Refusal

_ENDINGS = (".parquet", ".feather", ".csv", ".csv.gz")
_KINDS = "a table whose name ends in .parquet, .feather, .csv or .csv.gz"
_FILE = "file"  # column that names the owner of each file of a folder


def arrays(
    where: str, frame: pd.DataFrame, roles: Roles, x: str = "", scale: float = 0.0
) -> Arrays:
    """Return a table as a data set.

    Args:
        where: name of the table, for error messages.
        frame: the table; its index is ignored. Its `attrs` may name columns for the
            roles `owner` and `split`.
        roles: roles of the columns.
        x: column with the inputs, which are arrays or images; "": all columns without
            another role are features.
        scale: value of x that is scaled to 1; 0: 255 for bytes, otherwise 1.
    """
    if len(frame) == 0:
        raise Refusal(f"{where} has no rows: it needs one row per example")
    header = [*map(str, frame.columns)]
    roles = _completed(frame, header, roles)
    plan = _roles.plan(where, header, roles)
    if not x:
        if scale:
            raise Refusal(
                f"data.scale = {scale} has no effect on a table of features; remove "
                "it, or set data.x to the column of the images"
            )
        table = columns(where, frame, plan, roles.numeric(header))
        return _roles.arrays(where, table, roles)
    named = [name for each in roles.named.values() for name in each]
    if x not in header or x in named:
        which = "has another role" if x in header else "is no column"
        raise Refusal(
            f"data.x = '{shown(x)}' {which}; it must be the column of the inputs; "
            f"there are: {listed([name for name in header if name not in named])}"
        )
    values = inputs(where, _stacked(where, x, frame.iloc[:, header.index(x)]))
    table = columns(where, frame, {name: plan[name] for name in named}, set())
    made = _roles.arrays(where, table, roles, values)
    return made._replace(scale=scale or (255.0 if values.dtype == np.uint8 else 1.0))


def _completed(frame: pd.DataFrame, header: list[str], roles: Roles) -> Roles:
    """Return the roles with additions from the table itself.

    These are columns that its reader added, and the classes of a categorical label.
    """
    found = {k: v for k, v in frame.attrs.items() if not getattr(roles, k)}
    if len(roles.labels) == 1 and not roles.classes and roles.labels[0] in header:
        kind = frame.dtypes.iloc[header.index(roles.labels[0])]
        if isinstance(kind, pd.CategoricalDtype) and roles.kind != "targets":
            found["classes"] = [*map(_text, kind.categories)]
    return roles._replace(**found)


def read(path: str, owner: str = "") -> pd.DataFrame:
    """Read a Parquet, Feather or CSV file, or a folder.

    A folder has such files, or is a data set that was saved by Hugging Face's library.

    Args:
        path: the file or the folder.
        owner: column of the owners; "": each file of a folder has one owner.
    """
    place = Path(path).expanduser()
    if not place.is_dir():
        return _file(path, Path(_files.own_file(path, f"set data.path to {_KINDS}")))
    if _huggingface.saved(place):
        return _huggingface.read(place)
    places = [p for p in sorted(place.iterdir()) if p.name.endswith(_ENDINGS)]
    if not places:
        raise Refusal(f"there is no table in the folder '{path}': put {_KINDS} there")
    every = [_file(str(p), p) for p in places]
    for p, frame in zip(places, every, strict=True):
        if [*frame.columns] != [*every[0].columns]:
            odd = {*frame.columns} ^ {*every[0].columns}
            what = f"other columns ({listed(sorted(odd))})" if odd else "another order"
            raise Refusal(
                f"{p} has {what} of columns than {places[0]}; all files of a folder "
                "must have the same columns"
            )
    if owner:
        return pd.concat(every, ignore_index=True)
    if _FILE in every[0].columns:
        raise Refusal(
            f"the files of '{path}' have a column '{_FILE}', which would name the "
            "owner of each file; rename it, or set data.owner"
        )
    frame = pd.concat(
        [f.assign(**{_FILE: name_of(p)}) for f, p in zip(every, places, strict=True)],
        ignore_index=True,
    )
    frame.attrs["owner"] = _FILE
    return frame


def name_of(place: Path) -> str:
    """Return the name of a file without its ending, such as .csv.gz."""
    return place.name.removesuffix(next(e for e in _ENDINGS if place.name.endswith(e)))


def _file(path: str, place: Path) -> pd.DataFrame:
    if path.endswith((".csv", ".csv.gz")):
        return _csv(path)
    readers = {".parquet": pd.read_parquet, ".feather": pd.read_feather}
    if place.suffix not in readers:
        raise Refusal(f"{path} ends in '{place.suffix}': give {_KINDS}")
    try:
        return readers[place.suffix](place)
    except ImportError:
        raise Refusal(
            f"{path} needs pyarrow to be read: pip install 'troth[parquet]'"
        ) from None
    except Exception as error:  # Arrow raises many types for damaged files
        raise Refusal(f"{path} cannot be read ({error}): write it again") from None


def _csv(path: str) -> pd.DataFrame:
    """Read the columns of a CSV file as texts; missing ones are empty."""

    def plan(header: list[str]) -> dict[str, list[str]]:
        _roles.check_named(path, header)
        return dict.fromkeys(header, [""])

    table = _table.read(path, ",", [], plan)
    texts = {n: np.take(np.array([*c.texts, ""]), c.codes) for n, c in table.items()}
    return pd.DataFrame(texts)


def columns(
    where: str,
    frame: pd.DataFrame,
    wanted: Mapping[str, Collection[str]],
    numeric: Collection[str],
) -> dict[str, Column]:
    """Return columns of a table, equal to those of a CSV file with the same values.

    Args:
        where: name of the table, for error messages.
        frame: the table.
        wanted: the columns, each with the texts that mean a missing value.
        numeric: columns that may be features; numbers are not converted to texts.
    """
    found, rows = {}, np.arange(len(frame))
    for i, name in enumerate(map(str, frame.columns)):
        if name not in wanted:
            continue
        series = frame.iloc[:, i]
        codes, texts = factorized(where, name, series)
        column = column_of(where, name, texts, codes, wanted[name], rows)
        if name in numeric and is_numeric_dtype(series) and not is_bool_dtype(series):
            with np.errstate(over="ignore"):
                values = series.to_numpy(np.float64, na_value=np.nan)
                column = column._replace(values=values.astype(np.float32))
        found[name] = column._replace(unit="row")
    return found


def factorized(
    where: str, name: str, series: pd.Series
) -> tuple[np.ndarray, list[str]]:
    """Return the index of each row's text (−1: missing), and the distinct texts."""
    try:
        codes, values = pd.factorize(series)
    except TypeError:
        raise Refusal(
            f"{where}: column '{shown(name)}' holds values such as "
            f"{type(series.iloc[0]).__name__}, which are neither numbers nor texts: "
            "add it to data.drop, or set data.x to it if these are the inputs"
        ) from None
    if any(isinstance(value, complex | np.complexfloating) for value in values):
        raise Refusal(
            f"{where}: column '{shown(name)}' holds complex numbers; replace it by two "
            "columns of real numbers, such as the real and the imaginary part, or add "
            "it to data.drop"
        )
    return codes, [_text(value) for value in values]


def _text(value: Any) -> str:
    """Return a value as text, as in a CSV file; 3.0 becomes 3."""
    if isinstance(value, float | np.floating):
        value = float(value)
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _stacked(where: str, name: str, series: pd.Series) -> np.ndarray:
    """Return the cells of a column as one array [m, …]."""
    cells = [_cell(where, name, cell, i) for i, cell in enumerate(series)]
    shapes = {cell.shape for cell in cells}
    if len(shapes) > 1:
        some = ", ".join(str([*shape]) for shape in sorted(shapes)[:4])
        raise Refusal(
            f"{where}: column '{shown(name)}' holds inputs of several shapes ({some}); "
            "give all the same shape, such as by resizing"
        )
    return np.stack(cells)


def _cell(where: str, name: str, cell: Any, row: int) -> np.ndarray:
    """Return one input: an array, a nested list, an image, or its encoded bytes."""
    try:
        if isinstance(cell, dict):  # an image in a data set of Hugging Face
            cell = cell["bytes"] or Path(cell["path"]).read_bytes()
        if isinstance(cell, bytes):
            cell = Image.open(io.BytesIO(cell))
        found = np.asarray(cell)
        if found.dtype == object:  # a list of arrays: a matrix in a Parquet file
            found = np.array([np.stack(part) for part in cell])
        if found.dtype.kind in "biuf":
            return found
        raise ValueError(f"it is {type(cell).__name__}")
    except Exception as error:  # Pillow raises many types for damaged files
        raise Refusal(
            f"{where}: column '{shown(name)}' holds no array and no image in row {row} "
            f"({error}): correct it, or set data.x to another column"
        ) from None


def digest(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a table: 64 hexadecimal digits."""
    found = hashlib.sha256()
    for i, name in enumerate(map(str, frame.columns)):
        series = frame.iloc[:, i]
        kind: Any = series.dtype
        words = [*kind.categories] if isinstance(kind, pd.CategoricalDtype) else kind
        found.update(f"{name!r} {words} {len(series)} ".encode())
        if is_numeric_dtype(series) and not series.hasnans:
            found.update(np.ascontiguousarray(series.to_numpy()).tobytes())
        else:
            for cell in series:
                for part in _bytes(cell):
                    found.update(part)
    return found.hexdigest()


def _bytes(cell: Any) -> Iterator[bytes]:
    if isinstance(cell, bytes):
        yield cell
    elif isinstance(cell, dict):
        for key in sorted(cell):
            yield str(key).encode()
            yield from _bytes(cell[key])
    elif isinstance(cell, np.ndarray) and cell.dtype != object:
        yield f"{cell.dtype.str} {cell.shape}".encode()
        yield np.ascontiguousarray(cell).tobytes()
    elif isinstance(cell, list | tuple | np.ndarray):
        yield f"{len(cell)}".encode()
        for part in cell:
            yield from _bytes(part)
    elif isinstance(cell, Image.Image):
        yield from _bytes(np.asarray(cell))
    else:
        yield f"{_text(cell)!r} ".encode()
