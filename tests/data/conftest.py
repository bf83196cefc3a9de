"""What tests of data share: keys, dealt data and runs that are stopped."""

import numpy as np
import pytest
import torch
from hypothesis import settings

import troth
from troth import files, seeding
from troth.types import Shards

settings.register_profile("data", deadline=None)
settings.load_profile("data")


@pytest.fixture(scope="session")
def keys():
    """Makes one key per example."""
    return lambda b, seed=0: seeding.keys(seed, "test", 0, torch.arange(b))


@pytest.fixture(scope="session")
def shards_of():
    """Makes shards from the sizes of training, validation and test of each client."""

    def shards(each):
        rows = np.random.default_rng(0).permutation(np.sum(each))
        lists = np.split(rows.astype(np.int64), np.cumsum(each)[:-1])
        return Shards(lists[::3], lists[1::3], lists[2::3])

    return shards


@pytest.fixture(scope="session")
def held():
    """Finds the inputs and labels of one client in a split."""

    def inputs(data, split, client):
        first = int(split.start[client])
        own = slice(first, first + int(split.size[client]))
        return data.x[split.row[own]], split.y[own]

    return inputs


@pytest.fixture
def resumed(tmp_path, killed):
    """Compares the files of a run with those of one that was stopped and resumed."""

    def same(tree, done, *more):
        troth.run(tree, out=tmp_path / "whole")
        killed(tree, done, tmp_path / "cut")
        troth.resume(tmp_path / "cut")
        for name in (files.CLIENTS, files.ROUNDS, files.SHARED, *more):
            whole, cut = (tmp_path / part / name for part in ("whole", "cut"))
            assert whole.read_bytes() == cut.read_bytes(), name

    return same
