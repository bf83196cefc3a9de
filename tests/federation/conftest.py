"""Small federations, whose examples lie in a file."""

import numpy as np
import pytest

from troth.build import build
from troth.config import reader
from troth.engine.local_training import Plan

SIZES = [6, 9, 14, 20, 5, 11]  # examples of each client


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """Examples of 3 features and 2 classes."""
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.random((len(owner), 3))
    where = tmp_path_factory.mktemp("data") / "data.npz"
    np.savez(where, x=x, y=random.integers(0, 2, len(owner)), owner=owner)
    return where


@pytest.fixture(scope="session")
def tree(path):
    """Makes sections of an experiment; those of [train] are added to these."""

    def made(**sections):
        train = {"rounds": 6, "cohort": 4, "batch": 4, "precision": "float64"}
        return {
            "data": {"name": "npz", "path": str(path)},
            "partition": {"name": "natural", "split": [0.6, 0.1, 0.3]},
            "engine": {"device": "cpu"},
            **sections,
            "train": train | sections.get("train", {}),
        }

    return made


@pytest.fixture(scope="session")
def built(tree):
    """Makes federations."""

    def made(plan=None, **sections):
        wanted = reader.from_dict(tree(**sections))
        return build(wanted, plan=plan or Plan("threads", 1, 1))

    return made
