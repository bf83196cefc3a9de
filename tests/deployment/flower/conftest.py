"""Federations for tests: within this process, and as real processes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from troth.data.datasets._files import locate
from troth.data.datasets.heart_disease import SOURCE
from troth.types import Refusal

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "hospitals" / "run.py"


def module(place: Path) -> ModuleType:
    """A file as a module; it needs Flower."""
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    spec = importlib.util.spec_from_file_location(f"troth_{place.stem}", place)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="session")
def loopback() -> Any:
    """Flower's grid within this process."""
    return module(HERE / "_loopback.py")


@pytest.fixture(scope="session")
def malformed() -> Any:
    """What a hostile site makes of its replies."""
    return module(HERE / "_malformed.py")


@pytest.fixture(scope="session")
def hostile() -> Any:
    """Sites that send what they like to a live server."""
    return module(HERE / "_hostile.py")


@pytest.fixture(scope="session")
def example() -> Any:
    """Four hospitals; it starts processes."""
    return module(EXAMPLE)


@pytest.fixture
def deployed(loopback: Any) -> Any:
    return loopback.Deployed


@pytest.fixture
def patients() -> None:
    """Where the data of heart disease are not there, the test is skipped."""
    try:
        locate(SOURCE, None)
    except Refusal as missing:
        pytest.skip(str(missing))


@pytest.fixture
def tree() -> dict[str, Any]:
    """A small experiment of seven sites."""
    return {
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 7},
        "model": {"name": "linear"},
        "train": {"rounds": 5, "steps": 3, "batch": 8, "lr": 0.1},
        "engine": {"device": "cpu", "how": "loop", "chunk": 1},
        "deployment": {
            "sites": [f"s{k}" for k in range(7)],
            "shape": [1, 8, 8],
            "classes": 10,
            "scale": 16.0,
        },
    }


@pytest.fixture
def three(tree: dict[str, Any]) -> dict[str, Any]:
    """A smaller one: a, b and c, each of which keeps a state."""
    tree["partition"]["clients"] = 3
    tree["train"] |= {"rounds": 6, "steps": 2, "batch": 4}
    tree["deployment"]["sites"] = ["a", "b", "c"]
    ditto = {"name": "ditto", "lam": 0.5}
    return {**tree, "personalizer": ditto, "solver": "scaffold"}


@pytest.fixture
def certified() -> Callable[[Path, list[str]], None]:
    """Makes certificates and keys, by the three commands of the page."""
    if not (shutil.which("openssl") and shutil.which("ssh-keygen")):
        pytest.skip("needs openssl and ssh-keygen")
    return certify


def certify(path: Path, names: list[str]) -> None:
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    make = ["openssl", "req", "-x509", *curve, "-days", "2", "-subj"]
    tls = path / "tls"
    tls.mkdir()
    own = ["-keyout", str(path / "ca.key"), "-out", str(tls / "ca.pem")]
    alias = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    above = ["-CA", str(tls / "ca.pem"), "-CAkey", str(path / "ca.key")]
    its = ["-keyout", str(tls / "server.key"), "-out", str(tls / "server.pem")]
    commands = [[*make, "/CN=our CA", *own]]
    commands += [[*make, "/CN=localhost", *alias, *above, *its]]
    kind = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f"]
    commands += [[*kind, str(path / name)] for name in names]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
