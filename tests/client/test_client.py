"""A solver and a personalizer with what an experiment says of them; augments."""

import sys

import numpy as np
import pytest
import torch

from troth import lookup
from troth.client import client
from troth.client.combine import as_it_is
from troth.config.schema import Part
from troth.engine.engine import Plan
from troth.types import Batch, Refusal

from .small import THREADS, TRACED, VMAP, built, done, states

OWNERS = {"fedbn", "fedper", "fedrep", "l2sgd", "mapper", "mixture", "per_fedavg"}
OWNERS |= {"coupled", "pfedme"}
NOISE = [{"name": "noise", "sigma": 0.5}]


def made(personalizer, **sections):
    """Not trained yet."""
    tree = {
        "data": {"name": "colored", "base": "digits"},
        "partition": {"name": "iid", "clients": 4},
        "model": {"name": "celeba_cnn", "channels": 2, "blocks": 1},
        "train": {"rounds": 1, "steps": 2, "batch": 6} | sections.pop("train", {}),
        "personalizer": personalizer,
        "engine": {"device": "cpu"},
    }
    return built(tree | sections, rounds=0)


@pytest.mark.parametrize("name", lookup.names("personalizer"))
def test_who_owns_the_reply_has_no_solver_beside(name):
    """And an augment of its own needs a phase of its own."""
    if name not in OWNERS:  # these stand beside any
        made(name, solver="fedprox")
        return
    words = f"'{name}' makes the client's update itself, and solver 'scaffold' would"
    with pytest.raises(Refusal, match=words):
        made(name, solver="scaffold")
    own = {"name": name, "augment": NOISE}
    if name == "per_fedavg":
        assert made(own).federation.engine.client.finish is not None
        return
    words = f"'{name}' trains one model .*personalizer.augment would change nothing"
    with pytest.raises(Refusal, match=words):
        made(own)


@pytest.mark.parametrize("name", ["l2sgd", "per_fedavg", "fedper"])
def test_the_augment_of_training_reaches_those_that_own_their_reply(name):
    found = []
    for augment in ([], NOISE):
        ready = made(name, train={"augment": augment})
        list(ready.federation.train())
        found.append(ready.federation.broadcast.w)
    assert not torch.equal(*found)


def test_an_augment_after_the_last_round_is_the_personalizers():
    """It changes what clients end with, and nothing of the rounds."""
    shared, own = [], []
    for part in ({}, {"augment": NOISE}):
        ready = made({"name": "per_fedavg", **part})
        own.append(done(ready))
        shared.append(ready.federation.broadcast.w)
    assert torch.equal(*shared)
    assert not torch.equal(*own)


def batch(t=0, key=7):
    x = torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8)
    weight = torch.full((6,), 1 / 6)
    return Batch(x, x[:, 0, 0, 0].long(), weight, *map(torch.tensor, (t, 1, key)))


def test_none_is_nothing_and_order_counts():
    assert client.compose([], 255.0) is as_it_is
    flip, crop = Part("flip", {"p": 1.0}), Part("crop", {"padding": 2})
    b = batch()
    one = client.compose([flip, crop], 255.0)(b)
    other = client.compose([crop, flip], 255.0)(b)
    assert one.x.shape == b.x.shape and not torch.equal(one.x, other.x)
    assert all(torch.equal(p, q) for p, q in zip(one[1:], b[1:], strict=True))


def test_two_of_a_kind_draw_apart_and_steps_differ():
    crop = Part("crop", {"padding": 3})
    b = batch()
    once = client.compose([crop], 255.0)
    twice = client.compose([crop, crop], 255.0)
    assert not torch.equal(once(once(b)).x, twice(b).x)
    assert torch.equal(once(b).x, once(b).x)
    assert not torch.equal(once(b).x, once(b._replace(t=torch.tensor(1))).x)
    assert not torch.equal(once(b).x, once(b._replace(key=torch.tensor(8))).x)


def images(path):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    owner = np.repeat(np.arange(4), 15)
    np.savez(path / "d.npz", x=x, y=random.integers(0, 3, 60), owner=owner)
    return {
        "data": {"name": "npz", "path": str(path / "d.npz")},
        "partition": "natural",
        "model": {"name": "cnn", "channels": [2], "widths": [5], "dropout": [0.2, 0.4]},
        "personalizer": "ditto",
        "engine": {"device": "cpu"},
    }


def trained(tree, plan):
    ready = built(tree, plan)
    return torch.cat([ready.federation.broadcast.w[None], states(ready)])


@pytest.mark.parametrize("plan", [THREADS, pytest.param(VMAP, marks=TRACED)])
def test_the_same_draws_however_clients_step(tmp_path, plan):
    tree = images(tmp_path)
    augment = [{"name": name} for name in lookup.names("augment")]
    tree["train"] = {"rounds": 2, "batch": 4, "precision": "float64"}
    plain = trained(tree, Plan("loop", 1))
    tree["train"]["augment"] = augment
    expected = trained(tree, Plan("loop", 1))
    assert not torch.allclose(plain, expected)
    assert (trained(tree, plan) - expected).abs().max() < 1e-10


def test_personal_models_may_have_their_own(tmp_path):
    tree = images(tmp_path)
    tree["train"] = {"rounds": 2, "batch": 4, "augment": ["flip"]}
    same = trained(tree, THREADS)
    tree["personalizer"] = {"name": "ditto", "augment": []}
    none = trained(tree, THREADS)
    assert torch.equal(same[0], none[0])  # the shared model is the same
    assert not torch.equal(same[1:], none[1:])
    tree["personalizer"]["augment"] = ["flip"]
    assert torch.equal(trained(tree, THREADS), same)


def test_an_augment_that_does_not_fit_is_refused_before_anything():
    flat = {"data": "linear_regression", "partition": "natural"}
    for augment, words in (
        ("flip", r"'flip' needs images"),
        ("flop", r"no augment 'flop' \(did you mean 'flip'"),
        ({"name": "flip", "q": 1}, r"has no option 'q'"),
    ):
        with pytest.raises(Refusal, match=words):
            built(flat | {"train": {"augment": [augment]}})


STRANGER = """
import torch


def shorter(x, key):
    return x[..., 1:]


def fewer(x, key):
    return x[:1]


def nothing(x):
    return None


def dice(x):
    return x + torch.rand_like(x.float())


def dark(x, key, scale, *, share: float = 0.5):
    return x * share
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shorter", r"a tensor of shape \[2, 1, 8, 7\] of .* \[2, 1, 8, 8\]; it must"),
        ("fewer", r"a tensor of shape \[1, 1, 8, 8\] of .* \[2, 1, 8, 8\]; it must"),
        ("nothing", "makes a NoneType of a batch"),
        ("dice", "other results for the same key"),
    ],
)
@pytest.mark.parametrize("section", ["train", "personalizer"])
def test_an_augment_of_somebody_else_must_keep_to_the_rules(
    tmp_path, monkeypatch, name, words, section
):
    (tmp_path / "stranger.py").write_text(STRANGER)
    monkeypatch.syspath_prepend(str(tmp_path))
    tree = images(tmp_path) | {"personalizer": {"name": "local"}}
    tree.setdefault(section, {})["augment"] = [f"stranger:{name}"]
    with pytest.raises(Refusal, match=words):
        built(tree)
    tree[section]["augment"] = ["stranger:dark", "flip"]
    f = built(tree, rounds=0).federation
    assert f.step().broadcast.w.isfinite().all()
    sys.modules.pop("stranger")
