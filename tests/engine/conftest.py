"""What the tests of the engine share: one thread, a fixed seed, seven tiny clients."""

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny matrices; and several threads wait long for each other on a busy machine."""
    torch.manual_seed(0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tree(tmp_path):
    """Seven clients of unequal size, in float64 on a CPU."""
    owner = np.repeat(np.arange(7), [5, 16, 9, 12, 7, 6, 10])
    x = np.random.default_rng(0).random((len(owner), 3))
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(len(owner)) % 2, owner=owner)
    return {
        "data": {"name": "npz", "path": str(tmp_path / "data.npz")},
        "partition": {"name": "natural", "split": [0.6, 0.1, 0.3]},
        "train": {"rounds": 3, "batch": 4, "precision": "float64"},
        "personalizer": "local",
        "engine": {"device": "cpu"},
    }
