"""The server of three sites, and what they may answer."""

import math

import pytest
import torch

from troth.config import reader
from troth.deployment import site
from troth.deployment.protocol import Answer
from troth.deployment.server import Hub

TREE = {
    "train": {"rounds": 3, "batch": 4},
    "engine": {"device": "cpu"},
    "deployment": {"sites": ["a", "b", "c"], "shape": [4], "classes": 2},
}


@pytest.fixture(scope="session")
def hub():
    """A server with changes of this experiment; its model has ten parameters."""
    return lambda **changes: Hub(
        site.agreed(reader.from_dict({**TREE, **changes})), "0" * 16
    )


@pytest.fixture(scope="session")
def answer():
    """A reply whose update has this value everywhere."""
    return lambda value, card=None: Answer(
        torch.full((10,), float(value)), torch.zeros(0), math.nan, 5, card or {}
    )
