"""Files of weights: what is taken from them, and what is refused."""

import argparse
import os
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from troth.networks import weights
from troth.networks.models.resnet18 import resnet18
from troth.types import Refusal


def net(outputs=3, seed=0):
    torch.manual_seed(seed)
    norm = nn.BatchNorm1d(5)
    norm.running_mean.normal_()
    return nn.Sequential(nn.Linear(4, 5), norm, nn.ReLU(), nn.Linear(5, outputs))


STATE = net(seed=1).state_dict()


def saved(path, content):
    if path.suffix == ".safetensors":
        save_file(content, path)
    else:
        torch.save(content, path)
    return str(path)


def same(one, other):
    a, b = one.state_dict(), other.state_dict()
    return list(a) == list(b) and all(torch.equal(a[k], b[k]) for k in a)


def refused(path, skip=None, **options):
    model = net(**options)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(Refusal) as caught:
        weights.put(model, str(path), skip or [])
    text = str(caught.value)
    assert "\n" not in text and "; " in text
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    return text


def taken(path, skip=(), **options):
    model = net(**options)
    weights.put(model, str(path), [*skip])
    return model


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth", ".PT"])
def test_everything_is_taken(tmp_path, suffix):
    file = saved(tmp_path / f"w{suffix}", STATE)
    assert same(taken(file), net(seed=1)) and not same(net(), net(seed=1))


@pytest.mark.parametrize("key", ["state_dict", "net", "model"])
def test_the_only_table_of_a_checkpoint(tmp_path, key):
    optimizer = {"state": {0: {"exp_avg": torch.zeros(3)}}, "param_groups": [{"lr": 1}]}
    content = {key: STATE, "epoch": 3, "opt": optimizer}
    assert same(taken(saved(tmp_path / "w.pt", content)), net(seed=1))
    content["ema"] = net(seed=2).state_dict()
    text = refused(saved(tmp_path / "two.pt", content))
    assert "holds 2 tables" in text and "state_dict()" in text


def wrapped(prefix, **more):
    return {f"{prefix}{k}": v for k, v in STATE.items()} | more


RUN = {"0.mean": torch.tensor(7.0), "0.inverse": torch.tensor(9.0)}


@pytest.mark.parametrize(
    "state",
    [
        wrapped("module."),
        wrapped("_orig_mod."),
        wrapped("module._orig_mod."),
        wrapped("1.", **RUN),  # of a run's file only the model is taken
        {k: v for k, v in STATE.items() if "num_batches" not in k},  # old
    ],
    ids=["parallel", "compiled", "both", "run", "old"],
)
def test_what_stands_around_a_model_is_taken_off(tmp_path, state):
    file = saved(tmp_path / "w.safetensors", state)
    assert {*weights.read(file)} >= {*dict(net().named_parameters())}
    torch.save(state, tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    for path in (file, tmp_path / "w.pth"):
        assert same(taken(path), net(seed=1))


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_takes_the_models_precision(tmp_path, kind):
    source = net(seed=1).to(kind)
    file = saved(tmp_path / "w.pt", source.state_dict())
    assert same(taken(file), source.float())


@pytest.mark.parametrize("skip", [["3"], ["3.*"], ["3.weight", "3.bias"], ["[3-9]"]])
def test_another_head(tmp_path, skip):
    theirs, fresh = net(7, seed=1).state_dict(), net().state_dict()
    file = saved(tmp_path / "w.pt", theirs)
    text = refused(file)
    assert "3.weight has shape [7, 5], and the model's has [3, 5]" in text
    assert 'model.weights_skip = ["3.weight"]' in text
    for name, value in taken(file, skip).state_dict().items():
        assert torch.equal(value, (fresh if name[0] == "3" else theirs)[name])


def test_skip_may_name_what_only_one_side_has(tmp_path):
    state = STATE | {"aux.weight": torch.zeros(2)}
    del state["3.bias"]
    model = taken(saved(tmp_path / "w.pt", state), ["aux", "3.bias"])
    assert torch.equal(model[3].weight, STATE["3.weight"])
    assert torch.equal(model[3].bias, net()[3].bias)


def test_names_that_differ(tmp_path):
    state = dict(STATE)
    state["3.wieght"] = state.pop("3.weight")
    text = refused(saved(tmp_path / "w.pt", state))
    assert "does not hold 3.weight and holds 3.wieght" in text
    assert "did you mean '3.weight'" in text and "weights_skip" in text
    whole = resnet18((3, 32, 32), 10, width=1)
    text = refused(saved(tmp_path / "r.pt", whole.state_dict()))
    assert "does not hold 0.weight, 0.bias, 1.weight" in text
    assert "holds conv1.weight, bn1.weight" in text and " and 110 more" in text
    file = saved(tmp_path / "w.pt", STATE)
    text = refused(file, ["fc.*"])
    assert "model.weights_skip: 'fc.*' matches nothing; there are: 0.{weight, " in text
    text = refused(file, ["*"])
    assert "model.weights_skip = ['*'] leaves nothing" in text


def spoilt(name, at, value, kind=None):
    state = dict(net(seed=1).to(kind).state_dict())
    state[name][at] = value
    return state


NAN, INF = float("nan"), float("inf")
WHOLE = STATE | {"0.weight": torch.ones(5, 4, dtype=torch.int8)}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (spoilt("3.weight", (1, 2), NAN), "3.weight holds 1 of 15 numbers that are N"),
        (spoilt("3.weight", (1, 2), INF), "of 15 numbers that are NaN or infinite"),
        (spoilt("0.bias", 0, 1e300, torch.float64), "infinite in float32"),
        (spoilt("1.running_var", 3, -0.5), "g_var holds a negative variance, -0.5"),
        (WHOLE, "0.weight is of type torch.int8, and the model's of torch.float32"),
    ],
    ids=["nan", "inf", "large", "negative", "whole"],
)
def test_numbers_that_are_no_weights(tmp_path, state, words):
    assert words in refused(saved(tmp_path / "w.safetensors", state))


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("hacked",)


@pytest.mark.parametrize(
    "content",
    [
        net(),
        Hostile(),
        {"0.weight": Hostile()},
        {"state_dict": STATE, "args": argparse.Namespace(lr=1)},
    ],
    ids=["module", "hostile", "hidden", "arguments"],
)
def test_objects_are_never_run(tmp_path, content, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = refused(saved(tmp_path / "w.pt", content))
    assert "holds more than tensors, and Python objects are not read" in text
    assert "torch.save(model.state_dict(), …)" in text
    (tmp_path / "p.pt").write_bytes(pickle.dumps(content))
    assert "Python objects" in refused(tmp_path / "p.pt")
    assert not (tmp_path / "hacked").exists()


THINGS = [[torch.zeros(3)], {}, {1: torch.zeros(3)}, torch.eye(3).to_sparse()]


@pytest.mark.parametrize("content", [*THINGS[:3], {"0.weight": THINGS[3]}])
def test_other_things_are_no_weights(tmp_path, content):
    text = refused(saved(tmp_path / "w.pt", content))
    assert "and not one table of tensors by name" in text


@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".old.pth"])
def test_truncated_files(tmp_path, suffix):
    file = tmp_path / f"w{suffix}"
    if "old" in suffix:
        torch.save(STATE, file, _use_new_zipfile_serialization=False)
    else:
        saved(file, STATE)
    content = file.read_bytes()
    for share in (0.0, 0.02, 0.3, 0.6, 0.99):
        file.write_bytes(content[: int(share * len(content))])
        text = refused(file)
        assert "cannot be read (truncated, or not what its name says)" in text


def test_other_files_under_the_name(tmp_path):
    torch.save(STATE, tmp_path / "a.safetensors")
    save_file(STATE, tmp_path / "b.pt")
    with (tmp_path / "c.pt").open("wb") as file:
        np.savez(file, a=np.zeros(3))
    (tmp_path / "d.pth").write_text("<html>404</html>")
    for name in ("a.safetensors", "b.pt", "c.pt", "d.pth"):
        assert "cannot be read" in refused(tmp_path / name)


def test_where_there_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"'w.pt' is not there (seen from {tmp_path})" in refused("w.pt")
    assert ".safetensors, .pt, .pth" in refused("w.onnx")
    (tmp_path / "run").mkdir()
    assert "'run' is a folder (seen from" in refused("run")
    saved(tmp_path / "run" / "shared.safetensors", STATE)
    assert "'run' is a folder (give run/shared.safetensors)" in refused("run")
    saved(tmp_path / "w.pt", STATE)
    assert len(weights.read("~/w.pt")) == 9
    (tmp_path / "w.pt").write_bytes(b"abc")
    assert weights.digest("w.pt").startswith("ba7816bf8f01cfea414140de")


NAMES = ["conv1.weight", "layer1.0.bn1.bias", "layer1.1.bn1.bias", "fc.weight"]


@pytest.mark.parametrize(
    ("patterns", "places"),
    [
        (["*"], [0, 1, 2, 3]),
        (["layer1"], [1, 2]),
        (["layer1.0"], [1]),
        (["layer?.*.bn1", "fc.weight"], [1, 2, 3]),
        (["*.weight"], [0, 3]),
        (["layer[12].1"], [2]),
        (["[!f]*"], [0, 1, 2]),
        ([], []),
    ],
)
def test_patterns(patterns, places):
    assert weights.matched("x", patterns, NAMES) == {NAMES[i] for i in places}


NOTHING = ["layer", "FC", "fc.weight.x", "", ".*"]


@pytest.mark.parametrize("pattern", NOTHING)
def test_patterns_that_match_nothing(pattern):
    with pytest.raises(Refusal) as caught:
        weights.matched("model.freeze", ["fc", pattern], NAMES)
    text = str(caught.value)
    assert text.startswith(f"model.freeze: '{pattern}' matches nothing")
    assert all(name in text for name in NAMES)
    assert "(did you mean 'layer1'?)" in text or pattern != "layer"
