"""`troth client` refuses before it starts anything."""

import numpy as np
import pytest


@pytest.fixture
def words(deployment, tmp_path):
    """A site, all but its name and data."""
    return ["client", deployment, "--server", "x:1", "--state", tmp_path / "a"]


def test_refusals(words, refused, tmp_path):
    pytest.importorskip("flwr", reason="needs the extra troth[flower]")
    shape = np.zeros((20, 1, 5, 8), np.float32)
    np.savez(tmp_path / "labels.npz", x=np.zeros((20, 1, 8, 8)), y=np.arange(20))
    np.savez(tmp_path / "shape.npz", x=shape, y=np.arange(20) % 10)
    (tmp_path / "x").write_text("nothing of the kind")
    keys, tls = ["--keys", tmp_path / "x"], ["--tls", tmp_path / "x"]
    for name, data, flags, why in (
        ("a", "experiment", [], "give both, or --insecure"),
        ("a", "experiment", keys, "give both, or --insecure"),
        ("a", "experiment", [*keys, "--tls", tmp_path / "no"], "there is no file"),
        ("a", "experiment", [*keys, *tls], "x is no certificate"),
        ("a", tmp_path / "none.npz", None, "there is no file"),
        (
            "a",
            tmp_path / "none.csv",
            None,
            "is a table, and all sites must encode theirs",
        ),
        ("a", tmp_path / "labels.npz", None, "y holds 10, 11, 12, 13, which this run "),
        ("a", tmp_path / "shape.npz", None, "do not fit this model, which takes [1, 8"),
        ("z", "experiment", None, "no site is called 'z'; deployment.sites are: a, b"),
    ):
        more = ["--insecure"] if flags is None else flags
        assert why in refused(*words, "--name", name, "--data", data, *more)
        assert not (tmp_path / "a").exists()
