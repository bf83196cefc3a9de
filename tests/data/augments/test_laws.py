"""Laws of every augment; those that deform, and noise, in training too."""

from typing import Any

import numpy as np
import pytest
import torch

import troth
from troth import build, files, lookup
from troth.config import reader
from troth.engine.local_training import Plan
from troth.types import Refusal

NAMES = ["rotation", "translation", "affine"]
ALL = ["noise", *NAMES]
every = pytest.mark.parametrize("name", lookup.names("augment"))
deforming = pytest.mark.parametrize("name", NAMES)
Tree = dict[str, Any]


def augment(name, x, key, **options):
    given = lookup.check("augment", name, options)
    return lookup.call(lookup.find("augment", name), given, x=x, key=key, scale=1.0)


@every
def test_the_key_decides_and_nothing_else(name, keys):
    x = torch.rand(20, 1, 7, 7)
    out = augment(name, x, keys(20))
    assert torch.equal(out, augment(name, x, keys(20)))
    assert not torch.equal(out, augment(name, x, keys(20, seed=1)))
    assert torch.equal(augment(name, x[5:9], keys(20)[5:9]), out[5:9])
    x, key = torch.rand(4, 5, 3, 8, 8), keys(20).reshape(4, 5)
    together = torch.func.vmap(lambda a, k: augment(name, a, k))(x, key)
    for a, k, out in zip(x, key, together, strict=True):
        assert (augment(name, a, k) - out).abs().max() < 1e-5


@every
def test_what_is_no_image_is_refused(name, keys, refuses):
    x = torch.rand(2, 7)
    if name == "noise":
        assert augment(name, x, keys(2)).shape == x.shape
    else:
        words = rf"augment '{name}' needs images .* \[7\]; .*noise"
        refuses(words, augment, name, x, keys(2))


@deforming
def test_it_is_the_deformation_with_drawn_parameters(name, keys):
    deformation = lookup.find("deformation", name)
    draw = lookup.companion(deformation, "draw")
    x = torch.rand(9, 2, 8, 6)
    options = {"interpolation": "nearest", "padding": "border", "frame": "mixed"}
    out = augment(name, x, keys(9), sigma=0.7, **options)
    assert torch.equal(out, deformation(x, draw(keys(9), 0.7), **options))
    plain = augment(name, x, keys(9), sigma=0.7)
    assert torch.equal(plain, deformation(x, draw(keys(9), 0.7)))
    assert (augment(name, x, keys(9), sigma=1e-9) - x).abs().max() < 1e-5
    x = torch.randint(0, 256, (6, 3, 8, 8), dtype=torch.uint8)
    out = augment(name, x, keys(6))
    assert out.dtype == torch.float32 and out.max() > 1
    assert torch.equal(out, augment(name, x.float(), keys(6)))
    double = augment(name, x.double(), keys(6))
    assert double.dtype == torch.float64 and (double - out).abs().max() < 0.01


@deforming
@pytest.mark.parametrize(
    ("options", "words"),
    [
        *(
            ({"sigma": s}, rf"'s sigma = {s} must be a fin")
            for s in (0.0, -0.1, float("nan"), float("inf"))
        ),
        ({"interpolation": "cubic"}, "interpolation = 'cubic' is not one of"),
        ({"padding": "zero"}, "augment.padding = 'zero' is not one of"),
        ({"frame": "corners"}, "augment.frame = 'corners' is not one of"),
        ({"sigma": "big"}, r"sigma = 'big' is a text; it must be a number"),
    ],
)
def test_refusals(name, keys, refuses, options, words):
    refuses(words, augment, name, torch.rand(2, 1, 4, 4), keys(2), **options)


@pytest.fixture
def tree(tmp_path):
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    owner = np.repeat(np.arange(4), 15)
    np.savez(tmp_path / "d.npz", x=x, y=random.integers(0, 3, 60), owner=owner)
    return {
        "data": {"name": "npz", "path": str(tmp_path / "d.npz")},
        "partition": "natural",
        "model": {"name": "linear"},
        "train": {"rounds": 2, "batch": 4, "precision": "float64"},
        "engine": {"device": "cpu"},
    }


def trained(tree, plan=Plan("loop", 1)):  # noqa: B008
    """The shared model, and the clients' own."""
    f = build.build(reader.from_dict(tree), plan=plan).federation
    for _ in f.train():
        pass
    for _ in f.finish(4):
        pass
    w = f.broadcast.w
    return w, f.engine.models(w, f.population.read(np.arange(4)))


FINETUNE, DITTO = {"name": "finetune", "epochs": 1}, {"name": "ditto", "lam": 0.5}
PERSONALIZERS = [FINETUNE, DITTO, {"name": "local"}]
CNN = {"name": "cnn", "channels": [2], "widths": [5]}
SLOW = pytest.mark.slow("compiles a convolution for every plan")
CASES = [
    pytest.param(FINETUNE, CNN, marks=SLOW),
    *((part, {"name": "linear"}) for part in PERSONALIZERS),
]


def own(part, *augments):
    return {**part, "augment": list(augments)}


@pytest.mark.parametrize(("part", "model"), CASES)
def test_however_clients_step(tree, part, model):
    tree["model"] = model
    tree["train"] |= {"rounds": 1, "augment": [{"name": "affine", "sigma": 0.2}]}
    tree["personalizer"] = own(part, *({"name": n, "sigma": 0.4} for n in ALL))
    expected = torch.cat([t.reshape(-1) for t in trained(tree)])
    for plan in (Plan("vmap", 3), Plan("threads", 1, 2)):
        found = torch.cat([t.reshape(-1) for t in trained(tree, plan)])
        assert (found - expected).abs().max() < 1e-10


@pytest.mark.parametrize(
    ("name", "part"),
    [*zip(NAMES, PERSONALIZERS, strict=True), ("noise", PERSONALIZERS[0])],
    ids=["finetune", "ditto", "local", "noise"],
)
def test_the_sigma_of_the_personalizer_is_used_there_and_only_there(tree, name, part):
    """Nominal then robust (section 4.2): w is as if nobody had wished for more."""
    nominal, plain = trained(tree | {"personalizer": part})
    tree["personalizer"] = own(part, {"name": name, "sigma": 0.3})
    w, robust = trained(tree)
    assert torch.equal(w, nominal) and not torch.allclose(robust, plain)
    tree["train"]["augment"] = [{"name": name, "sigma": 0.6}]
    w, other = trained(tree)
    assert not torch.allclose(w, nominal)
    if part["name"] == "local":  # which leans on no shared model
        assert torch.equal(other, robust)
    same, like_w = trained(tree | {"personalizer": part})  # not set: that of [train]
    assert torch.equal(same, w) and not torch.allclose(like_w, other)


def test_mixture_sees_those_of_train(tree):
    tree["personalizer"] = {"name": "mixture", "lam": 0.5}
    plain = trained(tree)
    tree["train"]["augment"] = [{"name": name, "sigma": 0.3} for name in ALL]
    expected, found = trained(tree), trained(tree, Plan("vmap", 4))
    for before, a, b in zip(plain, expected, found, strict=True):
        assert not torch.allclose(before, a) and (a - b).abs().max() < 1e-10


def test_stopped_in_a_round_and_resumed(tree, resumed):
    tree["train"] |= {"rounds": 3, "augment": [{"name": "affine"}]}
    tree["personalizer"] = own(PERSONALIZERS[0], {"name": "rotation", "sigma": 0.6})
    tree["engine"] |= {"how": "loop"}
    tree["checkpoint"] = {"every": 1}
    resumed(tree, 2, files.PERSONAL)


@pytest.mark.parametrize("section", ["train", "personalizer"])
@deforming
def test_refused_before_anything_is_trained(tree, tmp_path, name, section, refuses):
    tree["personalizer"] = {"name": "finetune"}
    tree[section]["augment"] = [{"name": name, "sigma": 0}]
    refuses(rf"{name}'s sigma = 0.0 must be", troth.run, tree, out=tmp_path / "run")
    tree[section]["augment"] = [name]
    x = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=np.arange(20) % 2)
    tree["partition"] = {"name": "iid", "clients": 2}
    with pytest.raises(Refusal, match=rf"'{name}' needs images .* shape \[5\]"):
        troth.run(tree, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
