import math

import numpy as np
import pytest
import torch
from clients_sent import column, drawn, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.filters.clip import clip


def of(update, **options):
    return clip(messages(update), **options).update


def lengths(rows):
    return torch.linalg.vector_norm(rows.double(), dim=1).tolist()


def test_where_most_say_nothing_nothing_is_said():
    assert of(torch.tensor([[0.0], [0.0], [5.0]])).tolist() == [[0.0]] * 3


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 9), st.sampled_from([0.0, 0.1, 1.0, 50.0]))
def test_as_its_definition(n, d, radius):
    update = drawn(n, d)
    norm = np.linalg.norm(update, axis=1)
    limit = radius or np.median(norm)
    expected = update.numpy() * np.minimum(1, limit / norm)[:, None]
    np.testing.assert_allclose(of(update, radius=radius), expected, rtol=1e-13)


def test_what_is_short_enough_stays_to_the_bit():
    update = drawn(9, 70_000, dtype=torch.float32)
    assert torch.equal(of(update, radius=1e9), update)
    found, short = of(update), np.argsort(lengths(update))[:5]
    assert torch.equal(found[short], update[short])


def test_says_whom_it_clipped():
    _, said = noted(clip, column(3.0, 0.5, -9.0, 1.0), radius=1.0)
    assert said["clipped"].tolist() == [True, False, True, False]


@pytest.mark.parametrize("far", [1e30, 3e38, -3e38])
@pytest.mark.parametrize("radius", [1e-30, 1e-3, 1.0])
def test_far_rows_keep_their_direction(far, radius):
    update = torch.tensor([[far, far, 0.0, far, far], [0.0] * 5])
    expected = math.copysign(radius / 2, far)
    found = of(update, radius=radius)[0]
    assert found.tolist() == pytest.approx([expected] * 2 + [0.0] + [expected] * 2)


def test_the_smallest_numbers():
    least = 2.0**-149
    update = torch.tensor([[least, 0.0], [least, 0.0], [1.0, 0.0]])
    assert of(update).tolist() == [[least, 0.0]] * 3


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.integers(1, 6), st.sampled_from([1e-9, 1.0, 1e30]))
def test_no_row_is_longer_than_the_longest_benign(f, more, far):
    benign = drawn(f + more, 3, dtype=torch.float32)
    hostile = far * drawn(f, 3, 1, torch.float32)
    found = lengths(of(torch.cat([hostile, benign])))
    assert max(found) <= max(lengths(benign)) * (1 + 1e-6)
