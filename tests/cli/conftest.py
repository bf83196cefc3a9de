"""Small runs that the tests of several commands look at."""

import pytest
from typer.testing import CliRunner

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


def _troth(*arguments):
    return CliRunner().invoke(app.app, [str(a) for a in arguments])


def _written(path, text):
    path.write_text(text)
    return path


@pytest.fixture(scope="session")
def troth():
    """The command line, called with these arguments."""
    return _troth


@pytest.fixture(scope="session")
def refused():
    """The one line with which a command refuses these arguments."""

    def line(*arguments):
        result = _troth(*arguments)
        assert result.exit_code == 2 and result.stdout == "", result.output
        [text] = result.stderr.splitlines()
        assert text.startswith("troth: ")
        return text

    return line


@pytest.fixture
def deployment(tmp_path):
    """An experiment of two sites."""
    return _written(tmp_path / "e.toml", DEPLOYED)


@pytest.fixture(scope="session")
def written():
    """A file with this text."""
    return _written


@pytest.fixture(scope="session")
def tiny():
    """An experiment that takes a moment."""
    return TINY


@pytest.fixture(scope="session")
def many():
    """A grid for it."""
    return GRID


@pytest.fixture(scope="session")
def one(tmp_path_factory):
    """A single run, as its command left it."""
    place = tmp_path_factory.mktemp("one")
    file = _written(place / "tiny.toml", TINY + '[personalizer]\nname = "local"\n')
    return place / "out", _troth("run", file, "--out", place / "out", "--json")


@pytest.fixture(scope="session")
def grid(tmp_path_factory):
    """Three personalizers and two seeds."""
    place = tmp_path_factory.mktemp("grid")
    file = _written(place / "many.toml", TINY + GRID)
    return place / "out", _troth("run", file, "--out", place / "out", "--json")
