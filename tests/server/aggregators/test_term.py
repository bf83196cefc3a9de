import math

import pytest
import torch
from clients_sent import drawn, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.mean import mean
from troth.server.aggregators.term import term

INF, NAN = math.inf, math.nan
STRANGE = st.sampled_from([INF, -INF, NAN, 1e30, -1e30, 1e-45, 3e38])
LOSSES = st.lists(st.floats(0, 10, width=32) | STRANGE, min_size=1, max_size=8)


def weights(*losses, t=1.0):
    """As noted, and as the result shows: the updates are unit vectors."""
    rows = messages(torch.eye(len(losses), dtype=torch.float64))
    found, said = noted(term, rows, torch.tensor(losses), t=t)
    assert (found - said["weight"]).abs().max() < 1e-15
    return found.tolist()


@pytest.mark.parametrize(
    ("t", "counts"), [(1, [1, 2, 5]), (2, [1, 4, 25]), (-1, [10, 5, 2])]
)
def test_by_hand(t, counts):
    """exp(t·log 1), exp(t·log 2) and exp(t·log 5) of their sum."""
    losses = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log().tolist()
    expected = [count / sum(counts) for count in counts]
    assert weights(*losses, t=t) == pytest.approx(expected)


def test_t_0_is_exactly_the_mean():
    rows = messages(drawn(7, 50, dtype=torch.float32))
    loss = torch.tensor([0.1, 5.0, NAN, INF, 1e30, 0.0, -3.0])
    found, said = noted(term, rows, loss, t=0.0)
    assert torch.equal(found, mean(rows))
    assert said["weight"].tolist() == [1 / 7] * 7


@pytest.mark.parametrize("t", [1e-3, -1e-3, 1e-6, 1e-9])
def test_t_to_0_nears_the_mean_as_t_does(t):
    rows = messages(torch.eye(3, dtype=torch.float64))
    gap = term(rows, torch.tensor([0.0, 1.0, 2.0]), t=t) - mean(rows)
    assert gap.abs().max() == pytest.approx(abs(t) / 3, rel=2e-3)


@pytest.mark.parametrize(
    ("losses", "t", "expected"),
    [
        # large tilts choose the worst or the best
        ([1.0, 3.0, 2.0], 1e3, [0.0, 1.0, 0.0]),
        ([1.0, 3.0, 2.0], -1e3, [1.0, 0.0, 0.0]),
        ([3.0, 3.0, 2.0], 1e3, [0.5, 0.5, 0.0]),
        ([1e30, 1e30, 0.0], 1e300, [0.5, 0.5, 0.0]),
        ([1e-30, 2e-30], 1e300, [0.0, 1.0]),
        # losses that are no numbers
        ([INF, 1.0, INF], 1, [0.5, 0.0, 0.5]),
        ([-INF, 1.0, 1.0], 1, [0.0, 0.5, 0.5]),
        ([INF, 1.0], -1, [0.0, 1.0]),
        ([NAN, NAN], 1, [0.5, 0.5]),
        ([NAN, INF, 0.0], 1, [0.0, 1.0, 0.0]),
        ([-INF, -INF, -INF, NAN], -1, [0.25] * 4),  # thirds round beyond it
    ],
)
def test_the_ends_of_the_range(losses, t, expected):
    assert weights(*losses, t=t) == expected


def test_a_loss_that_is_no_number_counts_as_the_mean():
    assert weights(NAN, 0.0, 4.0) == pytest.approx(weights(2.0, 0.0, 4.0))


@settings(max_examples=100, deadline=None)
@given(LOSSES, st.sampled_from([1.0, -1.0, 5.0, 1e-30, 1e300, -1e300]))
def test_any_losses_give_weights(losses, t):
    found = weights(*losses, t=t)
    assert min(found) >= 0 and sum(found) == pytest.approx(1)
    assert weights(*losses[::-1], t=t)[::-1] == pytest.approx(found)


def test_whoever_reports_the_largest_loss_has_the_step():
    """No robustness, as it says."""
    assert weights(*[2.3] * 9, 50.0)[-1] > 0.999
