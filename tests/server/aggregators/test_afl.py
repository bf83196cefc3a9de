import math
from random import Random

import pytest
import torch
from clients_sent import RANDOM, drawn, messages, noted
from hypothesis import example, given, settings
from hypothesis import strategies as st

from troth.server import rules
from troth.server.aggregators.afl import afl

INF, NAN = math.inf, math.nan
NEW = rules.no_memory()


def after(memory, losses, **options):
    """One round of some clients: their weights, and λ by client after it."""
    rows = messages(torch.eye(len(losses), dtype=torch.float64), [*losses])
    loss = torch.tensor([*losses.values()])
    (step, memory), said = noted(afl, rows, loss, memory, **options)
    assert torch.equal(step, said["weight"])
    lam = {int(k): share for k, share in memory.tolist()}
    assert sum(lam.values()) == pytest.approx(1)
    assert min(lam.values()) >= 0
    return step.tolist(), lam, memory


def test_by_hand():
    """λ starts equal, moves by lr·(loss − mean) and stays in the simplex."""
    step, lam, memory = after(NEW, {3: 1.0, 9: 2.0})
    assert step == [0.5, 0.5]
    assert lam == pytest.approx({3: 0.45, 9: 0.55})
    step, lam, memory = after(memory, {9: 2.0, 3: 1.0})  # the order of rows is free
    assert step == pytest.approx([0.55, 0.45])
    assert lam == pytest.approx({3: 0.4, 9: 0.6})
    step, lam, memory = after(memory, {3: 11.0, 9: 0.0})
    assert step == pytest.approx([0.4, 0.6])
    assert lam == pytest.approx({3: 0.95, 9: 0.05})
    assert after(memory, {3: 11.0, 9: 0.0})[1] == pytest.approx({3: 1.0, 9: 0.0})


def test_newcomers_join_with_an_equal_share():
    _, _, memory = after(NEW, {0: 1.0, 1: 2.0})  # λ = 0.45, 0.55
    step, lam, memory = after(memory, {0: 3.0, 7: 3.0})
    assert step == pytest.approx([0.3 / (0.3 + 1 / 3), (1 / 3) / (0.3 + 1 / 3)])
    assert lam == pytest.approx({0: 0.3, 1: 0.55 * 2 / 3, 7: 1 / 3})
    _, lam, _ = after(memory, {5: 1.0, 6: 1.0, 1: 1.0})
    expected = {0: 0.3 * 3 / 5, 1: 0.55 * 2 / 5, 5: 0.2, 6: 0.2, 7: 0.2}
    assert lam == pytest.approx(expected)


def test_being_absent_costs_nothing():
    """The mean loss of those present: what one gains is another's, not that of all."""
    _, _, memory = after(NEW, dict.fromkeys(range(5), 1.0))
    _, lam, memory = after(memory, {0: 1.0, 1: 2.0})
    assert lam == pytest.approx({0: 0.15, 1: 0.25, 2: 0.2, 3: 0.2, 4: 0.2})
    assert after(memory, {3: 1e30})[1] == pytest.approx(lam)  # nobody to compare with


def test_where_all_present_have_no_weight_they_are_equal():
    _, lam, memory = after(NEW, {0: 0.0, 1: 0.0, 2: 50.0})
    assert lam == pytest.approx({0: 0, 1: 0, 2: 1})
    step, lam, _ = after(memory, {0: 1.0, 1: 2.0})
    assert step == [0.5, 0.5]
    assert lam[1] > lam[0] == 0  # it may come back


def test_lr_0_is_the_mean():
    memory, loss = NEW, torch.tensor([0.0, 1e30, NAN, INF, -INF, 5.0])
    for seed in range(3):
        rows = drawn(6, 20, seed)
        step, memory = afl(messages(rows), loss, memory, lr=0.0)
        torch.testing.assert_close(step, rows.mean(dim=0), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("centres", "more", "where", "value"),
    [
        # the smallest circle around points: of an obtuse triangle, that on its longest
        # side, whatever the third point says; of an acute one, through all three
        ([[0.0, 0.0], [4.0, 0.0], [1.0, 1.0]], [0.0] * 3, [2.0, 0.0], 2.0),
        ([[0.0, 0.0], [2.0, 0.0], [1.0, 3**0.5]], [0.0] * 3, [1.0, 3**-0.5], 2 / 3),
    ],
    ids=["obtuse", "acute"],
)
def test_the_averaged_iterate_nears_the_minimax_value(centres, more, where, value):
    """F_k(w) = ‖w − c_k‖²/2 + b_k, all clients in every round, each with one step.

    To 1 % of the value, where the mean of all clients is further than that off.
    """
    c, b, best = (torch.tensor(x, dtype=torch.float64) for x in (centres, more, where))

    def losses(w):
        return ((c - w) ** 2).sum(dim=1) / 2 + b

    w, total, memory = c.mean(dim=0), torch.zeros_like(c[0]), NEW
    for _ in range(1000):
        total += w / 1000
        step, memory = afl(messages(0.05 * (c - w)), losses(w), memory, lr=0.05)
        w = w + step
    assert losses(best).max() == pytest.approx(value)
    assert losses(total).max() == pytest.approx(value, rel=0.01)
    torch.testing.assert_close(total, best, rtol=0, atol=0.1)
    if where[-1] != 3**-0.5:  # there the mean is the best
        assert losses(c.mean(dim=0)).max() > 1.05 * value


CLIENTS = st.integers(0, 2**53 - 1) | st.integers(0, 4)
LOSSES = st.floats(-9, 9) | st.sampled_from([INF, -INF, NAN, 1e30, 3e38, 1e-320])
ROUND = st.dictionaries(CLIENTS, LOSSES, min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ROUND, min_size=1, max_size=5),
    st.sampled_from([0.0, 1e-300, 0.1, 1e300]),
    RANDOM,
)
@example([{0: 0.0}, {1: INF, 2: 0.0}, {0: 1.0, 1: 0.0}, {0: 0.0}], 1e-300, Random(0))
def test_any_rounds_give_weights_whatever_the_order(rounds, lr, order):
    one = other = NEW
    for losses in rounds:
        step, lam, one = after(one, losses, lr=lr)
        assert sum(step) == pytest.approx(1) and min(step) >= 0
        items = [*losses.items()]
        order.shuffle(items)
        mixed, there, other = after(other, dict(items), lr=lr)
        assert there == pytest.approx(lam, abs=1e-9)
        found = dict(zip([k for k, _ in items], mixed, strict=True))
        assert found == pytest.approx(dict(zip(losses, step, strict=True)), abs=1e-6)


def test_a_client_that_always_reports_a_large_loss_ends_with_the_step():
    """No robustness, as it says."""
    memory = NEW
    for _ in range(20):
        step, _, memory = after(memory, dict.fromkeys(range(9), 1.0) | {9: 3.0})
    assert step[-1] == pytest.approx(1)
