import math

import numpy as np

from troth.data.partitions.iid import iid
from troth.data.partitions.quantity import quantity
from troth.types import TEST, TRAIN, VALID, Arrays


def made(m, marks=None):
    x, y = np.zeros((m, 1), np.float32), np.arange(m) % 4
    return Arrays(x, y, 4, split=None if marks is None else np.array(marks, np.int8))


def sizes(lists):
    return np.array([len(x) for x in lists])


def test_equal_shares_and_one_client_are_the_limits():
    """sigma = 0 and a huge exponent give the sizes of `iid`."""
    wanted = np.sort(sizes(iid(made(1003), 0, clients=10)))
    for options in ({"sigma": 0.0}, {"law": "power", "exponent": 1e9}):
        lists = quantity(made(1003), 0, clients=10, **options)
        assert np.array_equal(np.sort(sizes(lists)), wanted)
    for options in ({"sigma": 1e4}, {"law": "power", "exponent": 1 + 1e-9}):
        lists = quantity(made(1000), 0, clients=10, min_size=3, **options)
        assert np.sort(sizes(lists)).tolist() == [3] * 9 + [973]


def test_lognormal_sizes_are_lognormal():
    """ln of the sizes has the standard deviation asked for.

    Of n = 2,000 draws it is off by more than 5 · sigma/√(2n) = 0.08 sigma with
    probability below 1e-6; rounding adds less than 0.02.
    """
    for sigma in (0.5, 1.0):
        lists = quantity(made(400_000), 1, clients=2000, sigma=sigma, min_size=0)
        assert abs(np.log(sizes(lists)).std() - sigma) < 0.08 * sigma + 0.02


def test_power_law_has_its_exponent():
    """Hill's estimate of the tail, from 1 / mean ln(s/s_min), is exponent − 1.

    Its relative standard deviation is 1/√n = 0.022; 5 of them: p < 1e-6; the smallest
    of 2,000 draws and rounding add less than 0.02.
    """
    lists = quantity(made(10**6), 2, clients=2000, law="power", exponent=3, min_size=0)
    s = sizes(lists)
    assert abs(1 / np.log(s / s.min()).mean() / 2 - 1) < 0.13


def test_sizes_that_grow_with_the_number():
    """Client k has k, k² or e^k units, and which examples it has is random."""
    for law, units in (("linear", [1, 2, 3]), ("square", [1, 4, 9])):
        m = 100 * sum(units)
        lists = quantity(made(m), 0, clients=3, law=law, min_size=0)
        assert sizes(lists).tolist() == [100 * u for u in units]
        assert lists[0].max() > 300 > lists[2].min()
    s = sizes(quantity(made(10**6), 0, clients=5, law="exponential", min_size=0))
    assert np.allclose(s[1:] / s[:-1], np.e, rtol=1e-3)


def test_parts_are_dealt_by_the_same_weights():
    arrays = made(7800, [TRAIN] * 6000 + [VALID] * 600 + [TEST] * 1200)
    for least in (0, 2):
        lists = quantity(arrays, 0, clients=50, sigma=2.0, min_size=least)
        held = np.array([np.bincount(arrays.split[x], minlength=3) for x in lists])
        assert (held[:, [TRAIN, TEST]].min() >= 1) == (least == 2)
        for part, share in ((VALID, 0.1), (TEST, 0.2)):
            off = np.abs(held[:, part] - share * held[:, TRAIN])
            assert off.max() < 1 + share + least * 0.02 * held[:, part].max()


def test_refuses(refuses):
    for options, words in (
        ({"clients": 101}, "partition.clients = 101 must be 1 to 100"),
        ({"clients": 40, "min_size": 3}, "min_size = 3 must be 0 to 2, for there are "),
        ({"clients": 5, "sigma": -0.1}, "sigma = -0.1 must be at least 0 and finite"),
        ({"clients": 5, "sigma": math.nan}, "sigma = nan must be at least 0"),
        ({"clients": 5, "exponent": 1.0}, "exponent = 1.0 must be more than 1 and f"),
    ):
        refuses(words, quantity, made(100), 0, **options)
