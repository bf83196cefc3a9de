r"""Read the JSON files of LEAF, which contain users and their examples.

References: caldas2018leaf.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troth.types import Refusal

_LARGEST = float(np.finfo(np.float32).max)


class User(NamedTuple):
    """One user, with the user's examples in one file."""

    name: str
    x: np.ndarray  # [m, width] float64
    y: np.ndarray  # [m] int64


def users(path: Path, width: int | None, remedy: str) -> Iterator[User]:
    """Yield the users of a LEAF file, in the order of its list `users`.

    The file is `{"users": […], "num_samples": […], "user_data": {user: {"x": […], "y":
    […]}}}`. Each label may be in a list of length 1. Users without examples are left
    out, even if only `user_data` has them, as in some files of LEAF. Raise Refusal if
    the file is not valid.

    Args:
        path: the file.
        width: length of an input; None: any length, if it is the same for all examples
            of a user.
        remedy: what to do about a bad file, for error messages.
    """
    try:
        if not path.is_file():  # reading a pipe would block
            raise ValueError("it is no file")
        with open(path, encoding="utf-8") as file:
            content = json.load(file, parse_float=_Numbers().__getitem__)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        why = str(error)[:80] or type(error).__name__
        raise Refusal(f"{path} is not a whole json file ({why}): {remedy}") from None
    try:
        yield from _users(content, width)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"{type(error).__name__}: {str(error)[:120]}"
        raise Refusal(f"{path} is not what LEAF writes ({why}): {remedy}") from None


def _users(content: Any, width: int | None) -> Iterator[User]:
    names, counts = content["users"], content["num_samples"]
    data: dict[str, Any] = content["user_data"]
    if len({*names}) < len(names):
        raise ValueError("a user is named twice")
    for name, count in zip(names, counts, strict=True):
        held = data.pop(name)  # frees its memory when it was converted to an array
        if len(held["y"]) != count or len(held["x"]) != count:
            raise ValueError(f"{name[:40]!r} has not the number of samples promised")
        if not count:
            continue
        x, y = (_finite(held[key], name) for key in ("x", "y"))
        if x.shape != (count, width or x.shape[-1]):
            raise ValueError(
                f"an x of {name[:40]!r} is not {width or 'one list of'} numbers"
            )
        if y.size != count or (np.abs(y) > 2**31).any() or (y % 1).any():
            raise ValueError(f"a y of {name[:40]!r} is not a whole number")
        yield User(name, x.astype(np.float64), y.astype(np.int64).reshape(count))
    if any(held["y"] for held in data.values()):
        raise ValueError(f"{min(data)[:40]!r} has data and is not in 'users'")


def _finite(values: list[Any], name: str) -> np.ndarray:
    """Return numbers as an array; raise ValueError if one is not finite in float32."""
    array = np.array(values)
    if array.dtype.kind not in "iuf" or not (np.abs(array) <= _LARGEST).all():
        raise ValueError(f"{name[:40]!r} holds what is no finite number")
    return array


class _Numbers(dict[str, float]):
    """Cache of text → number.

    The 600 million pixels of FEMNIST have only 256 different values.
    """

    def __missing__(self, text: str) -> float:
        value = float(text)
        if len(self) < 2**16:
            self[text] = value
        return value
