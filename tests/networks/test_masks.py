"""Names of parameters → masks over the flat vector."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from troth import lookup
from troth.networks import build, flat
from troth.networks.batchnorm import adapt
from troth.networks.flat import Masks
from troth.networks.layers import Normalize
from troth.types import Refusal


class Small(nn.Module):
    """Two layers, a normalization without parameters between them, and a head."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3, affine=False)
        self.block = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
        self.fc = nn.Linear(2, 1)


def behind(model):
    """As `networks.network` and `Objective` leave it."""
    return adapt(nn.Sequential(Normalize(0.0, 1.0), model))


SIZES = {"conv1.weight": 6, "conv1.bias": 3, "block.0.weight": 6, "block.0.bias": 2}
SIZES |= {"block.1.weight": 2, "block.1.bias": 2, "fc.weight": 2, "fc.bias": 1}
SIZES |= {"norm.running_mean": 3, "norm.running_var": 3}
EACH = [name for name, size in SIZES.items() for _ in range(size)]


def numbers(mask):
    assert mask.dtype == torch.bool
    return mask.nonzero().flatten().tolist()


def at(*names):
    """The numbers of the tensors, or of the modules around them."""
    return [i for i, name in enumerate(EACH) if name.startswith(names)]


@pytest.mark.parametrize("net", [behind(Small()), Small()], ids=["behind", "bare"])
def test_names_are_those_of_the_model(net):
    masks = Masks(net)
    assert masks.names == list(SIZES)
    assert masks.layers == ["conv1", "norm", "block.0", "block.1", "fc"]
    assert len(masks.last("last", 0)) == flat.layout(net).d == 30


def test_masks_by_hand():
    """In the order of the modules: statistics, at the vector's end, do not count."""
    masks = Masks(behind(Small()))
    layers = ("fc", "block.1", "block.0", "norm", "conv1")
    for number in range(6):
        found = numbers(masks.last("last", number))
        assert found == (at(*layers[:number]) if number else [])
    assert found == list(range(30))
    assert numbers(masks.norms()) == at("block.1", "norm")
    assert masks.sizes().tolist() == [float(SIZES[name]) for name in EACH]


def test_names_of_sequences_and_of_a_model_of_one_layer():
    masks = Masks(behind(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))))
    assert masks.layers == ["0", "2"]
    assert numbers(masks.matching("layers", ["2"])) == [6, 7, 8]
    with pytest.raises(Refusal, match=r"'1\.2' matches nothing"):
        masks.matching("layers", ["1.2"])
    two = Masks(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)))
    assert two.layers == ["0", "1"]  # the first is no normalization
    nested = Masks(behind(nn.Sequential(Normalize(0.0, 1.0), nn.Linear(2, 1))))
    assert nested.layers == ["1"]
    one = Masks(behind(nn.Linear(2, 1)))
    assert one.names == ["weight", "bias"] and one.layers == [""]
    assert one.last("last", 1).all()
    assert numbers(one.matching("layers", ["bias"])) == [2]


def test_a_tensor_of_several_layers_is_in_each_of_them():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(2, 2), nn.Linear(2, 2)
            self.last.weight = self.first.weight

    masks = Masks(behind(Tied()))
    assert masks.layers == ["first", "last"]
    for mask in (masks.last("last", 1), masks.matching("layers", ["last"])):
        assert numbers(mask) == [0, 1, 2, 3, 6, 7]
    assert numbers(masks.matching("layers", ["last.weight"])) == [0, 1, 2, 3]


def test_what_is_frozen_has_no_name():
    model = Small()
    build.freeze(model, ["fc", "norm", "conv1.bias"])
    masks = Masks(behind(model))
    assert masks.layers == ["conv1", "block.0", "block.1"]
    assert numbers(masks.last("last", 1)) == [14, 15, 16, 17]
    with pytest.raises(Refusal, match="'fc' matches nothing"):
        masks.matching("layers", ["fc"])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda m: m.matching("personalizer.layers", ["fc", "conv9"]),
            "personalizer.layers: 'conv9' matches nothing (did you mean 'conv1'?); "
            "there are: conv1.{weight, bias}, block.0.{weight, bias}, "
            "block.1.{weight, bias}, fc.{weight, bias}, "
            "norm.{running_mean, running_var}; the name of a module matches all in it",
        ),
        (lambda m: m.matching("layers", ["1.fc"]), "layers: '1.fc' matches nothing"),
        (
            lambda m: m.last("personalizer.last", 6),
            "personalizer.last = 6 must be at least 0 and at most 5, the layers of "
            "this model: conv1, norm, block.0, block.1, fc",
        ),
        (lambda m: m.last("last", -1), "last = -1 must be at least 0 and at most 5"),
    ],
)
def test_refusals(ask, words):
    with pytest.raises(Refusal, match=re.escape(words)) as refusal:
        ask(Masks(behind(Small())))
    assert "\n" not in str(refusal.value)


def _net(widths, norms):
    parts = []
    for (a, b), norm in zip(zip(widths, widths[1:], strict=False), norms, strict=False):
        parts += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if norm else []), nn.ReLU()]
    return nn.Sequential(*parts)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=5),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.data(),
)
def test_masks_by_the_modules_themselves(widths, norms, data):
    """Marked tensors, flattened, are the mask."""
    net = behind(_net(widths, norms))
    masks = Masks(net)
    held = [m for m in net[1] if list(m.parameters())]
    number = data.draw(st.integers(0, len(held)))

    def marked(chosen):
        with torch.no_grad():
            for t in flat.tensors(net).values():
                t.zero_()
            for module in chosen:
                for t in flat.tensors(module).values():
                    t.fill_(1)
        return flat.flatten(net) == 1

    assert masks.last("last", number).equal(marked(held[len(held) - number :]))
    picked = data.draw(st.lists(st.sampled_from(masks.layers), max_size=3))
    by_name = dict(net[1].named_modules())
    assert masks.matching("x", picked).equal(marked([by_name[n] for n in picked]))
    if norm_layers := [m for m in held if "Norm" in type(m).__name__]:
        assert masks.norms().equal(marked(norm_layers))


SMALLER = {"celeba_cnn": {"channels": 2, "blocks": 1}, "mlp": {"widths": [4]}}


@pytest.mark.parametrize("name", ["celeba_cnn", "cnn", "linear", "mlp", "resnet18"])
def test_every_model_of_ours_has_a_head(name):
    function = lookup.find("model", name)
    given_ = lookup.check("model", name, SMALLER.get(name, {}))
    model = lookup.call(function, given_, shape=(3, 32, 32), classes=3)
    head = Masks(behind(model)).last("last", 1)
    last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    assert int(head.sum()) == sum(p.numel() for p in last.parameters())
