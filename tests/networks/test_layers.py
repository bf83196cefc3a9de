import tracemalloc

import numpy as np
import pytest
import torch

from troth.networks.layers import Features, Normalize, normalize
from troth.types import Refusal

BYTES = np.random.default_rng(0).integers(0, 256, (300, 1, 4, 5)).astype(np.uint8)
X = torch.from_numpy(BYTES)


@pytest.mark.parametrize(("kind", "scale"), [("unit", 255), ("none", 1)])
def test_unit_divides_by_the_scale_and_none_only_casts(kind, scale):
    out = normalize(kind, BYTES, 255.0)(X)
    assert out.dtype == torch.float32
    assert np.allclose(out.numpy(), BYTES / scale, atol=1e-7)


def test_fixed_takes_one_number_or_one_per_channel():
    out = normalize("fixed", BYTES, 255.0, [0.1307], [0.3081])(X)
    assert np.allclose(out.numpy(), (BYTES / 255 - 0.1307) / 0.3081, atol=1e-5)
    colored = np.repeat(BYTES, 3, axis=1)
    out = normalize("fixed", colored, 255.0, [0.1, 0.2, 0.3], [1.0, 2.0, 4.0])
    found = out(torch.from_numpy(colored))
    for c, (mean, std) in enumerate([(0.1, 1.0), (0.2, 2.0), (0.3, 4.0)]):
        assert np.allclose(found[:, c], (colored[:, c] / 255 - mean) / std, atol=1e-5)
    with pytest.raises(Refusal, match=r"2 numbers, one per channel.*\[1, 4, 5\]"):
        normalize("fixed", BYTES, 255.0, [0.1, 0.2], [1.0, 1.0])
    with pytest.raises(Refusal, match="positive"):
        normalize("fixed", BYTES, 255.0, [0.1], [0.0])


def test_pixel_is_dittos_recipe():
    rows = BYTES.astype(np.float64)
    expected = (rows - rows.mean(0)) / (rows.std(0) + 0.001)
    out = normalize("pixel", BYTES, 255.0).double()(X)
    assert np.allclose(out.numpy(), expected, atol=1e-5)  # buffers were float32


def test_pixel_means_the_same_on_another_scale():
    small = (BYTES / 255).astype(np.float32)
    a = normalize("pixel", BYTES, 255.0)(X)
    b = normalize("pixel", small, 1.0)(torch.from_numpy(small))
    assert torch.allclose(a, b, atol=1e-4)
    same = np.full((9, 3), 7, dtype=np.uint8)  # a pixel that is constant is zero
    assert not normalize("pixel", same, 255.0)(torch.from_numpy(same)).any()


def test_chunks_do_not_matter(monkeypatch):
    whole = normalize("pixel", BYTES, 255.0)
    monkeypatch.setattr("troth.networks.layers._CHUNK", 7 * 20)
    parts = normalize("pixel", BYTES, 255.0)
    assert torch.allclose(whole.mean, parts.mean, rtol=1e-6)
    assert torch.allclose(whole.inverse, parts.inverse, rtol=1e-6)


def test_the_whole_is_never_float64():
    large = np.zeros((40_000, 784), dtype=np.uint8)  # 31 MB, 251 MB as float64
    tracemalloc.start()
    normalize("pixel", large, 255.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6


def test_nothing_is_trained_and_everything_is_saved():
    layer = normalize("pixel", BYTES, 255.0)
    assert not list(layer.parameters())
    other = Normalize(torch.zeros(1, 4, 5), torch.ones(1, 4, 5))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(X), layer(X))
    assert Normalize(1.0, 2.0).double()(torch.tensor([3])).dtype == torch.float64
    assert Normalize(1.0, 2.0)(torch.tensor([3])).item() == 1.0


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_refuses_to_divide_by(bad):
    good, spoilt = torch.ones(2), torch.tensor([1.0, bad])
    with pytest.raises(Refusal, match="positive number"):
        Normalize(0.0, bad)
    with pytest.raises(Refusal, match="positive standard deviations"):
        Features(good, good, spoilt)
    if not np.isfinite(bad):
        with pytest.raises(Refusal, match="prepared by finite numbers"):
            Features(spoilt, good, good)


def test_refusals():
    bad = np.ones((3, 4), dtype=np.float32)
    bad[1, 2], bad[0, 0] = np.nan, np.inf
    for kind, rows, scale, words in [
        ("units", BYTES, 255.0, "'pixel', 'fixed', 'none'"),
        ("pixel", BYTES[:0], 255.0, "there are 0"),
        ("unit", BYTES, 0.0, "scale of the data is 0"),
        ("pixel", bad, 1.0, "2 of 4"),
    ]:
        with pytest.raises(Refusal, match=words):
            normalize(kind, rows, scale)


def test_features_by_hand():
    fill, mean = torch.tensor([9.0, 1.0]), torch.tensor([1.0, 0.0])
    layer = Features(fill, mean, torch.tensor([2.0, 4.0]))
    x = torch.tensor([[torch.nan, 8.0], [3.0, torch.nan]])
    assert layer(x).tolist() == [[4.0, 2.0], [1.0, 0.25]]
    assert layer(x).dtype == torch.float64 and x.isnan().sum() == 2
    assert layer(torch.tensor([[3, 8]])).tolist() == [[1.0, 2.0]]
    assert layer.float()(x).dtype == torch.float32
    assert list(layer.parameters()) == [] and len(layer.state_dict()) == 3
