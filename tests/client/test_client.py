"""A solver and a personalizer with what an experiment says of them; augments."""

import sys

import numpy as np
import pytest
import torch

from troth import lookup
from troth.client import client
from troth.client.client import as_it_is
from troth.config.schema import Part
from troth.types import Batch, Refusal

from .small import LOOP, THREADS, TRACED, VMAP, built, states

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
    if name == "per_fedavg":  # which has a phase, as a later test shows
        return
    words = f"'{name}' trains one model .*personalizer.augment would change nothing"
    with pytest.raises(Refusal, match=words):
        made({"name": name, "augment": NOISE})


@pytest.mark.parametrize("name", ["l2sgd", "per_fedavg", "fedper"])
def test_the_augment_of_training_reaches_those_that_own_their_reply(name):
    plain, noisy = (made(name, train={"augment": a}) for a in ([], NOISE))
    for ready in (plain, noisy):
        list(ready.federation.train())
    assert not torch.equal(plain.federation.broadcast.w, noisy.federation.broadcast.w)


def batch(t=0, key=7):
    x = torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8)
    weight = torch.full((6,), 1 / 6)
    return Batch(x, x[:, 0, 0, 0].long(), weight, *map(torch.tensor, (t, 1, key)))


def test_none_is_nothing_and_order_counts():
    assert client.compose([], 255.0) is as_it_is
    flip, crop, b = Part("flip", {"p": 1.0}), Part("crop", {"padding": 2}), batch()
    one, other = (
        client.compose(parts, 255.0)(b) for parts in ([flip, crop], [crop, flip])
    )
    assert one.x.shape == b.x.shape and not torch.equal(one.x, other.x)
    assert all(torch.equal(p, q) for p, q in zip(one[1:], b[1:], strict=True))


def test_two_of_a_kind_draw_apart_and_steps_differ():
    crop, b = Part("crop", {"padding": 3}), batch()
    once, twice = (client.compose([crop] * many, 255.0) for many in (1, 2))
    first = once(b).x
    assert torch.equal(once(b).x, first)
    others = b._replace(t=torch.tensor(1)), b._replace(key=torch.tensor(8))
    for other in (once(once(b)), *map(once, others)):
        assert not torch.equal(other.x, first)
    assert not torch.equal(once(once(b)).x, twice(b).x)


def images(path, train, **sections):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    owner = np.repeat(np.arange(4), 15)
    np.savez(path / "d.npz", x=x, y=random.integers(0, 3, 60), owner=owner)
    return {
        "data": {"name": "npz", "path": str(path / "d.npz")},
        "partition": "natural",
        "model": {"name": "cnn", "channels": [2], "widths": [5], "dropout": [0.2, 0.4]},
        "train": {"rounds": 2, "batch": 4} | train,
        "personalizer": "ditto",
        "engine": {"device": "cpu"},
    } | sections


def trained(tree, plan):
    ready = built(tree, plan)
    return torch.cat([ready.federation.broadcast.w[None], states(ready)])


@pytest.mark.parametrize("plan", [THREADS, pytest.param(VMAP, marks=TRACED)])
def test_the_same_draws_however_clients_step(tmp_path, plan):
    augment = [{"name": name} for name in lookup.names("augment")]
    wide = {"precision": "float64"}
    augmented = images(tmp_path, wide | {"augment": augment})
    expected = trained(augmented, LOOP)
    assert not torch.allclose(trained(images(tmp_path, wide), LOOP), expected)
    assert (trained(augmented, plan) - expected).abs().max() < 1e-10


def test_personal_models_may_have_their_own(tmp_path):
    train, own = {"augment": ["flip"]}, [{"augment": []}, {"augment": ["flip"]}]
    same, none, flip = (
        trained(images(tmp_path, train, personalizer={"name": "ditto"} | a), THREADS)
        for a in ({}, *own)
    )
    assert torch.equal(same[0], none[0])  # the shared model is the same
    assert not torch.equal(same[1:], none[1:])
    assert torch.equal(flip, same)


def test_an_augment_that_does_not_fit_is_refused_before_anything():
    flat = {"data": "linear_regression", "partition": "natural"}
    with pytest.raises(Refusal, match="'flip' needs images"):
        built(flat | {"train": {"augment": ["flip"]}})


STRANGER = """
import torch

shorter = lambda x, key: x[..., 1:]
fewer = lambda x, key: x[:1]
nothing = lambda x: None
dice = lambda x: x + torch.rand_like(x.float())


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
    tree = images(tmp_path, {}, personalizer={"name": "local"})
    tree[section]["augment"] = [f"stranger:{name}"]
    with pytest.raises(Refusal, match=words):
        built(tree)
    tree[section]["augment"] = ["stranger:dark", "flip"]
    assert built(tree, rounds=1).federation.broadcast.w.isfinite().all()
    sys.modules.pop("stranger")
