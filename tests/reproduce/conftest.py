"""Results made up: of cells of Table 8, and files such as scripts leave."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

# The page of results is made by scripts beside them.
sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "reproduce"))

from troth.reproduce import judging, listing
from troth.reproduce.entry import Cell, Entry
from troth.reproduce.kept import Result
from troth.reproduce.settings import SETTINGS, SMALL
from troth.reproduce.store import Store

TABLE8 = listing.find("ditto/table8")


def cell(row="global", column="clean", small=False):
    f = SMALL if small else SETTINGS["Fashion MNIST"].original
    return Cell("Fashion MNIST", row, column, (f.tree,), f, whose=("shared",))


def result(mean, std=0.1):
    shared = {"accuracy_weighted": mean, "accuracy_std": std}
    shared["accuracy_mean"] = mean - 0.01
    summary = {"clients": 500, "malicious": 100, "shared": shared}
    return Result({"summary": summary})


def judged(rows, column="clean"):
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
def made():
    return Made(TABLE8, cell, result, judged)


@pytest.fixture
def whole():
    """Makes up all that a summary has to say, and the accuracy of all models."""

    def made(accuracy=0.5, **more):
        names = ("accuracy_weighted", "accuracy_mean", "accuracy_std")
        model = dict.fromkeys(names, accuracy)
        said = {"clients": 500, "malicious": 0, "seconds": 50.0, "rounds": 1}
        said |= {"client_steps": 100_000}
        return {**said, "personal": model, "shared": model, **more}

    return made


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without data: where they would lie."""
    monkeypatch.setenv("TROTH_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def put():
    """Writes a result into a folder, by its name."""

    def written(home, name, said):
        Store(home).put(name, said)

    return written
