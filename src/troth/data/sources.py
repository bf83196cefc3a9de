"""Data that a user passes in memory, such as arrays, tables and data sets of torch.

They become a member of the kind `data`, that is, a function that returns a data set.
Its name contains the digest of the data. The digest is computed again at each call,
because arrays may be changed in place.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from troth import lookup
from troth.data.datasets import _arrays, _frame, _huggingface
from troth.data.datasets._roles import Roles
from troth.types import Arrays, Refusal

_WHERE = "the data"  # in place of a file's name in error messages
_FORMS = (
    "a dictionary of arrays (x, y, and optionally owner, group and split), a pandas "
    "DataFrame, a data set of Hugging Face, one torch data set per client in a list, "
    'or {"dataset": data set, "owner": owners}'
)


def give(data: Any) -> lookup.Given:
    """Register data in memory as a member of the kind `data`, and return the member.

    Args:
        data: One of these:

            - A dictionary of arrays `x`, `y`, and optionally `owner`, `group` and
              `split`, as in an .npz file. A torch data set under `dataset` replaces
              `x` and `y`.
            - `troth.types.Arrays`.
            - A pandas DataFrame, or a `Dataset` or `DatasetDict` of Hugging Face. The
              options of the data set `table` give the columns their roles.
            - Torch data sets with items (x, y), one per client: a list, or a dictionary
              whose keys are the owners' names. A single one is data without owners.

    Raises:
        Refusal: The data are of another type, or lack `x` or `y`.
    """
    if isinstance(data, Arrays):
        return _whole(data)
    if type(data).__module__.startswith("datasets."):
        data = _huggingface.frame(data)
    if isinstance(data, pd.DataFrame):
        return _table(data)
    content = _content(data)
    mark = digest(content)

    def arrays(*, scale: float = 0.0, classes: int | list[str] = 0) -> Arrays:
        """Return the arrays that were given in memory."""
        _check_unchanged(content, mark)
        return _arrays.assembled(_WHERE, content, scale, classes)

    return lookup.give("arrays", mark, arrays)


def returned(name: str, made: Any) -> Arrays:
    """Return the result of a user's function as a data set.

    Args:
        name: name of the function, for error messages.
        made: `Arrays`, a dictionary of arrays, a pair (x, y), or torch data sets. The
            owners may be texts.
    """
    if isinstance(made, Arrays):
        owner = np.asarray(made.owner) if made.owner is not None else np.zeros(0, int)
        if owner.dtype.kind in "iu":
            return made
        names, codes = np.unique(owner.astype(str), return_inverse=True)
        return made._replace(owner=codes.astype(np.int64), owners=(*names.tolist(),))
    pair = isinstance(made, tuple) and len(made) == 2 and not _all_datasets(made)
    try:
        content = _content({"x": made[0], "y": made[1]} if pair else made)
        return _arrays.assembled(_WHERE, content)
    except Refusal as refusal:
        raise Refusal(
            f"data '{name}' returns a {type(made).__name__} that cannot be used; "
            "return troth.types.Arrays, a pair (x, y), or a dictionary of arrays x, y "
            f"and optionally owner, group and split ({refusal})"
        ) from None


def _table(frame: pd.DataFrame) -> lookup.Given:
    mark = _frame.digest(frame)

    def table(*, x: str = "", scale: float = 0.0, **roles: Any) -> Arrays:
        if _frame.digest(frame) != mark:
            raise _changed()
        return _frame.arrays(_WHERE, frame, Roles(**roles), x, scale)

    member = lookup.like(table, lookup.find("data", "table"), without=["path"])
    return lookup.give("table", mark, member)


def _whole(data: Arrays) -> lookup.Given:
    mark = digest_of(data)

    def arrays() -> Arrays:
        """Return the data set that was given in memory."""
        if digest_of(data) != mark:
            raise _changed()
        return data

    return lookup.give("arrays", mark, arrays)


def _check_unchanged(content: Mapping[str, np.ndarray], mark: str) -> None:
    if digest(content) != mark:
        raise _changed()


def _changed() -> Refusal:
    return Refusal(
        "the data in memory have changed since they were given: undo the change, or "
        "train anew with troth.run(…, data=…)"
    )


def digest(content: Mapping[str, np.ndarray], more: str = "") -> str:
    """Return the SHA-256 of arrays by name and of a text: 64 hexadecimal digits."""
    found = hashlib.sha256(more.encode())
    for key in sorted(content):
        values = np.ascontiguousarray(content[key])
        found.update(f"{key} {values.dtype.str} {values.shape} ".encode())
        found.update(values.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def digest_of(arrays: Arrays) -> str:
    """Return the SHA-256 of a data set: 64 hexadecimal digits."""
    fields = arrays._asdict()
    held = {k: v for k, v in fields.items() if isinstance(v, np.ndarray)}
    plain = {k: v for k, v in fields.items() if k not in held and v not in (None, ())}
    return digest(held, repr(plain))


def _content(data: Any) -> dict[str, np.ndarray]:
    """Return name → array of data in any of the forms that `give` accepts."""
    if isinstance(data, Dataset):
        return _items(data)
    if isinstance(data, list | tuple) and _all_datasets(data):
        return _joined(data, np.repeat(np.arange(len(data)), [*map(_length, data)]))
    if isinstance(data, Mapping):
        if _all_datasets(data.values()):
            owners = np.repeat(
                np.array([*map(str, data)]), [*map(_length, data.values())]
            )
            return _joined(data.values(), owners)
        return _named(data)
    raise Refusal(f"data= is of type {type(data).__name__}; it must be {_FORMS}")


def _all_datasets(values: Any) -> bool:
    return len(values) > 0 and all(isinstance(v, Dataset) for v in values)


def _named(data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of a dictionary, including those of a torch data set in it."""
    known = (*_arrays.KEYS, "dataset")
    for key in data:
        if key not in known:
            raise Refusal(
                f"data= has the key {key!r}{lookup.nearest(str(key), known)}; "
                f"it may have: {', '.join(known)}"
            )
    given = dict(data)
    content = _items(given.pop("dataset")) if "dataset" in given else {}
    for key, values in given.items():
        if key in content:
            raise Refusal(f"data= has both {key} and dataset: leave out one of them")
        content[key] = array(key, values)
    for key in ("x", "y"):
        if key not in content:
            raise Refusal(f"data= lacks {key}; it must be {_FORMS}")
    return content


def array(key: str, values: Any) -> np.ndarray:
    """Return values in memory as an array of numbers or texts."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        half = values.dtype == torch.bfloat16  # which numpy does not have
        return np.asarray(values.float() if half else values)
    if np.ma.is_masked(values):
        raise Refusal(
            f"data= has masked values in {key}, which a run would not see as missing; "
            f"give {key}.filled(…), of inputs with NaN"
        )
    try:
        found = np.asarray(values)
    except ValueError:  # raised by numpy
        raise Refusal(
            f"data= has {key} with rows of different lengths; give all the same "
            "length, such as by padding"
        ) from None
    if found.dtype.kind == "O" and all(isinstance(v, str) for v in found.flat):
        found = found.astype(str)  # as pandas stores texts
    if found.dtype.kind not in "biufcSU":
        raise Refusal(
            f"data= has {key} of type {type(values).__name__} with elements of type "
            f"{found.dtype}; give an array of numbers or of texts only, such as "
            f"{_remedy(key, values)}"
        )
    return found


def _remedy(key: str, values: Any) -> str:
    """Return an expression, for the error message, that makes an array of `values`."""
    if hasattr(values, "toarray"):  # a sparse matrix
        return f"{key}.toarray()"
    kind = "'float32'" if key == "x" else "str"
    return f"np.asarray({key}).astype({kind})"


def _length(data: Any) -> int:
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise Refusal(
            f"data= has the {type(data).__name__} without a length; give a torch data "
            "set with __len__ and __getitem__, such as a TensorDataset of its items"
        )
    return len(data)


def _joined(parts: Any, owner: np.ndarray) -> dict[str, np.ndarray]:
    every = [_items(part) for part in parts]
    content = {key: np.concatenate([p[key] for p in every]) for key in ("x", "y")}
    return content | {"owner": owner}


def _items(data: Any) -> dict[str, np.ndarray]:
    """Return the items (x, y) of a torch data set as two arrays."""
    if not isinstance(data, Dataset):
        raise Refusal(
            f"data= has a dataset of type {type(data).__name__}; it must be a "
            "torch.utils.data.Dataset"
        )
    m = _length(data)
    if m == 0:
        raise Refusal(f"data= has a {type(data).__name__} without items; leave it out")
    columns = getattr(data, "tensors", None)  # if it is a TensorDataset
    if columns is None:
        columns = [*zip(*(_pair(data[i], i) for i in range(m)), strict=True)]
    if len(columns) != 2:
        _pair(data[0], 0)
    return {
        key: array(key, values if isinstance(values, Tensor) else _stacked(key, values))
        for key, values in zip(("x", "y"), columns, strict=True)
    }


def _pair(item: Any, i: int) -> tuple[Any, Any]:
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    raise Refusal(
        f"item {i} of a torch data set is not a pair (x, y), but a "
        f"{type(item).__name__}; wrap the data set in one that returns pairs"
    )


def _stacked(key: str, values: Sequence[Any]) -> np.ndarray:
    every = [array(key, value) for value in values]
    shapes = {value.shape for value in every}
    if len(shapes) > 1:
        some = ", ".join(str(list(shape)) for shape in sorted(shapes)[:4])
        raise Refusal(
            f"items of a torch data set have {key} of several shapes ({some}); give "
            "all the same shape, such as by padding or resizing"
        )
    return np.stack(every)
