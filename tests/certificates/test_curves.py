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


def test_intervals_of_every_client_by_hand():
    """2 of 4 examples: 95 % from 6.76 % to 93.24 %; 0 of 2: up to 1 − √.025."""
    low, high = FOUND.interval()
    assert low[0] == pytest.approx([0.0676, 0.0676, 0.0063], abs=1e-4)
    assert high[0] == pytest.approx([0.9324, 0.9324, 0.8059], abs=1e-4)
    assert low[1].tolist() == [0, 0, 0]
    assert high[1] == pytest.approx([1 - 0.025**0.5] * 3)
    one = FOUND.summary()["clients"][4]
    assert one["low"].tolist() == low[0].tolist()
    assert one["high"].tolist() == high[0].tolist()


def test_noise_and_spread_by_hand():
    assert FOUND.noise[:, 0] == pytest.approx([0.25 / 3, 0])
    area = [0.4, 0.2, 0, 0]
    assert FOUND.acr_noise == pytest.approx([np.var(area, ddof=1) / 4, 0])
    s = FOUND.summary()
    # ½·.5² − (.25/3)/2, then 0 where it is negative
    assert s["spread"] == pytest.approx([(0.125 - 0.25 / 6) ** 0.5] * 2 + [0])
    alone = curves.curves(CLIENT[:4], Y[:4], LABEL[:4], RADIUS[:4], USED[:4], [0.0])
    assert np.isnan(alone.summary()["spread"]).all()


def test_models_are_paired_by_client():
    other = FOUND._replace(accuracy=FOUND.accuracy[::-1], acr=FOUND.acr * 0)
    few = FOUND._replace(clients=np.array([4]))
    (found,) = curves.paired({"personal": FOUND, "shared": other, "local": few})
    assert found["models"] == ["personal", "shared"]
    assert np.isnan(found["acr"]["low"])  # two clients do not tell
    text = json.loads(json.dumps(files.plain(found)))
    assert text["accuracy"]["low"] == [None] * 3


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
