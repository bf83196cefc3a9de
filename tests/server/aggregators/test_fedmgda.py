import numpy as np
import pytest
import torch
from clients_sent import drawn, matrices, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from troth.server.aggregators.fedmgda import fedmgda
from troth.types import Refusal

EPSILONS = pytest.mark.parametrize("eps", [0.01, 0.1, 0.3, 1.0])
EXTREMES = [0.0, 1.0, -1.0, 1e30, -1e30, 3e38, 1e-45, -1e-45, 1e-38]
NUMBERS = st.floats(-4, 4, width=32) | st.sampled_from(EXTREMES)


def solved(update, eps):
    """The step and the weights, checked against each other."""
    step, said = noted(fedmgda, messages(update), eps=eps)
    assert step.dtype == update.dtype
    weight = said["weight"].numpy()
    accuracy = 8 * torch.finfo(update.dtype).eps
    np.testing.assert_allclose(step.numpy(), weight @ units(update), atol=accuracy)
    return step.double().numpy(), weight


def units(update):
    """By another way than the rule's: in 80 bits, whose squares do not overflow."""
    rows = update.numpy().astype(np.longdouble)
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return (rows / np.where(length > 0, length, 1)).astype(np.float64)


def box(n, eps):
    return max(0, 1 / n - eps), min(1, 1 / n + eps)


def kkt(update, weight, eps):
    """Largest violation of any condition of the quadratic program, from scratch."""
    g, (low, high) = units(update), box(len(update), eps)
    slope = g @ (weight @ g)
    bad = [abs(weight.sum() - 1), (low - weight).max(), (weight - high).max()]
    falls, rises = weight > low + 1e-9, weight < high - 1e-9
    if falls.any() and rises.any():
        bad.append(slope[falls].max() - slope[rises].min())
    return float(max(bad))


def random(n, d, shift=0.0):
    """Rows of lengths from 1 to 10⁴."""
    draw = torch.Generator().manual_seed(n + d)
    rows = torch.randn(n, d, generator=draw, dtype=torch.float64) + shift
    return rows * 10 ** (4 * torch.rand(n, 1, generator=draw, dtype=rows.dtype))


HIGH = 1 / 3 + 0.1
BESIDE = [[2.0, 0.0], [7.0, 0.0], [0.0, 1.0]]
AGAINST = [[3.0, 0.0], [5.0, 0.0], [-1.0, 0.0]]


@pytest.mark.parametrize(
    ("rows", "eps", "step", "weight"),
    [
        (BESIDE, 1.0, [1 / 2, 1 / 2], [1 / 4, 1 / 4, 1 / 2]),
        (BESIDE, 0.1, [1 - HIGH, HIGH], [(1 - HIGH) / 2, (1 - HIGH) / 2, HIGH]),
        # opposite rows: as much against as the box allows
        (AGAINST, 0.1, [8 / 60, 0], [17 / 60, 17 / 60, 26 / 60]),
        # rows of zeros
        ([[3.0, 0.0], [0.0, 0.0]], 1.0, [0, 0], [0, 1]),
        # one against the others stalls it: no robustness, as it says
        ([[1.0] * 4] * 9 + [[-1.0] * 4], 1.0, [0] * 4, None),
        ([[1.0] * 4] * 9 + [[-1.0] * 4], 0.0, [0.4] * 4, None),
    ],
)
def test_by_hand(rows, eps, step, weight):
    found, weights = solved(torch.tensor(rows, dtype=torch.float64), eps)
    assert found == pytest.approx(step, rel=1e-6, abs=1e-12 if any(step) else 1e-7)
    if weight:
        assert weights == pytest.approx(weight, abs=1e-9 if 0 in weight else 1e-4)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 5), (4, 1), (7, 3), (30, 40)])
def test_eps_0_is_exactly_the_mean_of_unit_vectors(n, d):
    rows = random(n, d)
    step, weight = solved(rows, 0.0)
    assert (weight == 1 / n).all()
    np.testing.assert_allclose(step, units(rows).mean(axis=0), atol=1e-15)


@EPSILONS
@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 3), (3, 2), (5, 5), (8, 3), (12, 30)])
@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_as_a_general_solver_does(eps, n, d, shift):
    """SLSQP, to what it can: its value may not be better than ours by 1e-9."""
    rows = random(n, d, shift)
    g = units(rows)
    products = g @ g.T
    found = optimize.minimize(
        lambda lam: lam @ products @ lam / 2,
        np.full(n, 1 / n),
        jac=lambda lam: products @ lam,
        bounds=[box(n, eps)] * n,
        constraints={"type": "eq", "fun": lambda lam: lam.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    step, weight = solved(rows, eps)
    assert step @ step / 2 <= found.fun + 1e-9
    np.testing.assert_allclose(step, found.x @ g, atol=1e-4)
    assert kkt(rows, weight, eps) < 1e-9


@pytest.mark.parametrize("eps", [0.001, 0.1, 1.0])
@pytest.mark.parametrize(
    ("n", "d", "shift"),
    [(100, 30, 0.3), (100, 500, 0.0), (500, 1, 0.3), (500, 50, 0.3), (500, 600, 0.1)],
)
def test_conditions_hold_for_many_rows(n, d, shift, eps):
    rows = random(n, d, shift)
    step, weight = solved(rows, eps)
    assert kkt(rows, weight, eps) < 1e-8
    if eps == 1:  # worse for nobody
        assert (units(rows) @ step >= step @ step - 1e-8).all()


@EPSILONS
@pytest.mark.parametrize("noise", [1e-3, 1e-6, 1e-7])
@pytest.mark.parametrize("n", [10, 60])
def test_rows_that_are_nearly_equal_in_float32(n, noise, eps):
    wide = drawn(1, 100) * (1 + noise * drawn(n, 100))
    rows = wide.float()
    step, weight = solved(rows, eps)
    assert kkt(rows, weight, eps) < 1e-9
    g = units(rows)
    assert (g.min(axis=0) - 1e-6 <= step).all()
    assert (step <= g.max(axis=0) + 1e-6).all()


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-160, 1e200, 1.7e308])
def test_the_ends_of_float64(size):
    rows = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64) * size
    assert solved(rows, 1.0)[0] == pytest.approx([0.5**0.5, 0], abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(matrices(NUMBERS, 7, 4), st.sampled_from([0.0, 1e-12, 0.1, 0.5, 1.0]))
def test_any_numbers(matrix, eps):
    rows = torch.tensor(matrix)
    step, weight = solved(rows, eps)
    assert np.isfinite(step).all()
    assert np.linalg.norm(step) <= 1 + 1e-6
    assert kkt(rows, weight, eps) < 1e-8


def test_blocks_of_columns_are_put_together():
    """More columns than a block has, the last one short."""
    columns = (1 << 20) // 3
    rows = torch.zeros(3, 2 * columns + 5)
    rows[0, 0], rows[1, columns], rows[2, -1] = 4.0, 5.0, -6.0
    step, _ = solved(rows, 1.0)
    assert step[[0, columns, -1]] == pytest.approx([1 / 3, 1 / 3, -1 / 3])
    assert np.abs(step).sum() == pytest.approx(1)


def test_refuses_what_it_could_not_solve(monkeypatch):
    monkeypatch.setitem(fedmgda.__globals__, "ACCURACY", -1e-30)
    words = "fedmgda missed its optimality conditions by .*, more than -1e-30, with n"
    with pytest.raises(Refusal, match=words):
        fedmgda(messages(torch.eye(3)), eps=0.5)
