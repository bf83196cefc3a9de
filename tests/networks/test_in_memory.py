"""Networks in memory: named by their code and weights, and built from their source."""

import functools
import inspect

import pytest
import torch
from torch import nn

from troth import lookup
from troth.networks import in_memory


class Net(nn.Module):
    def __init__(self, shape, classes, *, width: int = 3):
        super().__init__()
        self.first = nn.Linear(shape[0], width)
        self.last = nn.Linear(width, classes)

    def forward(self, x):
        return self.last(self.first(x).relu())


def test_a_class_is_built_with_its_options(refuses):
    given = in_memory.give(Net)
    assert given.name.startswith("memory:Net@")
    assert lookup.check("model", given.name, {}) == {"width": 3}
    refuses(
        "model.width = 'wide' is", lookup.check, "model", given.name, {"width": "wide"}
    )
    member = lookup.find("model", given.name)
    net = lookup.call(member, {"width": 5}, shape=(2,), classes=4)
    assert isinstance(net, Net) and net.last.weight.shape == (4, 5)


def test_functions_and_modules_need_no_parameters():
    for model in (
        lambda: nn.Linear(2, 3),
        functools.partial(nn.Linear, 2, 3),
        nn.Linear(2, 3),
        lambda classes, shape: nn.Linear(shape[0], classes),
    ):
        given = in_memory.give(model)
        net = lookup.call(given.member, {}, shape=(2,), classes=3)
        assert net.weight.shape == (3, 2) and net is not model


def test_a_module_keeps_its_weights_and_may_not_change(refuses):
    net = nn.Linear(2, 3)
    given = in_memory.give(net)
    copied = given.member()
    assert torch.equal(copied.weight, net.weight) and copied is not net
    with torch.no_grad():
        net.weight[0, 0] += 1
    assert in_memory.give(net).name != given.name
    refuses("the module Linear has changed", given.member)


def test_a_lazy_module_learns_its_sizes_from_the_examples():
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))
    given = in_memory.give(net)
    assert given.name == in_memory.give(net).name
    assert given.member()(torch.zeros(4, 5)).shape == (4, 2)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_modules_that_cannot_be_trained_are_refused(refuses):
    script = torch.jit.script(nn.Linear(2, 3))
    broken = nn.Linear(2, 3)
    nn.init.constant_(broken.bias, float("nan"))
    for model, words in (
        (script, "is a compiled module .*give the module before"),
        (torch.compile(nn.Linear(2, 3)), "is a compiled module"),
        (broken, "Linear has NaN or infinite values in 'bias'"),
    ):
        refuses(words, in_memory.give, model)
    given = in_memory.give(lambda width: nn.Linear(2, width))
    refuses(r"model= \(lambda\) asks for 'width'", lookup.call, given.member, {})


def written(forward, extra=""):
    """A class that has no source, as in a notebook of another process."""
    space = {"nn": nn}
    exec(f"class N(nn.Linear):\n {extra}\n def forward(self, x):\n  {forward}", space)
    return space["N"]


def test_the_name_depends_on_what_the_code_computes():
    same = written("return x")
    assert in_memory.code(same) == in_memory.code(written("return x  # nothing"))
    names = {
        in_memory.give(made).name
        for made in (
            same,
            written("return -x"),
            written("return x + 1"),
            written("return x + 2"),
            written("return x", "bias_too = True"),
            written("return (lambda z: z)(x)"),
        )
    }
    assert len(names) == 6
    assert in_memory.give(lambda: Net((1,), 2)).name != in_memory.give(Net).name
    assert "def forward(self, x)" in in_memory.code(Net)
    assert "#" not in in_memory.code(Net) and inspect.isclass(Net)


def test_the_digest_of_a_network_covers_its_structure():
    torch.manual_seed(0)
    nets = [nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 2), Net((2,), 3)]
    nets += [nn.Sequential(nn.Linear(2, 3), nn.ReLU())]
    nets += [nn.Sequential(nn.Linear(2, 3), nn.GELU())]
    assert len({in_memory.digest(net) for net in nets}) == 5  # the first two are alike
    assert len({in_memory.digest(net, weights=True) for net in nets}) == 6


def test_refuses_what_is_no_network(refuses):
    refuses(
        "model= is of type str; it must be a torch.nn.Module", in_memory.give, "cnn"
    )
