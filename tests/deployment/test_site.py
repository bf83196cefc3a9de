"""A site: one client of n with its own data, as a simulation would have it."""

import json

import numpy as np
import pytest
import torch

from troth import files
from troth.config import reader
from troth.data import load
from troth.deployment import site as sites
from troth.deployment.site import Asked, Site
from troth.types import Broadcast, Refusal

RUN = "0123456789abcdef"
TEN, SHORT = np.full(599, 10), {"x": np.zeros((599, 5), np.float32)}
DEPLOYMENT = {"sites": ["a", "b", "c"], "shape": [1, 8, 8], "classes": 10}
TREE = {
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 3},
    "train": {"rounds": 2, "steps": 2, "batch": 4},
    "engine": {"device": "cpu"},
    "deployment": {**DEPLOYMENT, "scale": 16.0},
}


def agreed(**changes):
    return sites.agreed(reader.from_dict({**TREE, **changes}))


def deployment(**changes):
    return {**TREE["deployment"], **changes}


def saved(path, client, **changes):
    """What a client has in a simulation, as its own file."""
    arrays, shards, _ = load.deal(agreed(), None)
    mine = np.sort(np.concatenate([part[client] for part in shards[:3]]))
    content = {"x": arrays.x[mine].astype(np.float32), "y": arrays.y[mine]}
    np.savez(path / "mine.npz", **{**content, **changes})
    return str(path / "mine.npz")


@pytest.fixture(scope="module")
def site():
    two = {"partition": {"name": "iid", "clients": 2}}
    two |= {"deployment": deployment(sites=["a", "b"])}
    ditto = {"name": "ditto", "lam": 0.5}
    return Site(agreed(personalizer=ditto, **two), "b", "experiment")


def sent(site):
    return Broadcast(site.w0, site.w0.new_zeros(0), site.w0.new_ones(()))


def test_a_file_is_divided_as_a_simulation_divides_it(tmp_path):
    e = agreed()
    file = sites.own_data(e, 1, saved(tmp_path, 1))
    here = sites.own_data(e, 1, "experiment")
    for mine, theirs in zip(file[1][:3], here[1][:3], strict=True):
        assert [len(part) for part in mine] == [len(part) for part in theirs]
        assert np.array_equal(file[0].x[mine[1]], here[0].x[theirs[1]])
        assert np.array_equal(file[0].y[mine[1]], here[0].y[theirs[1]])


def test_nobody_elses_data_are_at_a_site():
    site = Site(agreed(), "b", "experiment")
    assert site.client == 1 and site.size > 0
    assert site.data.train.size.tolist()[0::2] == [0, 0]


def test_the_fingerprint_is_of_what_must_be_the_same():
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
        ({"model": {"normalize": "pixel"}}, "= 'pixel' needs the data of all"),
        ({"features": "federated"}, "= 'federated' needs the data of all"),
        ({"train": {"sampling": "size", "cohort": 2}}, "= 'size' needs the data of"),
        ({"availability": {"drop": 0.5}}, "availability. is only for simulations"),
        ({"evaluate": {"newcomers": 0.3}}, "newcomers is only for simulations"),
        ({"train": {"cohort": 4}}, "train.cohort = 4 is more than the 3 clients"),
        ({"deployment": deployment(sites=["a", "a"])}, "holds 'a' twice, or"),
        ({"deployment": deployment(sites=["../x"])}, "holds '../x' twice, or"),
        ({"deployment": deployment(shape=[0])}, "shape = .0. is no shape of an exam"),
        ({"deployment": deployment(deadline=0.0)}, "deadline = 0.0 is out of range"),
        ({"deployment": deployment(least=0)}, "least = 0 is out of range"),
    ],
)
def test_what_cannot_be_deployed(changes, why):
    with pytest.raises(Refusal, match=why):
        agreed(**changes)


@pytest.mark.parametrize(
    ("name", "why", "shape", "changes"),
    [
        ("z", "no site is called 'z'; .* are: a, b, c", [1, 8, 8], None),
        ("a", r"says shape \[64\], .* have \[1, 8, 8\], 10", [64], None),
        ("a", "y holds 10, .* it has 10 classes, 0 to 9", [1, 8, 8], {"y": TEN}),
        ("a", r"shape \[5\] do not fit this model, .* \[1, 8, 8\]", [1, 8, 8], SHORT),
    ],
)
def test_data_that_do_not_fit(tmp_path, name, why, shape, changes):
    e = agreed(deployment=deployment(shape=shape))
    data = "experiment" if changes is None else saved(tmp_path, 0, **changes)
    with pytest.raises(Refusal, match=why):
        Site(e, name, data)


def test_a_malicious_site_outvotes_by_itself():
    """In a drill model replacement multiplies by the number of sites."""
    drill = {"adversary": {"clients": [1]}, "attack": "model_replacement"}
    drill |= {"corruption": "none"}
    malicious, honest = Site(agreed(**drill), "b", "experiment"), agreed()
    quiet = Site(honest, "b", "experiment")
    own, _ = malicious.local(sent(quiet), malicious.start, 0, False)
    other, _ = quiet.local(sent(quiet), quiet.start, 0, False)
    assert torch.allclose(own.update, 3 * other.update)
    assert not Site(agreed(**drill), "a", "experiment").hostile


def test_a_card_tells_of_what_the_round_began_with(tmp_path, site):
    messages, card = sites.train(site, tmp_path, sent(site), Asked(0, RUN, False, True))
    found = json.loads(card)
    assert found["personal_accuracy"] == found["shared_accuracy"]  # both are w0 yet
    assert messages.update.abs().max() > 0
    kept = sorted(p.name for p in (tmp_path / RUN).iterdir())
    assert kept == ["00000000.safetensors", "00000001.safetensors"]
    asked = Asked(1, RUN, False, True)
    later = json.loads(sites.train(site, tmp_path, sent(site), asked)[1])
    assert later["personal_loss"] < later["shared_loss"]
    quiet = Asked(1, RUN, False, False)
    assert sites.train(site, tmp_path, sent(site), quiet)[1] == ""


def test_the_end_leaves_a_model_and_a_card(tmp_path, site):
    sites.train(site, tmp_path, sent(site), Asked(0, RUN, False, False))
    told = sites.finish(site, tmp_path, sent(site), Asked(1, RUN, False, False))
    card = json.loads((tmp_path / RUN / "card.json").read_text())
    assert card["name"] == "b" and card["run"] == RUN
    assert {k: card[k] for k in json.loads(told)} == json.loads(told)
    own = files.load(tmp_path / RUN / "model.safetensors")[0]
    assert sum(t.numel() for t in own.values()) >= 650
    state = site.engine.objective.net.state_dict()
    assert any(not torch.equal(t, state[key]) for key, t in own.items())


@pytest.mark.parametrize(("run", "round_"), [("../../etc", 0), ("", 0), (RUN, -1)])
def test_a_server_cannot_name_files_elsewhere(tmp_path, site, run, round_):
    with pytest.raises(Refusal, match="names no run or no round"):
        sites.train(site, tmp_path, sent(site), Asked(round_, run, False, False))
    assert not list(tmp_path.iterdir())
