import math
from typing import Any

import pytest
import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.mean import mean
from troth.server.aggregators.term import term

INF, NAN = math.inf, math.nan
LOSSES = st.lists(
    st.one_of(
        st.floats(0, 10, width=32),
        st.sampled_from([INF, -INF, NAN, 1e30, -1e30, 1e-45, 3e38]),
    ),
    min_size=1,
    max_size=8,
)


def weights(*losses: float, t: float = 1.0) -> list[float]:
    """As noted, and as the result shows: the updates are unit vectors."""
    noted: dict[str, Any] = {}
    rows = messages(torch.eye(len(losses), dtype=torch.float64))
    found = term(rows, torch.tensor(losses), noted.update, t=t)
    assert (found - noted["weight"]).abs().max() < 1e-15
    return found.tolist()


def test_by_hand():
    """exp(log 1), exp(log 2) and exp(log 5) of 8."""
    losses = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    assert weights(*losses.tolist()) == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert weights(*losses.tolist(), t=2) == pytest.approx([1 / 30, 4 / 30, 25 / 30])
    assert weights(*losses.tolist(), t=-1) == pytest.approx([10 / 17, 5 / 17, 2 / 17])


def test_t_0_is_exactly_the_mean():
    rows = messages(torch.randn(7, 50, generator=torch.Generator().manual_seed(0)))
    loss = torch.tensor([0.1, 5.0, NAN, INF, 1e30, 0.0, -3.0])
    noted: dict[str, Any] = {}
    assert torch.equal(term(rows, loss, noted.update, t=0.0), mean(rows))
    assert noted["weight"].tolist() == [1 / 7] * 7


@pytest.mark.parametrize("t", [1e-3, -1e-3, 1e-6, 1e-9])
def test_t_to_0_nears_the_mean_as_t_does(t):
    rows = messages(torch.eye(3, dtype=torch.float64))
    gap = term(rows, torch.tensor([0.0, 1.0, 2.0]), t=t) - mean(rows)
    assert gap.abs().max() == pytest.approx(abs(t) / 3, rel=2e-3)


def test_large_tilts_choose_the_worst_or_the_best():
    assert weights(1.0, 3.0, 2.0, t=1e3) == [0.0, 1.0, 0.0]
    assert weights(1.0, 3.0, 2.0, t=-1e3) == [1.0, 0.0, 0.0]
    assert weights(3.0, 3.0, 2.0, t=1e3) == [0.5, 0.5, 0.0]
    assert weights(1e30, 1e30, 0.0, t=1e300) == [0.5, 0.5, 0.0]
    assert weights(1e-30, 2e-30, t=1e300) == [0.0, 1.0]


def test_what_losses_that_are_no_numbers_count_as():
    assert weights(INF, 1.0, INF) == [0.5, 0.0, 0.5]
    assert weights(-INF, 1.0, 1.0) == [0.0, 0.5, 0.5]
    assert weights(INF, 1.0, t=-1) == [0.0, 1.0]
    assert weights(NAN, NAN) == [0.5, 0.5]
    assert weights(NAN, 0.0, 4.0) == pytest.approx(weights(2.0, 0.0, 4.0))
    assert weights(NAN, INF, 0.0) == [0.0, 1.0, 0.0]
    assert weights(-INF, -INF, -INF, NAN, t=-1) == [0.25] * 4  # thirds round beyond it


@settings(max_examples=100, deadline=None)
@given(LOSSES, st.sampled_from([1.0, -1.0, 5.0, 1e-30, 1e300, -1e300]))
def test_any_losses_give_weights(losses, t):
    found = weights(*losses, t=t)
    assert min(found) >= 0
    assert sum(found) == pytest.approx(1)
    back = weights(*losses[::-1], t=t)
    assert back[::-1] == pytest.approx(found)


def test_whoever_reports_the_largest_loss_has_the_step():
    """No robustness, as it says."""
    assert weights(*[2.3] * 9, 50.0)[-1] > 0.999
