r"""The json files of LEAF: who holds which examples.

References: caldas2018leaf.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troth.types import Refusal

_KEYS = ("users", "num_samples", "user_data")
_LARGEST = float(np.finfo(np.float32).max)


class User(NamedTuple):
    """One user of a file, and what it holds there."""

    name: str
    x: np.ndarray  # [m, width] float64
    y: np.ndarray  # [m] int64


def users(path: Path, width: int, remedy: str) -> Iterator[User]:
    """The users of a LEAF file, in the order of its list `users`.

    The file is `{"users": […], "num_samples": […], "user_data": {user: {"x": […],
    "y": […]}}}`. A label may stand in a list of its own. Users without examples are
    passed over, and so are those that LEAF leaves behind empty in `user_data`.

    Raises:
        Refusal: not whole, or its parts do not agree; says where.
    """
    names, counts, data = _parts(path, remedy)
    try:
        _agree(names, counts, data)
        for name, count in zip(names, counts, strict=True):
            held = data.pop(name)  # popped: freed as soon as it is an array
            if count:
                yield _user(name, count, held, width)
    except ValueError as error:
        raise Refusal(f"{path} {error}: {remedy}") from None


def _agree(names: list[Any], counts: list[Any], data: dict[str, Any]) -> None:
    """Whether the three parts speak of the same users and the same examples."""
    if not all(isinstance(name, str) for name in names) or len(names) > len({*names}):
        raise ValueError("does not name every user once, as a text, in 'users'")
    if len(counts) != len(names):
        raise ValueError(
            f"has {len(names)} users and {len(counts)} numbers of their samples"
        )
    for name, held in data.items():
        x, y = (held.get("x"), held.get("y")) if isinstance(held, dict) else (0, 0)
        if not (isinstance(x, list) and isinstance(y, list) and len(x) == len(y)):
            raise ValueError(f"does not hold an x for every y of {name[:40]!r}")
    for name, count in zip(names, counts, strict=True):
        there = len(data[name]["y"]) if name in data else 0
        if type(count) is not int or count != there or name not in data:
            raise ValueError(
                f"promises {str(count)[:20]} samples of {name[:40]!r} and holds {there}"
            )
    if strange := [name for name in {*data} - {*names} if data[name]["y"]]:
        raise ValueError(f"holds data of {min(strange)[:40]!r}, who is not in 'users'")


def _user(name: str, count: int, held: dict[str, list[Any]], width: int) -> User:
    x, y = _numbers(held["x"]), _numbers(held["y"])
    if x is None or x.shape != (count, width):
        raise ValueError(f"has an x of {name[:40]!r} that is not {width} numbers")
    if y is None or y.size != count or (np.abs(y) > 2**31).any() or (y % 1).any():
        raise ValueError(f"has a y of {name[:40]!r} that is not a whole number")
    return User(name, x.astype(np.float64), y.astype(np.int64).reshape(count))


def _numbers(values: list[Any]) -> np.ndarray | None:
    """An array of numbers that are finite in float32 too, or None."""
    try:
        array = np.array(values)
    except (ValueError, OverflowError):  # rows of several lengths
        return None
    good = array.dtype.kind in "iuf" and (np.abs(array) <= _LARGEST).all()
    return array if good else None


def _parts(path: Path, remedy: str) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """The three parts of a file."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ValueError("it is no file")
        with open(path, encoding="utf-8") as file:
            content: Any = json.load(file, parse_float=_Numbers().__getitem__)
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        why = str(error)[:80] or type(error).__name__
        raise Refusal(f"{path} is not a whole json file ({why}): {remedy}") from None
    table = content if isinstance(content, dict) else {}
    parts: list[Any] = [table.get(key) for key in _KEYS]
    names, counts, data = parts
    lists = isinstance(names, list) and isinstance(counts, list)
    if not (lists and isinstance(data, dict)):
        raise Refusal(
            f"{path} is not LEAF json, which holds the lists 'users' and 'num_samples' "
            f"and the table 'user_data': {remedy}"
        )
    return names, counts, data


class _Numbers(dict[str, float]):
    """Text → number, each made once: FEMNIST's 600 million pixels have 256 values."""

    def __missing__(self, text: str) -> float:
        value = float(text)
        if len(self) < 2**16:
            self[text] = value
        return value
