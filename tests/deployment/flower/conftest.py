"""Federations for tests: within this process, and as real processes."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[2] / "examples" / "hospitals" / "run.py"
if importlib.util.find_spec("flwr") is None:  # the extra troth[flower]
    collect_ignore_glob = ["test_*.py"]


def module(place):
    """A file as a module."""
    spec = importlib.util.spec_from_file_location(f"troth_{place.stem}", place)
    assert spec and spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="session")
def hostile():
    """What hostile sites send, and how they send it to a live server."""
    return module(HERE / "_hostile.py")


@pytest.fixture(scope="session")
def example():
    """Four hospitals; it starts processes."""
    return module(EXAMPLE)


@pytest.fixture(scope="session")
def deployed():
    """An experiment on Flower's grid within this process."""
    return module(HERE / "_loopback.py").Deployed


@pytest.fixture(scope="session")
def lines():
    """The rounds that a server in this folder wrote down."""

    def read(path):
        text = (path / "out" / "rounds.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    return read


@pytest.fixture
def tree():
    """A small experiment of seven sites."""
    sites = [f"s{k}" for k in range(7)]
    return {
        "data": {"name": "digits"},
        "partition": {"name": "iid", "clients": 7},
        "model": {"name": "linear"},
        "train": {"rounds": 5, "steps": 3, "batch": 8, "lr": 0.1},
        "engine": {"device": "cpu", "how": "loop", "chunk": 1},
        "deployment": {
            **{"sites": sites, "shape": [1, 8, 8], "classes": 10, "scale": 16.0}
        },
    }


@pytest.fixture
def three(tree):
    """A smaller one: a, b and c, each of which keeps a state."""
    tree["partition"]["clients"] = 3
    tree["train"] |= {"rounds": 6, "steps": 2, "batch": 4}
    tree["deployment"]["sites"] = ["a", "b", "c"]
    ditto = {"name": "ditto", "lam": 0.5}
    return {**tree, "personalizer": ditto, "solver": "scaffold"}


@pytest.fixture(scope="session")
def certified():
    """Makes certificates and keys, by the three commands of the page."""
    if not (shutil.which("openssl") and shutil.which("ssh-keygen")):
        pytest.skip("needs openssl and ssh-keygen")
    return certify


def certify(path, names):
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
