"""What holds for every deformation, and an implementation that is not ours."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from troth import lookup, seeding
from troth.data.deformations._flow import pixels_per_unit
from troth.types import Refusal

NAMES = lookup.names("deformation")
WIDTH = {"rotation": 1, "translation": 2, "affine": 6}
FRAMES = ("edges", "centres", "mixed")
MODES = {"zeros": "grid-constant", "border": "nearest", "reflection": "reflect"}
every = pytest.mark.parametrize("name", NAMES)


def deform(name):
    return lookup.find("deformation", name)


def drawn(name, b, sigma=0.4, seed=0):
    draw = lookup.companion(deform(name), "draw")
    assert draw is not None
    return draw(seeding.keys(seed, "test", 0, torch.arange(b)), sigma, torch.float64)


def as_affine(name, p, h, w, frame):
    """The paper's flow (3.2) in units of the frame, an image."""
    if name == "affine":
        return p.numpy()
    if name == "translation":
        return np.array([0, 0, p[0], 0, 0, p[1]])
    high, wide = (h - 1, w - 1) if frame == "centres" else (h, w)
    c, s = math.cos(p[0]), math.sin(p[0])
    return np.array([c - 1, -s * wide / high, 0, s * high / wide, c - 1, 0])


def by_scipy(x, flows, mode, frame, order=1):
    """out[o] = x[M o + offset] in pixels, by scipy.ndimage.affine_transform.

    "mixed" is what the authors do: coordinates from `linspace(-1, 1)`, the flow added,
    and `grid_sample` with align_corners = False.
    """
    h, w = x.shape[-2:]
    where = np.array([h - 1, w - 1]) / 2  # the middle
    units = np.array(pixels_per_unit(h, w, {"mixed": "edges"}.get(frame, frame)))
    given_out = units if frame == "edges" else where  # pixels of a coordinate of 1
    images = np.empty(x.shape)
    for k, (a, b, c, d, e, f) in enumerate(flows):
        matrix = units[:, None] * (np.eye(2) + np.array([[a, b], [d, e]])) / given_out
        offset = where + units * np.array([c, f]) - matrix @ where
        how = {"order": order, "mode": mode, "prefilter": False}
        for channel, image in enumerate(x[k].double().numpy()):
            images[k, channel] = ndimage.affine_transform(image, matrix, offset, **how)
    return images


@every
@pytest.mark.parametrize("padding", MODES)
@pytest.mark.parametrize("frame", FRAMES)
@settings(max_examples=15)
@given(
    h=st.integers(2, 13),
    w=st.integers(2, 13),
    channels=st.integers(1, 3),
    seed=st.integers(0, 2**20),
)
def test_scipy_finds_the_same(name, padding, frame, h, w, channels, seed):
    x = torch.from_numpy(np.random.default_rng(seed).random((3, channels, h, w)))
    p = drawn(name, 3, seed=seed)
    flows = [as_affine(name, one, h, w, frame) for one in p]
    expected = by_scipy(x, flows, MODES[padding], frame)
    out = deform(name)(x, p, padding=padding, frame=frame)
    assert np.abs(out.numpy() - expected).max() < 1e-9
    out = deform(name)(x.float(), p.float(), padding=padding, frame=frame)
    assert out.dtype == torch.float32
    assert np.abs(out.numpy() - expected).max() < 1e-4


@every
def test_scipy_finds_the_same_nearest_pixels(name):
    x = torch.from_numpy(np.random.default_rng(1).random((20, 1, 9, 12)))
    p = drawn(name, 20, seed=1)
    flows = [as_affine(name, one, 9, 12, "edges") for one in p]
    expected = by_scipy(x, flows, "grid-constant", "edges", order=0)
    assert np.array_equal(deform(name)(x, p, interpolation="nearest").numpy(), expected)


@every
@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", MODES)
@pytest.mark.parametrize("frame", ["edges", "centres"])
@settings(max_examples=20)
@given(h=st.integers(1, 40), w=st.integers(1, 40))
def test_zeros_give_the_image_back(name, interpolation, padding, frame, h, w):
    x = torch.rand(2, 3, h, w)
    how = {"interpolation": interpolation, "padding": padding, "frame": frame}
    out = deform(name)(x, torch.zeros(2, WIDTH[name]), **how)
    tolerance = 0 if interpolation == "nearest" else 1e-5
    assert (out - x).abs().max() <= tolerance


@every
def test_images_are_apart_and_of_many_types(name):
    """Bytes are numbers; few digits cost none of the place."""
    x, p = torch.randint(0, 256, (4, 3, 7, 9), dtype=torch.uint8), drawn(name, 4)
    out = deform(name)(x, p)
    assert out.dtype == torch.float32
    assert torch.equal(out, deform(name)(x.float(), p))
    assert out.min() >= 0 and 1 < out.max() <= 255
    for kind in (torch.bfloat16, torch.float16):
        x = torch.rand(4, 1, 32, 32).to(kind)
        out = deform(name)(x, p)
        assert out.dtype == kind
        assert torch.equal(out, deform(name)(x.float(), p).to(kind))
    f, x, p = deform(name), torch.rand(6, 2, 5, 5), drawn(name, 6).float()
    out = f(x, p)
    assert torch.equal(f(x[2:3], p[2:3]), out[2:3])
    assert f(x[:0], p[:0]).shape == (0, 2, 5, 5)


@every
@pytest.mark.parametrize("padding", MODES)
def test_lifted(name, padding):
    f = deform(name)
    x, p = torch.rand(3, 5, 2, 6, 9), drawn(name, 15).reshape(3, 5, -1).float()

    def one(x, p):
        return f(x, p, padding=padding)

    together = torch.func.vmap(one)(x, p)
    alone = torch.stack([one(a, q) for a, q in zip(x, p, strict=True)])
    assert torch.equal(together, alone)
    shared = torch.func.vmap(one, in_dims=(None, 0))(x[0], p)
    alone = torch.stack([one(x[0], q) for q in p])
    assert torch.equal(shared, alone)


@every
@pytest.mark.parametrize("padding", MODES)
def test_gradients(name, padding):
    f = deform(name)
    x = torch.rand(2, 1, 4, 5, dtype=torch.float64, requires_grad=True)
    p = drawn(name, 2, 0.2, seed=3).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, p: f(x, p, padding=padding), (x, p), eps=1e-7, atol=1e-5
    )
    zero = torch.zeros(2, WIDTH[name], requires_grad=True)
    f(torch.rand(2, 1, 4, 5), zero, padding=padding).square().sum().backward()
    assert zero.grad is not None and zero.grad.isfinite().all()


@every
def test_refusals(name, refuses):
    k = WIDTH[name]
    for shape in ((3,), (2, 7), (2, 7, 7), (2, 1, 3, 3, 3), (2, 1, 0, 3)):
        words = rf"'{name}' needs images .* have shape {re.escape(str(list(shape)))}"
        refuses(words, deform(name), torch.ones(shape), torch.zeros(shape[0], k))
    x = torch.ones(2, 1, 3, 3)
    for p in (torch.zeros(2), torch.zeros(3, k), torch.zeros(2, k + 1)):
        refuses(rf"parameters of shape \[2, {k}\]", deform(name), x, p)
    for kind in (torch.bool, torch.complex64):
        with pytest.raises(Refusal, match=rf"these are {str(kind)[6:]}; convert"):
            deform(name)(x.to(kind), torch.zeros(2, k))


@every
def test_draws_have_the_spread_that_they_should(name):
    m, sigma = 40_000, 0.3
    p = drawn(name, m, sigma) / sigma
    assert p.shape == (m, WIDTH[name])
    second, fourth = (1 / 3, 1 / 5) if name == "rotation" else (1.0, 3.0)
    # Each within six standard errors: fails less than once in 10⁷.
    assert p.mean(0).abs().max() < 6 * (second / m) ** 0.5
    spread = ((fourth - second**2) / m) ** 0.5
    assert (p.square().mean(0) - second).abs().max() < 6 * spread
    if name == "rotation":
        assert p.abs().max() < 1
        assert p.max() > 0.999 and p.min() < -0.999  # fails once in e⁴⁰
