"""The network of an experiment: where it starts, and what of it stays."""

import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import troth
from troth.config import reader
from troth.networks import build, flat
from troth.runs import train as runs
from troth.types import Refusal

NORMED = """
import torch
from torch import nn

def normed(shape, classes):
    layers = [nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU()]
    layers += [nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes)]
    return nn.Sequential(*layers)

class tied(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.last = nn.Linear(64, classes)
    def forward(self, x):
        return self.last(torch.relu(self.second(torch.relu(self.first(x.flatten(1))))))

class extra(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.last, self.times = nn.Linear(64, classes), 3
    def get_extra_state(self):
        return {"times": self.times}
    def set_extra_state(self, state):
        self.times = state["times"]
    def forward(self, x):
        return self.last(x.flatten(1)) * self.times

def lazy(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

def unused(shape, classes):
    net = lazy(shape, classes)
    net.add_module("more", nn.Module())
    net.more.last = nn.LazyLinear(3)
    net.forward = lambda x: net[1](net[0](x))
    return net

def none(shape, classes):
    return classes
"""
OWN = {"name": "own_networks:normed"}
SMALL = {
    "data": "digits",
    "partition": {"name": "iid", "clients": 4},
    "train": {"rounds": 2, "steps": 2, "batch": 8, "lr": 0.1},
    "engine": {"how": "loop", "device": "cpu"},
}
STILL = SMALL["train"] | {"lr": 0.0, "rounds": 1}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder to work in, with models of one's own on the path."""
    (tmp_path / "own_networks.py").write_text(NORMED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_networks", None)


def made(model, given=True, **sections):
    """The bare model of an experiment on digits."""
    e = reader.from_dict(SMALL | {"model": model} | sections)
    rows = np.zeros((2, 1, 8, 8), dtype=np.float32)
    return build.network(e, (1, 8, 8), 10, rows, 16.0, given=given)[1]


def trainable(net):
    return {name for name, p in net.named_parameters() if p.requires_grad}


def frozen_norms(net):
    return {n for n, m in net.named_modules() if getattr(m, "frozen_statistics", False)}


def trained(place, model, name, watch=None, **sections):
    tree = SMALL | {"model": model} | sections
    (run,) = troth.run(tree, out=place / name, watch=watch)
    return run


def tensors(run):
    """Of the shared model, by the model's own names."""
    found = load_file(run.path / "shared.safetensors")
    return {k.removeprefix("1."): v for k, v in found.items() if k.startswith("1.")}


def unlike(one, other):
    """The names of the tensors that differ."""
    assert one.keys() == other.keys()
    return {name for name in one if not torch.equal(one[name], other[name])}


# which tensors are frozen


@pytest.mark.parametrize(
    ("freeze", "left", "norms"),
    [
        ([], 10, []),
        (["1", "2"], 6, ["2"]),
        (["2.weight", "2.bias"], 8, []),  # statistics go on
        (["2.running_*"], 10, ["2"]),  # and here they alone stay
        (["[1-6]"], 2, ["2", "5"]),
        (["?.*[!s]"], 5, ["2", "5"]),
    ],
)
def test_freezing(place, freeze, left, norms):
    net = made(OWN | {"freeze": freeze})
    assert len(trainable(net)) == left
    assert frozen_norms(net) == {*norms}
    if freeze == ["1", "2"]:
        layout = flat.layout(net)
        names = ["4.weight", "4.bias", "5.weight", "5.bias", "7.weight", "7.bias"]
        assert layout.names == (*names, "5.running_mean", "5.running_var")
        assert layout.d == 12 * 8 + 8 + 16 + 8 * 10 + 10 + 16 and layout.tail == 16


@pytest.mark.parametrize(
    ("freeze", "words"),
    [
        (["fc", "layer9"], "model.freeze: 'layer9' matches nothing … did you mean 'la"),
        (["*"], "model.freeze = ['*'] freezes all 62 tensors … at least one"),
        (["conv1", "*.*", "fc"], "freezes all 62"),
        (["*mean"], "one of 'bn1.running_mean' and … 'bn1.running_*'"),
    ],
)
def test_refuses_bad_patterns(freeze, words):
    with pytest.raises(Refusal) as caught:
        made({"name": "resnet18", "width": 1, "freeze": freeze})
    assert all(word in str(caught.value) for word in words.split(" … ")), caught.value
    assert "\n" not in str(caught.value)


def test_skip_needs_weights():
    with pytest.raises(Refusal, match=r"model\.weights_skip = \['fc'\] has no effect"):
        reader.from_dict({"model": {"name": "linear", "weights_skip": ["fc"]}})


# training with frozen parts

EVIL = {
    "personalizer": {"name": "ditto", "lam": 0.5},
    "adversary": {"count": 1},
    "attack": {"name": "model_replacement", "factor": 50.0},
}


@pytest.mark.parametrize("how", ["loop", "vmap", "threads"])
def test_frozen_numbers_stay_whatever_happens(place, how):
    model = OWN | {"freeze": ["1", "2", "5.running_*"]}
    engine = {"how": how, "chunk": 2, "device": "cpu"}
    train = SMALL["train"] | {"weight_decay": 0.1, "optimizer": "adam"}
    before = {k: v.clone() for k, v in made(model).state_dict().items()}
    run = trained(place, model, "run", engine=engine, train=train, **EVIL)
    after = tensors(run)
    moving = {f"{n}.{kind}" for n in (4, 5, 7) for kind in ("weight", "bias")}
    assert unlike(before, after) == moving
    facts = run.experiment.resolved
    assert facts["parameters"] == 12 * 8 + 8 + 16 + 80 + 10
    assert facts["frozen_parameters"] == 64 * 12 + 12 + 24
    own = dict(troth.load(run.path).model(2).named_parameters())
    assert torch.equal(own["1.1.weight"], before["1.weight"])
    assert not torch.equal(own["1.7.weight"], after["7.weight"])


def test_a_frozen_layer_normalizes_by_its_running_statistics(place):
    """As if the layer were the affine map that it is in prediction."""
    torch.manual_seed(0)
    source = made(OWN)
    for name, value in source.state_dict().items():
        if "running_var" in name:
            value.uniform_(0.5, 2.0)
        elif "running_mean" in name:
            value.normal_()
    save_file(source.state_dict(), "w.safetensors")
    model = OWN | {"weights": "w.safetensors", "freeze": ["1", "2", "4", "5"]}
    train = {"rounds": 1, "steps": 1, "batch": 0, "lr": 0.1, "precision": "float64"}
    alone = {"name": "iid", "clients": 1}
    run = trained(place, model, "run", partition=alone, train=train)
    # by hand: one step of the last layer on features computed in prediction
    data = runs.build(run.experiment, plan=runs.UNMEASURED).data
    source.double().eval()[:-1].requires_grad_(False)
    outputs = source(data.x[data.train.row].double() / 16)
    nn.functional.cross_entropy(outputs, data.train.y).backward()
    expected = source[-1].weight.detach() - 0.1 * source[-1].weight.grad
    assert torch.allclose(tensors(run)["7.weight"], expected, atol=1e-12)


# starting from a file


def test_starts_from_the_file_and_not_from_the_seed(place):
    source = made(OWN, seed=5).state_dict()
    torch.save(source, "w.pt")
    model = OWN | {"weights": "w.pt"}
    assert unlike(made(model).state_dict(), source) == set()
    fresh = made(model, given=False).state_dict()
    assert unlike(fresh, made(OWN).state_dict()) == set()
    run = trained(place, model | {"freeze": ["2", "5"]}, "run", train=STILL)
    assert unlike(tensors(run), source) == set()


def test_float64_is_taken_whole(place):
    source = made({"name": "mlp", "widths": [3]}).double()
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.mul_(1 / 3)
    save_file(source.state_dict(), "w.safetensors")
    model = {"name": "mlp", "widths": [3], "weights": "w.safetensors"}
    net = made(model, train={"precision": "float64"})
    assert unlike(net.state_dict(), source.state_dict()) == set()
    assert next(made(model).parameters()).dtype == torch.float32


def test_a_run_goes_on_where_another_ended(place):
    first = trained(place, {"name": "mlp"}, "one")
    model = {"name": "mlp", "weights": str(first.path / "shared.safetensors")}
    second = trained(place, model, "two", train=STILL)
    assert second.summary["shared"] == first.summary["shared"]
    assert unlike(tensors(first), tensors(second)) == set()


def test_another_head_on_frozen_features(place):
    """Transfer: what was learnt stays, the last layer is new and is all that moves."""
    x = np.random.default_rng(0).integers(0, 255, (80, 1, 8, 8)).astype(np.uint8)
    np.savez("two.npz", x=x, y=np.arange(80) % 2)
    data = {"name": "npz", "path": "two.npz"}
    first = trained(place, {"name": "resnet18", "width": 1}, "one")
    model = {"name": "resnet18", "width": 1, "freeze": ["[!f]*"]}
    model |= {"weights": "one/shared.safetensors"}
    with pytest.raises(Refusal, match=r"fc\.weight has shape \[10, 8\].*\[2, 8\]"):
        trained(place, model, "two", data=data)
    second = trained(place, model | {"weights_skip": ["fc"]}, "two", data=data)
    assert second.experiment.resolved["parameters"] == 8 * 2 + 2
    assert unlike(tensors(first), tensors(second)) == {"fc.weight", "fc.bias"}


@pytest.fixture
def started(place):
    """A model that starts from a file, `w.pt`."""
    model = OWN | {"weights": "w.pt", "freeze": ["1"]}
    torch.save(made(model, given=False, seed=3).state_dict(), "w.pt")
    return model


def test_a_finished_run_needs_the_file_no_more(place, started):
    run = trained(place, started, "run", personalizer={"name": "ditto", "lam": 0.5})
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 1, 8, 8))).float()
    expected = troth.load(run.path).model(1)(x)
    (place / "w.pt").unlink()
    assert torch.equal(troth.load(run.path).model(1)(x), expected)
    found = troth.load(run.path).shared().state_dict()
    assert all(torch.equal(found[f"1.{k}"], v) for k, v in tensors(run).items())
    assert troth.resume(run.path)[0].finished  # which is left as it is


def test_resuming_wants_the_same_file(place, started):
    content = (place / "w.pt").read_bytes()
    sections = {"checkpoint": {"every": 1}, "train": SMALL["train"] | {"rounds": 4}}
    whole = trained(place, started, "whole", **sections)
    digest = whole.experiment.resolved["weights_sha256"]
    assert len(digest) == 64

    def stop(progress):
        if progress.done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(place, started, "run", stop, **sections)
    torch.save(made(started, given=False, seed=4).state_dict(), "w.pt")
    with pytest.raises(Refusal, match=rf"is not the file that .* {digest[:12]}… then"):
        troth.resume(place / "run")
    (place / "w.pt").unlink()
    with pytest.raises(Refusal, match=r"model\.weights = 'w\.pt' is not there"):
        troth.resume(place / "run")
    (place / "w.pt").write_bytes(content)
    troth.resume(place / "run")
    for name in ("rounds.jsonl", "clients.csv", "shared.safetensors"):
        one, other = (place / run / name for run in ("whole", "run"))
        assert one.read_bytes() == other.read_bytes(), name


# networks of one's own


def test_tied_weights_stay_tied(place):
    run = trained(place, {"name": "own_networks:tied"}, "run", **EVIL)
    assert run.experiment.resolved["parameters"] == 64 * 64 + 2 * 64 + 650
    found = tensors(run)
    assert torch.equal(found["first.weight"], found["second.weight"])
    net = dict(troth.load(run.path).model(0).named_parameters(remove_duplicate=False))
    assert net["1.first.weight"] is net["1.second.weight"]
    again = made({"name": "own_networks:tied", "weights": "run/shared.safetensors"})
    assert torch.equal(again.state_dict()["second.weight"], found["first.weight"])


def test_state_that_is_no_tensor_is_left_to_the_model(place):
    run = trained(place, {"name": "own_networks:extra"}, "run")
    assert set(tensors(run)) == {"last.weight", "last.bias"}
    net = troth.load(run.path).model(0)
    assert torch.equal(net.get_parameter("1.last.weight"), tensors(run)["last.weight"])
    made({"name": "own_networks:extra", "weights": "run/shared.safetensors"})


def test_lazy_layers_learn_their_sizes_and_draw_from_the_seed(place):
    net, same = made({"name": "own_networks:lazy"}), made({"name": "own_networks:lazy"})
    other = made({"name": "own_networks:lazy"}, seed=1)
    assert net[1].weight.shape == (10, 64) and type(net[1]) is nn.Linear
    assert torch.equal(net[1].weight, same[1].weight)
    assert not torch.equal(net[1].weight, other[1].weight) and net.training
    with pytest.raises(Refusal, match=r"learn their sizes from inputs of shape \[2, 3"):
        build._complete(nn.Sequential(nn.LazyConv2d(1, 9)), (3, 4, 4))


def test_refuses_what_is_no_network_yet(place):
    with pytest.raises(
        Refusal, match=r"does not use more\.last\.weight, more\.last\.b"
    ):
        made({"name": "own_networks:unused"})
    with pytest.raises(Refusal, match="returned a int; it must return a torch.nn.M"):
        made({"name": "own_networks:none"})


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 4)])
def test_refuses_examples_that_hold_nothing(shape):
    rows = np.zeros((2, *shape), dtype=np.float32)
    with pytest.raises(Refusal, match="one example has shape"):
        build.network(reader.from_dict({}), shape, 2, rows, 1.0)


class Embedded(nn.Module):
    """Tokens of one byte each."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(50, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.table(x.long()).mean(1))


def test_bytes_are_not_divided_before_they_are_embedded(refuses):
    y = np.arange(80) % 2
    x = np.random.default_rng(0).integers(0, 25, (80, 3)) + 25 * y[:, None]
    tree = {"partition": {"clients": 4}, "train": {"rounds": 1}}
    words = "embeds tokens .layer 'table'.*set model.normalize = 'none'"
    for kind, model in ((np.uint8, Embedded), (np.uint8, Embedded()), (int, None)):
        data = {"x": x.astype(kind), "y": y}
        if model is None:  # whole numbers are not divided
            troth.cost(tree, data=data, model=Embedded)
        else:
            refuses(words, troth.cost, tree, data=data, model=model)
            plain = tree | {"model": {"normalize": "none"}}
            troth.cost(plain, data=data, model=model)
    images = {"x": np.zeros((80, 3, 3), np.uint8), "y": y}

    class Patches(Embedded):  # embeds positions, not bytes
        def forward(self, x):
            return self.last(x.flatten(1)[:, :4] + self.table.weight[:1])

    troth.cost(tree, data=images, model=Patches)
