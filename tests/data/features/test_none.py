"""Nothing is fitted: inputs are as the data have them."""

import numpy as np
import pytest
import torch

import troth
from troth import build, files, lookup
from troth.config import reader
from troth.data.features.none import none
from troth.types import Refusal


def test_it_gives_nothing_and_is_what_happens_unless_something_is_said(tmp_path):
    assert none() is None and lookup.options(none) == {}
    with pytest.raises(Refusal, match="features 'none' has no option 'scale'"):
        reader.from_dict({"features": {"name": "none", "scale": True}})
    tree = {"train": {"rounds": 1}, "engine": {"how": "loop", "chunk": 1}}
    built = build.build(reader.from_dict(tree))
    assert built.prepared is None and not {"imputed", "constant"} & set(built.facts)
    assert built.data.x.dtype == torch.uint8
    [run] = troth.run(tree, out=tmp_path / "run")
    assert not (run.path / files.FEATURES).exists() and "imputed" not in run.clients


def test_missing_values_are_refused_and_the_remedy_named(tmp_path, refuses):
    tree = {
        "data": {"name": "npz", "path": str(tmp_path / "data.npz")},
        "partition": {"name": "iid", "clients": 2},
        "train": {"rounds": 1},
        "engine": {"how": "loop", "chunk": 1},
    }
    x, y = np.zeros((40, 2), np.float32), np.arange(40) % 2
    np.savez(tmp_path / "data.npz", x=x, y=y)
    [run] = troth.run(tree, out=tmp_path / "run")
    x[7, 1] = np.nan
    refuses("x is NaN in 1 of 40 exam.*does not fill them in", run.predict, 0, x)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    why = r"in 1 of 40 examples .*row 7.*set features.name = 'own' or 'federated'"
    refuses(why, troth.cost, tree)
    troth.cost(tree | {"features": "own"})  # the same data, and not from the cache
    refuses(why, troth.cost, tree)
