"""What a hostile site makes of its replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Random = np.random.Generator


def nothing(random: Random, content: Any) -> None:
    content.clear()


def another_kind(random: Random, content: Any) -> None:
    content["vectors"] = type(content["about"])({"update": random.bytes(50)})


def another_round(random: Random, content: Any) -> None:
    content["about"]["round"] = int(random.integers(1000, 10**9))


def words(random: Random, content: Any) -> None:
    content["about"]["refused"] = "x" * 100_000


def not_a_number(random: Random, content: Any) -> None:
    one = content["vectors"]["update"]
    numbers = np.frombuffer(random.bytes(len(one.data)), np.float32).copy()
    numbers[int(random.integers(len(numbers)))] = np.nan
    one.data = numbers.tobytes()


def infinite(random: Random, content: Any) -> None:
    one = content["vectors"]["update"]
    one.data = np.full(len(one.data) // 4, np.inf, np.float32).tobytes()


def longer(random: Random, content: Any) -> None:
    content["vectors"]["update"].data += random.bytes(4)


def another_shape(random: Random, content: Any) -> None:
    content["vectors"]["update"].shape = (int(random.integers(10**6)), 1)


def doubles(random: Random, content: Any) -> None:
    content["vectors"]["update"].dtype = "float64"


def nobody(random: Random, content: Any) -> None:
    content["about"]["name"] = "s0"


def no_examples(random: Random, content: Any) -> None:
    content["about"]["size"] = -int(random.integers(10**9))


def numpys_own(random: Random, content: Any) -> None:
    content["vectors"] = type(content["vectors"])([random.normal(size=(3, 4))])


def a_third(random: Random, content: Any) -> None:
    content["third"] = content["about"]


CHANGES: list[Callable[[Random, Any], None]] = [
    *(nothing, another_kind, another_round, words, not_a_number, infinite, longer),
    *(another_shape, doubles, nobody, no_examples, numpys_own, a_third),
]
