"""What holds of every loss in the folder, on all data that it takes."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from troth import lookup
from troth.types import Refusal

F64 = torch.float64
B = 7
NAMES = lookup.names("loss")
OPTIONS = {  # beside the defaults
    "cross_entropy": [{"smoothing": 0.3}, {"smoothing": 1.0}],
    "huber": [{"delta": 0.01}, {"delta": 1e6}],
}


def drawn(kind, b=B, seed=0):
    """Outputs and what they should have been."""
    draw = torch.Generator().manual_seed(seed)
    columns = {"label": 4, "margin": 1, "several": 3, "single": 1, "number": 1}[kind]
    outputs = torch.randn(b, columns, generator=draw, dtype=F64) * 3
    if kind == "number":
        return outputs, torch.randn(b, generator=draw, dtype=F64)
    if kind in ("several", "single"):
        return outputs, torch.randint(0, 2, (b, columns), generator=draw)
    return outputs, torch.randint(0, max(2, columns), (b,), generator=draw)


KINDS = ("label", "margin", "several", "single", "number")
TAKES = {  # the data each is for; all others it refuses
    "absolute": ("number",),
    "auto": KINDS,
    "cross_entropy": ("label", "margin"),
    "huber": ("number",),
    "multi_label": ("several", "single"),
    "squared": ("number",),
}
EVERY = [
    pytest.param(name, kind, options, id=f"{name}-{kind}-{options}")
    for name in NAMES
    for kind in TAKES.get(name, ())
    for options in [{}, *OPTIONS.get(name, [])]
]
every = pytest.mark.parametrize(("name", "kind", "options"), EVERY)


def loss(name, options):
    given = lookup.check("loss", name, options)
    function = lookup.find("loss", name)
    return lambda f, y: lookup.call(function, given, outputs=f, y=y)


def test_a_new_one_says_here_what_it_takes():
    assert {*TAKES} == {*NAMES}


@every
def test_a_value_an_example_in_the_type_of_the_outputs(name, kind, options):
    for dtype in (torch.float32, F64):
        for b in (0, 1, B):
            f, y = drawn(kind, b)
            y = y.to(dtype) if y.is_floating_point() else y
            found = loss(name, options)(f.to(dtype), y)
            assert found.shape == (b,) and found.dtype == dtype
            assert bool((found >= 0).all())  # inf and NaN would not be


@every
def test_an_example_does_not_hear_of_the_others(name, kind, options):
    """Nor of another call; and nothing that is given is changed."""
    f, y = drawn(kind)
    before, order = (f.clone(), y.clone()), torch.tensor([3, 0, 6, 5, 1, 2, 4])
    of = loss(name, options)
    found = of(f, y)
    assert torch.equal(of(f, y), found)
    torch.testing.assert_close(of(f[order], y[order]), found[order], rtol=0, atol=0)
    for k in range(B):
        torch.testing.assert_close(of(f[k : k + 1], y[k : k + 1])[0], found[k])
    assert torch.equal(f, before[0]) and torch.equal(y, before[1])


@every
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_huge_outputs_give_numbers(name, kind, options, dtype):
    """±10⁴, at which a softmax or a sigmoid written out is 0/0 or log 0."""
    f, y = drawn(kind)
    f = (1e4 * f.sign()).to(dtype)
    f[0], f[1] = 1e4, -1e4
    y = y.to(dtype) if y.is_floating_point() else y
    of = loss(name, options)
    g = torch.func.grad(lambda f: of(f, y).sum())(f)
    assert bool(of(f, y).isfinite().all()) and bool(g.isfinite().all())


@every
def test_the_gradient_is_that_of_the_value(name, kind, options):
    f, y = drawn(kind)
    of = loss(name, options)
    assert torch.autograd.gradcheck(lambda f: of(f, y), f.requires_grad_())
    g = torch.func.grad(lambda f: of(f, y).sum())(f.detach())
    assert of(f - 1e-4 * g, y).sum() < of(f, y).sum()  # a step downhill


@every
def test_lifted_and_traced_as_in_a_loop(name, kind, options):
    pairs = [drawn(kind, seed=seed) for seed in range(3)]
    f, y = (torch.stack(part) for part in zip(*pairs, strict=True))
    of = loss(name, options)
    slope = torch.func.grad(lambda f, y: of(f, y).sum())
    lifted = torch.func.vmap(slope)
    found, traced = lifted(f, y), make_fx(lifted)(f, y)
    torch.testing.assert_close(traced(2 * f, y), lifted(2 * f, y))
    for one, pair in zip(found, pairs, strict=True):
        torch.testing.assert_close(one, slope(*pair), rtol=0, atol=1e-14)


OTHERS = [(n, kind) for n in NAMES for kind in KINDS if kind not in TAKES.get(n, ())]


@pytest.mark.parametrize(("name", "kind"), OTHERS)
def test_other_data_are_refused_in_a_sentence(name, kind):
    f, y = drawn(kind)
    words = rf"train\.loss = '{name}' needs .* shape \[7, .* leave train\.loss out"
    with pytest.raises(Refusal, match=words):
        loss(name, {})(f, y)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["several", "single", "number"])
def test_outputs_that_nothing_is_known_of_are_refused(name, kind):
    """Of classes, only `Objective.check` knows how many there are."""
    f, y = drawn(kind)
    with pytest.raises(Refusal, match="needs"):
        loss(name, {})(torch.cat([f, f, f[:, :1]], dim=1), y)
