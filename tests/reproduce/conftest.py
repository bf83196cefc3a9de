"""Results made up: of cells of Table 8, and files such as scripts leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from troth.reproduce import judging, listing
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.kept import Result
from troth.reproduce.settings import SETTINGS, SMALL
from troth.reproduce.store import Store

TABLE8 = listing.find("ditto/table8")


def cell(row: str = "global", column: str = "clean", small: bool = False) -> Cell:
    f = SMALL if small else SETTINGS["Fashion MNIST"].original
    return Cell("Fashion MNIST", row, column, (f.tree,), f, whose=("shared",))


def result(mean: float, std: float = 0.1) -> Result:
    shared = {"accuracy_weighted": mean, "accuracy_std": std, "accuracy_mean": 0.0}
    summary: dict[str, Any] = {"clients": 500, "malicious": 100, "shared": shared}
    return Result({"summary": summary})


def judged(rows: dict[str, float], column: str = "clean") -> list[judging.Judged]:
    return [
        judging.judge(TABLE8, cell(row, column), [result(mean)])
        for row, mean in rows.items()
    ]


class Made(NamedTuple):
    """The table, and what makes its cells and their results."""

    table: Entry
    cell: Callable[..., Cell]
    result: Callable[..., Result]
    judged: Callable[..., list[judging.Judged]]


@pytest.fixture
def made() -> Made:
    return Made(TABLE8, cell, result, judged)


@pytest.fixture
def whole() -> Callable[..., dict[str, Any]]:
    """Makes up all that a summary has to say, and the accuracy of all models."""

    def made(accuracy: float = 0.5, **more: object) -> dict[str, Any]:
        names = ("accuracy_weighted", "accuracy_mean", "accuracy_std")
        model = dict.fromkeys(names, accuracy)
        said = {"clients": 500, "malicious": 0, "seconds": 50.0, "rounds": 1}
        said |= {"client_steps": 100_000}
        return {**said, "personal": model, "shared": model, **more}

    return made


@pytest.fixture
def put() -> Callable[[Path, str, object], None]:
    """Writes a result into a folder, by its name."""

    def written(home: Path, name: str, said: Any) -> None:
        Store(home).put(name, said)

    return written
