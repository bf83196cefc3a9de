"""A site: one client of n with its own data, as a simulation would have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from troth.config import reader
from troth.data import load
from troth.deployment import site as sites
from troth.deployment.site import Site
from troth.types import Refusal

TREE: dict[str, Any] = {
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 3},
    "train": {"rounds": 2, "steps": 2, "batch": 4},
    "engine": {"device": "cpu"},
    "deployment": {
        "sites": ["a", "b", "c"],
        "shape": [1, 8, 8],
        "classes": 10,
        "scale": 16.0,
    },
}


def agreed(**changes: Any) -> Any:
    return sites.agreed(reader.from_dict({**TREE, **changes}))


def deployment(**changes: Any) -> dict[str, Any]:
    return {**TREE["deployment"], **changes}


def saved(path: Path, client: int, **changes: Any) -> str:
    """What a client has in a simulation, as its own file."""
    e = agreed()
    arrays, shards, _ = load.deal(e, None)
    mine = np.sort(np.concatenate([part[client] for part in shards[:3]]))
    content = {"x": arrays.x[mine].astype(np.float32), "y": arrays.y[mine]}
    np.savez(path / "mine.npz", **{**content, **changes})
    return str(path / "mine.npz")


def test_a_file_is_divided_as_a_simulation_divides_it(tmp_path: Path) -> None:
    e = agreed()
    file = sites.own_data(e, 1, saved(tmp_path, 1))
    here = sites.own_data(e, 1, "experiment")
    for mine, theirs in zip(file[1][:3], here[1][:3], strict=True):
        assert [len(part) for part in mine] == [len(part) for part in theirs]
        assert np.array_equal(file[0].x[mine[1]], here[0].x[theirs[1]])
        assert np.array_equal(file[0].y[mine[1]], here[0].y[theirs[1]])


def test_nobody_elses_data_are_at_a_site() -> None:
    site = Site(agreed(), "b", "experiment")
    assert site.client == 1 and site.size > 0
    assert site.data.train.size.tolist()[0::2] == [0, 0]


def test_the_fingerprint_is_of_what_must_be_the_same() -> None:
    same = sites.fingerprint(agreed())
    free = deployment(deadline=5.0, quorum=2, most_examples=9)
    assert sites.fingerprint(agreed(deployment=free)) == same
    assert sites.fingerprint(agreed(data={"name": "npz", "path": "x.npz"})) == same
    for other in (
        agreed(seed=1),
        agreed(aggregator="median"),
        agreed(deployment=deployment(sites=["b", "a", "c"])),
        agreed(deployment=deployment(scale=1.0)),
    ):
        assert sites.fingerprint(other) != same


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"deployment": {}}, "deployment.sites is not set, and server and sites must"),
        ({"deployment": {"sites": ["a"]}}, "deployment.shape is not set"),
        ({"deployment": {"sites": ["a"], "shape": [2]}}, "classes is not set"),
        (
            {"model": {"normalize": "pixel"}},
            "normalize = 'pixel' needs the data of all",
        ),
        (
            {"features": "federated"},
            "features.name = 'federated' needs the data of all",
        ),
        (
            {"train": {"sampling": "size", "cohort": 2}},
            "train.sampling = 'size' needs the data of all",
        ),
        ({"availability": {"drop": 0.5}}, "availability. is for simulations alone"),
        ({"evaluate": {"newcomers": 0.3}}, "newcomers is for simulations alone"),
        ({"train": {"cohort": 4}}, "train.cohort = 4 is more than the 3 clients"),
        ({"deployment": deployment(sites=["a", "a"])}, "holds 'a', twice or with"),
        ({"deployment": deployment(sites=["../x"])}, "holds '../x', twice or with"),
        (
            {"deployment": deployment(shape=[0])},
            "shape = .0. is no shape of an example",
        ),
        ({"deployment": deployment(deadline=0.0)}, "deadline = 0.0 is out of range"),
        ({"deployment": deployment(least=0)}, "least = 0 is out of range"),
    ],
)
def test_what_cannot_be_deployed(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(Refusal, match=why):
        agreed(**changes)


def test_data_that_do_not_fit(tmp_path: Path) -> None:
    e = agreed()
    with pytest.raises(Refusal, match="there is no file"):
        Site(e, "a", str(tmp_path / "none.npz"))
    with pytest.raises(Refusal, match="no site is called 'z'; .* are: a, b, c"):
        Site(e, "z", "experiment")
    with pytest.raises(Refusal, match="y holds 10, .* it has 10 classes, 0 to 9"):
        Site(e, "a", saved(tmp_path, 0, y=np.full(599, 10)))
    shape = r"inputs of shape \[5\] do not fit this model, which takes \[1, 8, 8\]"
    with pytest.raises(Refusal, match=shape):
        Site(e, "a", saved(tmp_path, 0, x=np.zeros((599, 5), np.float32)))
    other = agreed(deployment=deployment(shape=[64]))
    with pytest.raises(Refusal, match=r"says shape \[64\], .* have \[1, 8, 8\], 10"):
        Site(other, "a", "experiment")


def test_a_hostile_site_outvotes_by_itself() -> None:
    """In a drill model replacement multiplies by the number of sites."""
    drill = {"adversary": {"clients": [1]}, "attack": "model_replacement"}
    plain = Site(agreed(**drill, corruption="none"), "b", "experiment")
    quiet = Site(agreed(), "b", "experiment")
    sent = _broadcast(quiet)
    hostile, _ = plain.local(sent, plain.start, 0, False)
    honest, _ = quiet.local(sent, quiet.start, 0, False)
    assert torch.allclose(hostile.update, 3 * honest.update)
    other = Site(agreed(**drill, corruption="none"), "a", "experiment")
    assert not other.hostile


def _broadcast(site: Site) -> Any:
    from troth.types import Broadcast

    w = site.w0
    return Broadcast(w, w.new_zeros(0), w.new_ones(()))
