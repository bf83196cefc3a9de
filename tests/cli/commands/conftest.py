"""Small runs that the tests of several commands look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from troth.cli import app

TINY = """
[data]
name = "digits"
[partition]
name = "iid"
clients = 6
[train]
rounds = 3
steps = 1
batch = 8
[evaluate]
every = 2
[engine]
how = "vmap"
chunk = 6
device = "cpu"
"""
DEPLOYED = """
[partition]
clients = 2
[engine]
device = "cpu"
[deployment]
sites = ["a", "b"]
shape = [1, 8, 8]
classes = 10
scale = 16.0
"""
GRID = """
[grid]
personalizer = ["none", "local", { name = "ditto", lam = 0.5 }]
seed = [0, 1]
"""


def _troth(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(a) for a in arguments])


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def troth() -> Callable[..., Result]:
    """The command line, called with these arguments."""
    return _troth


def _refused(*arguments: object) -> str:
    result = _troth(*arguments)
    assert result.exit_code == 2 and result.stdout == "", result.output
    [line] = result.stderr.splitlines()
    assert line.startswith("troth: ")
    return line


@pytest.fixture(scope="session")
def refused() -> Callable[..., str]:
    """The one line with which a command refuses these arguments."""
    return _refused


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """An experiment of two sites."""
    return _written(tmp_path / "e.toml", DEPLOYED)


@pytest.fixture(scope="session")
def written() -> Callable[[Path, str], Path]:
    """A file with this text."""
    return _written


@pytest.fixture(scope="session")
def tiny() -> str:
    """An experiment that takes a moment."""
    return TINY


@pytest.fixture(scope="session")
def many() -> str:
    """A grid for it."""
    return GRID


@pytest.fixture(scope="session")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A single run, as its command left it."""
    place = tmp_path_factory.mktemp("one")
    file = _written(place / "tiny.toml", TINY + '[personalizer]\nname = "local"\n')
    return place / "out", _troth("run", file, "--out", place / "out", "--json")


@pytest.fixture(scope="session")
def grid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Three personalizers and two seeds."""
    place = tmp_path_factory.mktemp("grid")
    file = _written(place / "many.toml", TINY + GRID)
    return place / "out", _troth("run", file, "--out", place / "out", "--json")
