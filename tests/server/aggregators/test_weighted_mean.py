import math

import numpy as np
import pytest
import torch
from clients_sent import column, drawn, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.weighted_mean import weighted_mean

MOST = 2**63 - 1


def weights(size):
    _, said = noted(weighted_mean, messages(torch.zeros(len(size), 1), size=size))
    return said["weight"].tolist()


def test_by_hand():
    """Sizes below nothing count as nothing; a falsified one decides alone."""
    assert weights([-5, 1, 3]) == [0.0, 0.25, 0.75]
    assert weights([-MOST - 1, 0, 3]) == [0.0, 0.0, 1.0]
    alone = weighted_mean(column(0.0, 0.0, 1e6, size=[10, 10, MOST]))
    assert alone.item() == pytest.approx(1e6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=30), st.integers(1, 9))
def test_as_numpy_does(size, d):
    update = drawn(len(size), d)
    expected = np.average(update, axis=0, weights=size if any(size) else None)
    found = weighted_mean(messages(update, size=size))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("size", [[MOST] * 5, [MOST, MOST, 1, 0, -1]])
def test_absurd_sizes_do_not_overflow(size):
    found = weights(size)
    assert sum(found) == pytest.approx(1)
    assert found == pytest.approx([float(s == MOST) / size.count(MOST) for s in size])


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e308, -1e308])
def test_sizes_that_are_no_whole_numbers(bad):
    found = weights([bad, bad, 1.0])
    assert sum(found) == pytest.approx(1)
    assert found[0] == found[1] == pytest.approx(0.5 if bad > 0 else 0.0)
