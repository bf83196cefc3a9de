"""What a finished run writes of its clients."""

from typing import Any

import numpy as np
import pytest

from troth import api

TREE: dict[str, Any] = {
    "data": "digits",
    "partition": {"name": "iid", "clients": 5, "split": [0.6, 0.2, 0.2]},
    "train": {"rounds": 3, "steps": 2, "batch": 16, "lr": 0.1},
    "adversary": {"clients": [1]},
    "personalizer": "local",
    "engine": {"how": "vmap", "chunk": 5, "device": "cpu"},
}


def trained(place, **sections):
    (run,) = api.run(TREE | sections, out=place)
    return run


@pytest.mark.parametrize("personalizer", ["local", "none"])
def test_every_client_s_validation_accuracy(tmp_path, personalizer):
    """The means of the summary are means of these columns; they differ from test's."""
    run = trained(tmp_path / "run", personalizer=personalizer)
    t, benign = run.clients, run.clients["malicious"] == 0
    for kind, column in (
        ("personal", "valid_accuracy"),
        ("shared", "shared_valid_accuracy"),
    ):
        mean = run.summary["valid"][kind]["accuracy_mean"]
        assert np.isclose(t[column][benign].mean(), mean)
        right = t[column] * t["valid"]
        assert np.allclose(right, right.round())  # shares of its validation examples
    assert not np.array_equal(t["valid_accuracy"], t["accuracy"])
    assert "valid_loss" not in t


def test_of_a_regression_it_is_the_error(tmp_path):
    tree: dict[str, Any] = {
        "data": {"name": "linear_regression"},
        "partition": {"name": "natural", "split": [0.6, 0.2, 0.2]},
        "model": "linear",
        "adversary": {},
    }
    run = trained(tmp_path / "run", **tree)
    mean = run.summary["valid"]["personal"]["error_mean"]
    assert np.isclose(run.clients["valid_error"].mean(), mean)


def test_without_validation_data_there_is_no_column(tmp_path):
    partition = {**TREE["partition"], "split": [0.8, 0.0, 0.2]}
    run = trained(tmp_path / "run", partition=partition)
    assert not [name for name in run.clients if "valid_" in name]
    assert "valid" not in run.summary
