"""Noise on a lattice: exact sums, and the law that is promised."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from troth import seeding
from troth.certificates import lattice

KEYS = seeding.keys(0, "test", 0, torch.arange(2000))


@pytest.mark.parametrize("sigma", [1e-3, 0.25, 0.3, 0.5, 0.999, 1.0, 64.0])
def test_the_spacing_is_a_power_of_two_and_a_small_share_of_sigma(sigma):
    h = lattice.step(sigma)
    assert math.frexp(h)[0] == 0.5 and 2**15 <= sigma / h < 2**16


@pytest.mark.parametrize("law", ["normal", "uniform"])
@pytest.mark.parametrize("sigma", [0.1, 0.5])
def test_noise_lies_on_the_lattice_and_has_the_law(law, sigma):
    drawn = lattice.noise(KEYS, 50, sigma, law)
    assert drawn.dtype == torch.float64 and drawn.shape == (2000, 50)
    assert not (drawn / lattice.step(sigma)).frac().any()
    exact = (
        stats.norm(0, sigma) if law == "normal" else stats.uniform(-sigma, 2 * sigma)
    )
    assert stats.kstest(drawn.flatten().numpy(), exact.cdf).pvalue > 1e-6
    assert (drawn == 0).double().mean() < 1e-3  # nothing is lost near 0
    signs = drawn.sign().sum(dim=1).numpy() / math.sqrt(50)
    assert abs(signs.mean()) < 5 / math.sqrt(2000)


def test_sums_are_exact():
    """Rounded input plus noise, minus noise, is the rounded input: to the last bit."""
    drawn = lattice.noise(KEYS, 4, 0.5, "normal")
    for x in (0.1, 1 / 255, -3.7, lattice.largest(0.5)):
        near = lattice.nearest(torch.full((4,), x), 0.5)
        assert torch.equal((near + drawn) - drawn, near.expand(2000, 4))
        assert torch.equal((near + drawn) - near, drawn)
    grey = torch.arange(256) / 255
    assert (lattice.nearest(grey, 0.5) - grey).abs().max() <= lattice.step(0.5) / 2


def test_another_input_on_the_lattice_has_the_same_noise_moved():
    """round(x + z) = x + round(z), on which the proof rests."""
    z = torch.randn(1000, dtype=torch.float64) * 0.5
    x = lattice.nearest(torch.rand(1000), 0.5)
    both = lattice.nearest(x + z, 0.5), x + lattice.nearest(z, 0.5)
    assert torch.equal(*both)


def test_the_error_of_computed_noise_is_below_the_bound():
    """Sum over all cells of the probability that rounding moves to a neighbour.

    Of a cell's edge z, computed as z(1 + e), the probability φ(z)·z·e is moved. e comes
    from torch's inverse distribution function, against 40 digits, and four roundings.
    """
    mpmath.mp.dps = 40
    random = np.random.default_rng(0)
    tails = np.concatenate([random.random(400) / 2, 2.0 ** -random.uniform(1, 64, 400)])
    found = torch.special.ndtri(torch.from_numpy(tails)).numpy()
    worst = 0.0
    for t, z in zip(tails.tolist(), found.tolist(), strict=True):
        missed = mpmath.ncdf(z) - mpmath.mpf(t)
        worst = max(worst, abs(float(missed / mpmath.npdf(z) / z)))
    edges = np.arange(0.5, 9.2 * 2**16) / 2**16
    moved = (stats.norm.pdf(edges) * edges).sum() * (worst + 4 * 2.0**-53)
    tail = stats.norm.sf(edges).sum() * 2.0**-53  # t itself has 53 digits
    grid = len(edges) * 2.0**-64
    assert 2 * (moved + tail + grid) < lattice.ERROR


def test_a_device_without_float64_gets_the_same_noise(monkeypatch):
    """mps computes on the CPU."""
    seen = []
    monkeypatch.setattr(lattice, "_precise", lambda values: seen.append(1) or values)
    lattice.noise(KEYS[:2], 3, 0.5, "normal"), lattice.nearest(torch.ones(2), 0.5)
    assert len(seen) == 2
