"""A federation within this process, for tests of what runs on Flower."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def loopback() -> Any:
    """The module beside this one, which needs Flower."""
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    place = Path(__file__).with_name("_loopback.py")
    spec = importlib.util.spec_from_file_location("troth_loopback", place)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def deployed(loopback: Any) -> Any:
    return loopback.Deployed


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
