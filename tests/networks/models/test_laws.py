"""Laws that every network keeps."""

import copy
import math

import pytest
import torch

from troth import lookup
from troth.types import Refusal

SMALL = {
    "celeba_cnn": {"channels": 4},
    "cnn": {"channels": [4, 4], "widths": [8], "dropout": [0.2, 0.5]},
    "mlp": {"widths": [16], "dropout": 0.5},
    "resnet18": {"width": 4},
    "vgg13_bn": {"width": 4, "widths": [8]},
}
SHAPE = (3, 32, 35)
every = pytest.mark.parametrize("name", lookup.names("model"))


def made(name, shape=SHAPE, classes=2, seed=0):
    torch.manual_seed(seed)
    options = lookup.check("model", name, SMALL.get(name, {}))
    return lookup.call(
        lookup.find("model", name), options, shape=shape, classes=classes
    )


def inputs(rows=5, shape=SHAPE):
    return torch.randn(rows, *shape, generator=torch.Generator().manual_seed(1))


def outputs(net, classes):
    """One a class; a machine for two classes with its own loss may have one."""
    return 1 if hasattr(net, "loss") and classes == 2 else max(classes, 1)


@every
@pytest.mark.parametrize("classes", [0, 2, 7])
def test_a_row_an_example_and_a_column_a_class(name, classes):
    try:
        net = made(name, classes=classes)
    except Refusal as refusal:
        assert name == "svm" and "2 classes" in str(refusal)
        return
    for rows in (1, 5):
        out = net.eval()(inputs(rows))
        assert out.shape == (rows, outputs(net, classes))
        assert out.dtype == torch.float32 and bool(out.isfinite().all())


@every
@pytest.mark.parametrize("training", [True, False])
def test_inputs_are_left_alone_and_nothing_works_in_place(name, training):
    x, net = inputs(), made(name).train(training)
    before = x.clone()
    net(x)
    assert torch.equal(x, before)
    assert not [m for m in net.modules() if getattr(m, "inplace", False)]


@every
def test_the_seed_decides(name):
    one, same, other = (
        torch.cat([p.detach().flatten() for p in made(name, seed=seed).parameters()])
        for seed in (3, 3, 4)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other) or not one.any()  # some start at zero


@every
def test_prediction_draws_nothing_and_keeps_nothing(name):
    net, other, x = made(name).eval(), made(name, seed=1).eval(), inputs()
    before = copy.deepcopy(net.state_dict())
    first = net(x)
    assert torch.equal(first, net(x))
    assert torch.allclose(first[2:3], net(x[2:3]), atol=1e-4)  # an example by itself
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    other.load_state_dict(before)  # the numbers alone make the network
    assert torch.equal(other(x), first)
    exact = net.double()(x.double())
    assert exact.dtype == torch.float64
    assert torch.allclose(first.double(), exact, rtol=1e-3, atol=1e-4)


@every
def test_every_parameter_has_a_gradient(name):
    net = made(name).train()
    net(inputs(8)).square().sum().backward()
    slopes = {key: parameter.grad for key, parameter in net.named_parameters()}
    assert [k for k, g in slopes.items() if g is None or not g.isfinite().all()] == []


@every
@pytest.mark.parametrize(
    "shape", [(7,), (9, 9), (2, 2, 2, 2), (1, 1, 1), (3, 40, 1), (1, 2, 40)], ids=str
)
def test_takes_a_shape_or_says_why_not(name, shape):
    try:
        net = made(name, shape=shape)
    except Refusal as refusal:
        text = str(refusal)
        assert "\n" not in text and "; " in text and len(text) > 40
        assert all(str(side) in text for side in shape[1:])
        return
    assert net.eval()(inputs(2, shape)).shape == (2, outputs(net, 2))


REFUSED = [
    ("celeba_cnn", {"channels": 0}, r"model\.channels = 0 must be a whole"),
    ("celeba_cnn", {"blocks": 0}, r"model\.blocks = 0 must be a whole"),
    ("cnn", {"kernel": 4}, r"model\.kernel = 4"),
    ("cnn", {"kernel": -1}, r"model\.kernel = -1"),
    ("cnn", {"channels": [0]}, r"model\.channels = \[0\]"),
    ("cnn", {"channels": []}, r"model\.channels is empty"),
    ("cnn", {"widths": [-3]}, r"model\.widths = \[-3\]"),
    *[
        ("cnn", {"widths": [5], "dropout": bad}, r"\.dropout = \[.* hold 2 numbers of")
        for bad in ([0.5], [0.5] * 3, [0.5, 1.0], [-0.1, 0.0], [math.nan] * 2)
    ],
    ("cnn", {"shape": (784,)}, "channels, height, width"),
    ("cnn", {"shape": (28, 28)}, "channels, height, width"),
    ("cnn", {"shape": (1, 1, 28, 28)}, "channels, height, width"),
    (
        "cnn",
        {"shape": (1, 28, 7), "channels": [1, 1, 1]},
        r"at least 8, and they are 28 and 7; .* most 2",
    ),
    *[
        (name, {"widths": widths, "dropout": bad}, r"model\.dropout = .* below 1")
        for name in ("mlp", "vgg13_bn")
        for widths in ([], [3])
        for bad in (-0.1, 1.0, math.nan)
    ],
    ("mlp", {"widths": [3, 0]}, r"model\.widths = \[3, 0\]"),
    ("resnet18", {"shape": (3, 32, 7)}, "at least 8, and these are 32 by 7; enlarge"),
    ("resnet18", {"width": 0}, r"model\.width = 0 must be a whole number of at"),
    *[("svm", {"classes": k}, "2 classes") for k in (0, 1, 3, 10)],
    *[("svm", {"l2": bad}, r"model\.l2") for bad in (-0.1, math.nan, math.inf)],
    ("vgg13_bn", {"shape": (1, 28, 28)}, "at least 32, and these are 28 by 28"),
    ("vgg13_bn", {"width": -1}, r"model\.width = -1 must"),
    ("vgg13_bn", {"widths": [3, 0]}, r"model\.widths = \[3, 0\]"),
]


@pytest.mark.parametrize(("name", "given", "words"), REFUSED)
def test_refuses(name, given, words):
    where = {"shape": SHAPE, "classes": 2}
    where = {key: given.get(key, value) for key, value in where.items()}
    given = {key: value for key, value in given.items() if key not in where}
    with pytest.raises(Refusal, match=words):
        known = lookup.check("model", name, given)
        lookup.call(lookup.find("model", name), known, **where)
