import json

import numpy as np
import pytest

from troth import files
from troth.certificates import bounds, curves
from troth.certificates.smoothing import Smoothing

CLIENT = np.array([4, 4, 4, 4, 9, 9])
Y = np.array([0, 1, 2, 0, 1, 1])
LABEL = np.array([0, 1, 0, -1, 0, -1])
RADIUS = np.array([0.4, 0.2, 0.9, 0.0, 0.3, 0.0])
USED = np.array([100, 100, 100, 500, 200, 400])
FOUND = curves.curves(CLIENT, Y, LABEL, RADIUS, USED, [0.0, 0.2, 0.3])


def test_curves_by_hand():
    assert FOUND.clients.tolist() == [4, 9] and FOUND.examples.tolist() == [4, 2]
    assert FOUND.accuracy.tolist() == [[0.5, 0.5, 0.25], [0, 0, 0]]
    assert FOUND.acr == pytest.approx([0.6 / 4, 0])  # both readings, client by client
    assert FOUND.acr_right[0] == pytest.approx(0.3) and np.isnan(FOUND.acr_right[1])
    assert FOUND.abstained.tolist() == [0.25, 0.5] and FOUND.used.tolist() == [200, 300]


def test_the_summary_by_hand():
    s = FOUND.summary()
    assert s["mean"].tolist() == [0.25, 0.25, 0.125]
    assert s["std"].tolist() == [0.25, 0.25, 0.125]  # fairness
    assert s["min"].tolist() == [0, 0, 0] and s["max"].tolist() == [0.5, 0.5, 0.25]
    assert s["acr"] == pytest.approx(0.075) and s["acr_right"] == pytest.approx(0.3)
    assert s["used"] == pytest.approx(1400 / 6)
    text = json.loads(json.dumps(files.plain(s)))
    assert text["clients"]["9"]["acr_right"] is None


def test_the_area_under_a_fine_curve_is_the_average_radius():
    random = np.random.default_rng(0)
    m, radii = 300, np.linspace(0, 1, 2001)
    radius, label = random.random(m), random.integers(0, 2, m)
    ones = np.ones(m, int)
    found = curves.curves(0 * ones, ones, label, radius, ones, radii)
    area = np.trapezoid(found.accuracy[0], radii)
    assert found.acr[0] == pytest.approx(area, abs=1e-3)


def test_radii_of_a_curve():
    asked = Smoothing(samples="adaptive", radii=(0.1, 0.7))
    assert curves.grid(asked).tolist() == [0.1, 0.7]
    grid = curves.grid(Smoothing("rotation", 0.5, n=1000))
    assert grid[0] == 0 and len(grid) == 101
    most = bounds.radius(bounds.lower(1000, 1000, 0.001), 0.5, "uniform")
    assert grid[-1] == most
