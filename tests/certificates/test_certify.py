"""Certificates end to end, where the smoothed classifier is known in closed form."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import troth
from troth.certificates import bounds, certify, lattice
from troth.certificates.sampling import Tiles
from troth.certificates.smoothing import Smoothing
from troth.types import Refusal

W = torch.tensor([0.6, -0.8, 0.0, 2.0])
FAR = float(W.norm())
FEW = {"n": 500, "n0": 50, "tile": 500}


def linear(x):
    z = x.flatten(1) @ W - 0.3
    return torch.stack([-z, z], dim=1)


def inputs(m, seed=0, spread=1.0):
    """Inputs, and how far each is from the plane where the class changes."""
    random = torch.Generator().manual_seed(seed)
    x = spread * torch.randn(m, 4, generator=random)
    return x, ((x @ W - 0.3) / FAR).abs().double().numpy()


@pytest.mark.parametrize("samples", ["fixed", "adaptive"])
def test_a_linear_classifier(samples):
    """300 real certificates at α = .05: above the truth at most α + 4 errors."""
    x, truth = inputs(300)
    settings = FEW | {"sigma": 0.7, "alpha": 0.05, "samples": samples, "tile": 100}
    found = troth.certify(linear, x, **settings)
    error = math.sqrt(0.05 * 0.95 / 300)
    assert (found.radius > truth).mean() <= 0.05 + 4 * error
    right = (linear(x).argmax(1).numpy() == found.label) | (found.label == -1)
    assert (~right).mean() <= 0.05 + 4 * error
    p = stats.norm.cdf(truth / 0.7)
    clear = (p > 0.7) & (p < 0.99)
    ratio = np.median(found.radius[clear] / truth[clear])
    assert ratio >= (0.85 if samples == "fixed" else 0.7)
    assert (found.used == 500).all() == (samples == "fixed")


def test_radius_votes_and_bound_go_together():
    x, _ = inputs(40)
    c = troth.certify(linear, x, sigma=0.5, alpha=0.01, **FEW)
    p = np.maximum(bounds.lower(c.votes, 500, 0.01) - 4 * lattice.ERROR, 0)
    assert np.array_equal(c.p_lower, p)
    real = np.where(p > 0.5, 0.5 * stats.norm.ppf(p), 0)
    apart = math.sqrt(4) * 2.0**-16  # of four numbers, rounded at σ = .5
    assert np.allclose(c.radius, np.maximum(real - apart, 0), rtol=1e-14, atol=0)
    assert np.array_equal(c.label == -1, p <= 0.5)
    assert (c.radius[c.label == -1] == 0).all() and c.settled.all()


def dot(side=33, away=10.0, angle=0.0):
    """A soft dot at an angle below the right of the middle."""
    middle = (side - 1) / 2
    rows, columns = torch.meshgrid(
        torch.arange(side) - middle, torch.arange(side) - middle, indexing="ij"
    )
    r, c = away * math.sin(angle), away * math.cos(angle)
    return torch.exp(-((rows - r) ** 2 + (columns - c) ** 2) / 4)[None]


def place(x):
    """The center of what is seen: how far below and right of the middle."""
    middle = (x.shape[-1] - 1) / 2
    weight = x[:, 0] / x[:, 0].sum(dim=(1, 2), keepdim=True).clamp(min=1e-6)
    line = torch.arange(x.shape[-1]) - middle
    rows = (weight.sum(dim=2) * line).sum(dim=1)
    return rows, (weight.sum(dim=1) * line).sum(dim=1)


def below(x):
    """Is the dot below the horizontal line?"""
    rows, _ = place(x)
    return torch.stack([-rows, rows], dim=1)


@pytest.mark.parametrize("angle", [0.1, 0.25, 0.5])
def test_rotation_is_certified_in_radians(angle):
    """The dot at angle β crosses the line when turned by β: that is the radius."""
    x = dot(angle=angle)[None]
    n = 10_000
    c = troth.certify(below, x, transform="rotation", sigma=0.6, n=n, alpha=0.01)
    p = min(1.0, (0.6 + angle) / 1.2)
    assert c.votes[0] / n == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / n))
    assert 0.7 * angle < c.radius[0] <= angle and c.label[0] == 1
    assert c.radius[0] == 0.6 * (2 * c.p_lower[0] - 1) - lattice.step(0.6)


@pytest.mark.parametrize(("units", "pixel"), [("pixels", 1.0), ("normalised", 2 / 33)])
def test_translation_is_certified_in_its_units(units, pixel):
    """A dot three pixels below the line: that is the radius."""
    x, sigma = dot(away=3.0, angle=math.pi / 2)[None], 2.0 * pixel
    c = troth.certify(
        below, x, transform="translation", sigma=sigma, units=units, n=3000, alpha=0.01
    )
    assert 2.6 * pixel < c.radius[0] <= 3.001 * pixel


def test_affine_has_six_parameters():
    """A dot below the line by f: parameters c, and a·f, that move it back."""
    x = dot(away=4.0, angle=math.pi / 2)[None]
    c = troth.certify(below, x, transform="affine", sigma=0.1, n=3000, alpha=0.01)
    at = 8 / 33  # of the dot; r + ar + bs + c = 0 at distance at/√(1 + at²) of (a, c)
    assert 0.8 * at < c.radius[0] < 1.15 * at and c.label[0] == 1


def undecided(x):
    """A network that gives every class its chance on these inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        last = nn.Linear(108, 4)
        net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), last)
    with torch.no_grad():
        last.bias -= net(x).mean(dim=0)
    return net.eval()


@pytest.mark.parametrize("samples", ["fixed", "adaptive"])
@pytest.mark.parametrize("transform", ["pixel", "rotation"])
def test_any_grouping(samples, transform):
    x = torch.rand(21, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    net = undecided(x)
    settings = {"transform": transform, "sigma": 0.4, "samples": samples}
    settings |= {"n": 300, "n0": 20, "tile": 50}
    whole = troth.certify(net, x, **settings)
    assert len({*whole.votes.tolist()}) > 5
    for some in (slice(0, 1), slice(3, 20), slice(20, 21)):
        part = troth.certify(net, x[some], ids=range(21)[some], **settings)
        for name in ("label", "radius", "p_lower", "votes", "used"):
            assert np.array_equal(getattr(part, name), getattr(whole, name)[some]), name
    back = troth.certify(net, x.flip(0), ids=list(range(21))[::-1], **settings)
    assert np.array_equal(back.votes[::-1], whole.votes)
    tiles = Tiles(net, Smoothing(**settings), x.device)
    for together in (4, 21):
        some = [c.votes for c in certify.each(tiles, x, range(21), together)]
        assert some == whole.votes.tolist()
    other = troth.certify(net, x, ids=range(100, 121), **settings)
    assert not np.array_equal(other.votes, whole.votes)


def test_the_last_tile_may_be_cut():
    x, _ = inputs(5)
    whole = troth.certify(linear, x, n=130, n0=70, tile=50)
    parts = troth.certify(linear, x, n=130, n0=70, tile=130)
    assert np.array_equal(whole.votes, parts.votes) and whole.votes.max() <= 130


def test_inputs_may_be_arrays_bytes_or_none_at_all():
    """And it says how far it is."""
    (x, _), told = inputs(4), []
    plain = troth.certify(linear, x, watch=lambda *p: told.append(p), **FEW)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert np.array_equal(troth.certify(linear, x.numpy(), **FEW).votes, plain.votes)
    assert len(troth.certify(linear, x[:0], **FEW).label) == 0
    whole = torch.tensor([[3, 1, 0, 2]], dtype=torch.uint8)
    assert troth.certify(linear, whole, **FEW).label.tolist() == [1]


@pytest.mark.parametrize(
    ("x", "settings", "words"),
    [
        (torch.zeros(3), {}, r"x has shape \[3\]"),
        (torch.zeros(2, 4) * math.nan, {}, "NaN or infinite values in 2 of 2 inputs"),
        (torch.ones(2, 4) * 1e12, {}, r"up to 1e\+12, and noise of sigma = 0.5 is"),
        (torch.zeros(2, 4, dtype=torch.complex64), {}, "real numbers"),
        (torch.zeros(2, 4), {"transform": "rotation"}, r"deforms images.*shape \[4\]"),
        (torch.zeros(2, 4), {"ids": [1]}, "there are 1 ids for 2 inputs"),
        (torch.zeros(2, 4), {"ids": [1, 2.5]}, "ids must be whole numbers"),
        (torch.zeros(2, 4), {"ids": [1, 2**70]}, "at most 64 bits"),
        (torch.zeros(2, 4), {"radii": "wide"}, "radii = 'wide' must be a list"),
        (torch.zeros(2, 4), {"sgima": 1.0}, "no setting 'sgima'.*did you mean 'sigma'"),
    ],
)
def test_refusals(x, settings, words):
    with pytest.raises(Refusal, match=words):
        troth.certify(linear, x, **FEW | settings)


def test_a_module_in_training_is_refused():
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    with pytest.raises(Refusal, match=r"training mode.*classify.eval\(\)"):
        troth.certify(net, torch.zeros(2, 4), **FEW)
    assert len(troth.certify(net.eval(), torch.zeros(2, 4), **FEW).label) == 2


def lies_on(lattice):
    """Class 1 if every number of an input is a multiple of this, else 0."""

    def classify(x):
        whole = (x.double() / lattice).frac() == 0
        score = whole.flatten(1).all(dim=1).float() - 0.5
        return torch.stack([-score, score], dim=1)

    return classify


@pytest.mark.parametrize("digits", [*range(10, 32, 3), 28])
def test_no_two_certificates_contradict_each_other(digits):
    """Inputs .75 apart, both on every lattice of 2⁻⁴ and finer.

    Noise in floating point gave them the labels 0 and 1 on 2⁻²⁸, with radii 1.07 and
    1.23: sums of numbers near 2⁻⁴ lose digits that sums near 0 have.
    """
    x = torch.stack([torch.zeros(1, 12, 12), torch.full((1, 12, 12), 2.0**-4)])
    c = troth.certify(lies_on(2.0**-digits), x, sigma=0.5, n=1000)
    assert c.label[0] == c.label[1] >= 0
    assert c.radius.min() > 0.75 == float((x[0] - x[1]).norm())


@pytest.mark.parametrize("transform", ["pixel", "rotation", "translation", "affine"])
def test_inputs_between_two_points_of_the_lattice(transform):
    """Rounding moves two inputs at most h√d apart, which radii leave out."""
    s, x = Smoothing(transform, 0.5), torch.rand(1, 6, 6)
    numbers = s.numbers(x)
    assert (
        numbers
        == {"pixel": 36, "rotation": 1, "translation": 2, "affine": 6}[transform]
    )
    real = bounds.radius(s.bound(np.array([0.9]), numbers), 0.5, s.law)
    assert s.radius(np.array([0.9]), numbers) == real - 2.0**-16 * math.sqrt(numbers)
    assert s.radius(np.array([0.4, 0.5]), numbers).tolist() == [0, 0]
    if transform == "pixel":
        near = lattice.nearest(x, 0.5)
        assert float((near - x).norm()) <= 2.0**-17 * 6
        same = s.perturb()(near.float(), torch.arange(3))
        assert torch.equal(same, s.perturb()(x, torch.arange(3)))
