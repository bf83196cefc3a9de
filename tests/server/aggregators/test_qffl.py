import math

import numpy as np
import pytest
import torch
from clients_sent import column, drawn, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.mean import mean
from troth.server.aggregators.qffl import qffl

INF, NAN = math.inf, math.nan
F64 = torch.float64
NUMBERS = st.floats(-10, 10, width=32) | st.sampled_from([1e30, -1e30, 1e-45, 3e38, 0])
STRANGE = st.sampled_from([INF, -INF, NAN, 1e30, -1.0, 0.0, 1e-45, 3e38])
LOSSES = st.floats(0, 10, width=32) | STRANGE


def of(update, *loss, **options):
    """The step for a model with one parameter."""
    sent = column(*update, dtype=F64)
    return qffl(sent, torch.tensor(loss, dtype=F64), **options).item()


def algorithm_2(u, loss, q, lr):
    """As the paper writes it, client after client."""
    total, h = np.zeros(u.shape[1]), 0.0
    for row, f in zip(u.numpy(), loss.tolist(), strict=True):
        dw = -row / lr
        total += f**q * dw
        h += q * f ** (q - 1) * float(dw @ dw) + f**q / lr
    return -total / h


def test_it_notes_its_weights():
    _, said = noted(qffl, messages(torch.eye(3)), torch.tensor([1.0, 2.0, 3.0]), q=2)
    assert said["weight"].tolist() == pytest.approx([1 / 14, 4 / 14, 9 / 14])


@pytest.mark.parametrize("q", [0.001, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("lr", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 7), (31, 3)])
def test_as_the_paper_writes_it(q, lr, n, d):
    u, loss = drawn(n, d), 3 * drawn(n, 1, 1)[:, 0].abs() + 0.01
    found = qffl(messages(u), loss, q=q, lr=lr)
    np.testing.assert_allclose(found, algorithm_2(u, loss, q, lr), rtol=1e-10)


def test_q_0_is_exactly_the_mean():
    rows = messages(drawn(7, 50, dtype=torch.float32))
    loss = torch.tensor([0.0, 5.0, NAN, INF, 1e30, 0.0, -3.0])
    found, said = noted(qffl, rows, loss, q=0.0, lr=0.3)
    assert torch.equal(found, mean(rows))
    assert said["weight"].tolist() == [1 / 7] * 7


def test_losses_of_0():
    """F^(q−1) is infinite for q < 1; nothing else than a long way down the slope."""
    assert 0 < of([1.0, 3.0], 0.0, 1.0, q=0.5) < 1e-3
    assert of([1.0, 3.0], 0.0, 1.0, q=1.0) == pytest.approx(3 / 11)  # by hand
    assert of([1.0, 3.0], 0.0, 1.0, q=2.0) == pytest.approx(3 / 19)
    found = of([0.0, 3.0], 0.0, 1.0, q=0.5)  # who has no loss has no gradient either
    assert found == pytest.approx(3 / (1 + 0.5 * 9), rel=1e-4)
    for low in (0.0, -1.0, -INF, 1e-30):  # 1e-10 is the smallest that counts
        assert of([1.0, 3.0], low, 1.0, q=0.5) == of([1.0, 3.0], 1e-10, 1.0, q=0.5)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, LOSSES), min_size=1, max_size=6),
    st.sampled_from([1e-30, 0.1, 1.0, 5.0, 1e30]),
    st.sampled_from([1e-300, 1e-3, 1.0, 1e300]),
)
def test_any_numbers_give_a_finite_step_within_the_rows(rows, q, lr):
    update, loss = map(torch.tensor, zip(*rows, strict=True))
    u = update.float()[:, None]
    found = qffl(messages(u), loss, q=q, lr=lr)
    assert found.dtype == torch.float32 and found.isfinite().all()
    largest = u.abs().max().item()
    assert abs(found.item()) <= largest * (1 + 1e-5)
    back = qffl(messages(u.flip(0)), loss.flip(0), q=q, lr=lr)
    assert back.item() == pytest.approx(found.item(), rel=1e-4, abs=1e-6 * largest)


def test_a_step_that_is_shortened_beyond_float32_is_kept():
    """1e30 / (1 + 1e60): the factor is no float32, the step is."""
    found = qffl(column(1e30), torch.ones(1), q=1.0)
    assert found.item() == pytest.approx(1e-30, rel=1e-5)


def test_a_falsified_loss_takes_over_and_a_long_update_stalls():
    """No robustness, as it says."""
    u, loss = torch.eye(10), torch.ones(10)
    loss[3] = 1e6
    assert qffl(messages(u), loss).argmax() == 3
    u[3] *= 1e6
    assert qffl(messages(u), torch.ones(10)).norm() < 1e-5
