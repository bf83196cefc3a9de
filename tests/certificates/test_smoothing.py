import math

import numpy as np
import pytest
import torch
from scipy import stats

from troth import seeding
from troth.certificates.smoothing import Smoothing
from troth.types import Refusal

KEYS = seeding.keys(0, "test", 0, torch.arange(4000))


def picture(h=9, w=9):
    """A ramp down the rows and along the columns, of which shifts can be read off."""
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.stack([rows, columns]).float()


@pytest.mark.parametrize("shape", [(2, 5, 7), (13,), (4, 3), (1, 2, 3, 2)])
def test_noise_is_standard_normal_times_sigma(shape):
    """Kolmogorov–Smirnov; correct noise fails with probability 1e-6."""
    x = torch.rand(shape)
    noisy = Smoothing("pixel", 0.5).perturb()(x, KEYS)
    assert noisy.shape == (4000, *shape) and noisy.dtype == torch.float32
    drawn = ((noisy - x) / 0.5).flatten()
    assert stats.kstest(drawn[:50_000], "norm").pvalue > 1e-6
    flat = (noisy - x).reshape(4000, -1)
    assert abs(float(torch.corrcoef(flat.T)[0, 1:].abs().max())) < 5 / math.sqrt(4000)


@pytest.mark.parametrize("name", ["pixel", "rotation", "translation", "affine"])
def test_a_key_has_the_same_noise_in_any_company(name):
    perturb = Smoothing(name, 0.3).perturb()
    alone, all_ = perturb(picture(), KEYS[7:8]), perturb(picture(), KEYS[:20])
    assert torch.equal(alone[0], all_[7])
    assert all_.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("frame", ["edges", "centres", "mixed"])
def test_a_translation_in_pixels_is_in_pixels(frame):
    """The ramp, read in the middle: shifts N(0, σ²) on both axes of a long image."""
    x, sigma = picture(41, 21), 0.8
    s = Smoothing("translation", sigma, units="pixels", frame=frame)
    moved = s.perturb()(x, KEYS)[:, :, 20, 10] - x[:, 20, 10]
    grown = torch.tensor([41 / 40, 21 / 20] if frame == "mixed" else [1.0, 1.0])
    scale = moved.std(dim=0) * grown if frame == "mixed" else moved.std(dim=0)
    assert (scale - sigma).abs().max() < 0.06  # six standard errors
    for axis in range(2):
        law = stats.norm(0, float(scale[axis])).cdf
        assert stats.kstest(moved[:, axis].numpy(), law).pvalue > 1e-6


def test_half_images_are_the_paper_s_units():
    x, keys = picture(40, 20), KEYS[:200]
    halves = Smoothing("translation", 0.05).perturb()(x, keys)[:, :, 20, 10]
    pixels = Smoothing("translation", 1.0, units="pixels").perturb()(x, keys)[
        :, :, 20, 10
    ]
    down, along = (halves - x[:, 20, 10]).T, (pixels - x[:, 20, 10]).T
    assert torch.allclose(down[0], along[0], atol=1e-4)  # 0.05 × 40/2 pixels
    assert torch.allclose(2 * down[1], along[1], atol=1e-4)  # 0.05 × 20/2


def test_angles_are_uniform_radians():
    sigma, x = 0.7, torch.zeros(1, 41, 41)
    x[0, 20, 35] = 1  # a dot to the right of the middle
    turned = Smoothing("rotation", sigma).perturb()(x, KEYS[:2000])[:, 0]
    rows, columns = (picture(41, 41) - 20).unbind(0)
    weight = turned / turned.sum(dim=(1, 2), keepdim=True)
    r, c = ((weight * k).sum(dim=(1, 2)) for k in (rows, columns))
    law = stats.uniform(-sigma, 2 * sigma).cdf
    assert stats.kstest(torch.atan2(r, c).numpy(), law).pvalue > 1e-6


def test_what_it_asks_by_default():
    radii = Smoothing("pixel", 0.5, samples="adaptive").asked.radii
    assert np.allclose(radii, np.linspace(0, 1.5, 10)) and len(radii) == 10
    turns = Smoothing("rotation", 0.5, samples="adaptive").asked.radii
    assert np.allclose(turns, np.linspace(0, 0.5, 10))
    assert Smoothing("pixel", 0.5).asked.radii == ()
    asked = Smoothing("pixel", samples="adaptive", radii=(1.0, 0.5)).asked
    assert asked.radii == (0.5, 1.0)
    close = Smoothing(samples="adaptive", tolerance=0.01)
    assert close.asked.tolerance == 0.01 and not close.asked.radii


def test_the_record_has_all_that_matters():
    s = Smoothing("translation", 0.1, n=500, units="pixels", padding="border")
    assert s.record() == {
        **{"transform": "translation", "sigma": 0.1, "n0": 100, "n": 500},
        **{"alpha": 0.001, "seed": 0, "samples": "fixed", "precision": "float32"},
        **{"interpolation": "bilinear", "padding": "border", "frame": "edges"},
        **{"units": "pixels", "tile": 1000, "question": "", "lattice": 2.0**-19},
    }
    same = [Smoothing("pixel", 0.1, padding=p).record() for p in ("zeros", "border")]
    assert same[0] == same[1]  # noise on values knows no padding
    assert Smoothing(n=np.int64(50), sigma=np.float64(0.5)).record()["n"] == 50


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sigma": 0}, r"sigma = 0.0 must be a finite number above 0"),
        ({"sigma": math.inf}, "sigma = inf must be"),
        (
            {"sigma": 18, "transform": "rotation"},
            r"sigma = 18 .* in radians, .*; for 18 degrees, give 0.314",
        ),
        ({"sigma": "0.5"}, "sigma = '0.5' is a text; it must be a number"),
        ({"alpha": 0}, "alpha = 0.0 is the probability.*between 0 and 1"),
        ({"n": 0}, "n = 0 must be a number of samples, 1 or more"),
        ({"n0": -3}, "n0 = -3 must be"),
        ({"n": 1e5}, "n = 100000.0 is a number; it must be a whole number"),
        ({"transform": "shear"}, "transform = 'shear' is not one of 'pixel'"),
        ({"samples": "adaptive", "radii": (-1.0,)}, "radii = .* at least 0"),
        (
            {"samples": "adaptive", "radii": (1.0,), "tolerance": 0.1},
            "give one of the two",
        ),
        ({"n": 9}, "n = 9 samples cannot prove any radius .* at least 10"),
        ({"samples": "adaptive", "tolerance": 1.0}, "tolerance = 1.0 is a share"),
        ({"radii": (1.0,)}, "no effect with fixed samples"),
    ],
)
def test_refusals(settings, words):
    with pytest.raises(Refusal, match=words):
        Smoothing(**settings)
