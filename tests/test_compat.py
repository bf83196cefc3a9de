"""Every private interface of torch that Troth uses does what `compat` says."""

import warnings

import pytest
import torch
from torch import nn
from torch.func import grad, vmap

from troth import compat


@pytest.mark.parametrize(
    ("base", "layers"),
    [
        (
            compat.BatchNormBase,
            [nn.BatchNorm1d(2), nn.BatchNorm2d(2), nn.BatchNorm3d(2)],
        ),
        (compat.NormBase, [nn.BatchNorm1d(2), nn.InstanceNorm2d(2)]),
        (compat.DropoutBase, [nn.Dropout(), nn.Dropout2d(), nn.AlphaDropout()]),
    ],
)
def test_bases_of_layers(base, layers):
    assert all(isinstance(layer, base) for layer in layers)
    assert not isinstance(nn.LayerNorm(2), base)
    assert not isinstance(nn.InstanceNorm1d(2), compat.BatchNormBase)


def test_trees():
    tree = ({"a": [1, 2]}, (3, None))
    leaves, form = compat.tree_flatten(tree)
    assert [leaf for leaf in leaves if leaf is not None] == [1, 2, 3]
    assert compat.tree_unflatten(leaves, form) == tree


def test_what_wraps_a_tensor():
    seen = []

    def look(x, y):
        both = [(compat.is_wrapped(z), compat.is_lifted(z)) for z in (x, y)]
        seen.append((*both, len([*compat.layers_of(x)])))
        return (x * y).sum()

    x, y = torch.ones(3, 2), torch.ones(2)
    look(x[0], y)
    vmap(look, in_dims=(0, None))(x, y)
    grad(look)(x[0], y)
    vmap(grad(look), in_dims=(0, None))(x, y)
    plain, lifted, derived = (False, False), (True, True), (True, False)
    assert seen[0] == (plain, plain, 1)
    assert seen[1] == (lifted, plain, 2)
    assert seen[2][0] == derived and seen[2][2] == 2
    assert seen[3][0] == lifted and seen[3][2] == 3


def test_vmap_is_silent_about_slow_operations_only_in_the_block():
    x = torch.rand(2, 3, 3)  # histc has no batching rule
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with compat.quiet_fallback():
            expected = vmap(torch.histc)(x)
    with pytest.warns(UserWarning, match="batching rule"):
        assert torch.equal(vmap(torch.histc)(x), expected)


def test_a_trace_has_the_operations_and_computes_the_same():
    def function(a, b):
        return torch.sin(a) @ b

    a, b = torch.rand(2, 3), torch.rand(3, 2)
    graph = compat.traced(function)(a, b)
    names = {str(n.target) for n in graph.graph.nodes if n.op == "call_function"}
    assert names == {"aten.sin.default", "aten.mm.default"}
    assert torch.equal(graph(b.T, a.T), function(b.T, a.T))


COMPILES = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # within torch


@COMPILES
@pytest.mark.slow("starts a compiler")
def test_a_compiled_graph_computes_the_same():
    a, b = torch.rand(4, 3), torch.rand(3, 4)
    graph = compat.traced(lambda a, b: (a @ b).tanh())(a, b)
    made = compat.compile_graph(graph, [a, b])
    assert torch.allclose(made(a, b), (a @ b).tanh())


@COMPILES
def test_options_are_those_that_the_compiler_has():
    options = compat.compile_options()
    assert all(hasattr(torch._inductor.config, name) for name in options)
    assert torch.compile(lambda x: x, options=options)
