"""Inside a certified radius the smoothed prediction stays.

The smoothed classifier is worked out on a fine grid of parameters, by a sum over a
finer one instead of by samples. At α = .01 more than eight of 200 certificates are
wrong with probability 3e-4 at most, if each is wrong with probability α.
"""

import math

import numpy as np
import pytest
import torch
from torch import nn

import troth
from troth.data.deformations.rotation import rotation
from troth.data.deformations.translation import translation

IMAGES, ALPHA, MOST = 200, 0.01, 8
SIDE = 8


def setting():
    """Smooth random images, and a random network that hesitates between classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        coarse = torch.rand(IMAGES, 1, 4, 4)
        x = nn.functional.interpolate(coarse, SIDE, mode="bilinear")
        last = nn.Linear(4 * 36, 3)
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), last)
    with torch.no_grad():
        last.bias -= net(x).mean(dim=0)
    return net.eval(), x


def classes(net, images):
    with torch.no_grad():
        return np.asarray(net(images).argmax(dim=1).numpy())


@pytest.mark.slow("200 certificates against sums over a fine grid")
def test_rotation():
    net, x = setting()
    sigma, steps = 0.8, 400  # angles a σ
    found = troth.certify(
        net, x, transform="rotation", sigma=sigma, n=1000, n0=50, alpha=ALPHA
    )
    angles = (torch.arange(-2 * steps, 2 * steps + 1) / steps * sigma)[:, None]
    wrong = 0
    for one, label, radius in zip(x, found.label, found.radius, strict=True):
        if label < 0:
            continue
        right = classes(net, rotation(one.expand(len(angles), 1, SIDE, SIDE), angles))
        shares = np.stack([_window(right == c, 2 * steps) for c in range(3)])
        at = angles[steps : 3 * steps + 1, 0].numpy()  # where each window is centred
        inside = np.abs(at) < radius
        wrong += bool((shares[:, inside].argmax(axis=0) != label).any())
    assert wrong <= MOST
    assert (found.label >= 0).mean() > 0.5 and np.median(found.radius) > 0.2 * sigma


def _window(votes, width):
    """The mean over `width` steps to either side together, for every middle."""
    total = np.concatenate([[0], np.cumsum(votes)])
    return np.asarray((total[width + 1 :] - total[: -width - 1]) / (width + 1))


@pytest.mark.slow("200 certificates against sums over a fine grid")
def test_translation():
    net, x = setting()
    sigma, steps, wide = 0.6, 4, 6  # pixels; shifts a σ; σ to each side
    found = troth.certify(
        net, x, transform="translation", units="pixels", sigma=sigma, n=1000, n0=50,
        alpha=ALPHA,
    )  # fmt: skip
    line = torch.arange(-wide * steps, wide * steps + 1) / steps * sigma
    shifts = torch.cartesian_prod(line, line)
    law = np.exp(-0.5 * ((line[:, None] - line) / sigma).numpy() ** 2)  # [at, ε]
    far = shifts.norm(dim=1).reshape(len(line), -1).numpy()
    wrong = 0
    for one, label, radius in zip(x, found.label, found.radius, strict=True):
        if label < 0:
            continue
        many = one.expand(len(shifts), 1, SIDE, SIDE)
        right = classes(net, translation(many, shifts * 2 / SIDE)).reshape(far.shape)
        shares = np.stack([law @ (right == c) @ law.T for c in range(3)])
        inside = far < min(radius, 2.5 * sigma)  # further out the grid ends too soon
        wrong += bool((shares[:, inside].argmax(axis=0) != label).any())
    assert wrong <= MOST
    assert (found.label >= 0).mean() > 0.5 and np.median(found.radius) > 0.3 * sigma


def test_as_many_errors_as_that_are_rare():
    tail = 1 - sum(
        math.comb(IMAGES, k) * ALPHA**k * (1 - ALPHA) ** (IMAGES - k)
        for k in range(MOST + 1)
    )
    assert tail < 3e-4
