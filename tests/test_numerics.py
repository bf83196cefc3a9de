import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import numerics

LEAST = 2.0**-149  # the smallest denormal in float32
TINY = st.integers(-9, 9).map(lambda steps: steps * LEAST)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | TINY


INF, MOST = float("inf"), torch.finfo(torch.float32).max


def test_median_by_hand():
    for column, expected in (
        ([3.0, 1.0, 2.0], 2.0),
        ([3.0, 1.0, 2.0, 9.0], 2.5),  # of torch's own 2.0: why there is one of our own
        ([MOST] * 4, MOST),  # the sum would overflow
        ([-MOST, MOST], 0.0),
        ([-INF, 1.0, 2.0, INF], 1.5),  # infinite values at the ends do no harm
        ([1.0, INF, INF, INF], INF),
    ):
        rows = torch.tensor([[x, 1.0] for x in column])
        kept = rows.clone()
        assert numerics.median(rows).tolist() == [expected, 1.0]
        assert torch.equal(rows, kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", range(1, 12))
def test_as_numpy_does(n, dtype, small_blocks):
    rows = random(n, 101, n).to(dtype)
    found = numerics.median(rows)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.median(rows.numpy(), axis=0), rtol=1e-6)


@pytest.mark.parametrize("n", [3, 4])
def test_what_is_no_number_shows(n):
    rows = torch.arange(2.0 * n).reshape(n, 2)
    rows[1, 0] = torch.nan
    assert numerics.median(rows).isfinite().tolist() == [False, True]


@settings(max_examples=150, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=8))
def test_lies_between_the_middle_values(values):
    """Exactly, for denormals as well."""
    found = numerics.median(torch.tensor(values)[:, None]).item()
    ordered = sorted(values)
    assert ordered[(len(values) - 1) // 2] <= found <= ordered[len(values) // 2]


WIDE = st.floats(-(2.0**100), 2.0**100, width=32)
SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9))


def matrices(numbers):
    """Small matrices, some of them in float64, with equal rows among them."""

    def filled(shape):
        n, d = shape
        some = st.lists(
            st.lists(numbers, min_size=d, max_size=d), min_size=1, max_size=n
        )
        return some.flatmap(
            lambda pool: st.lists(st.sampled_from(pool), min_size=n, max_size=n)
        )

    dtype = st.sampled_from([torch.float32, torch.float64])
    return st.builds(torch.tensor, SHAPES.flatmap(filled), dtype=dtype)


def random(n, d, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def small_blocks(monkeypatch):
    """Every loop over blocks takes many turns, the last one shorter."""
    monkeypatch.setattr(numerics, "_NUMBERS", {"cpu": 64})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    rows = random(7, 50).to(dtype)
    found = numerics.median(rows)
    assert found.dtype == dtype and torch.equal(found, rows.median(dim=0).values)
    assert_right((1 + 0.01 * random(6, 20)).to(dtype))


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), [(1, 9), (5, 1), (13, 100), (300, 400)])
def test_blocks_are_sorted_columns(n, d, dtype):
    rows = random(d, 2 * n).to(dtype).T[::2]  # in any layout
    kept, seen = rows.clone(), torch.zeros(d)
    for block, ordered in numerics.sorted_blocks(rows):
        assert ordered.dtype == dtype
        assert torch.equal(ordered, kept[:, block].sort(dim=0).values)
        seen[block] += 1
        ordered.zero_()  # it is the reader's own
    assert bool((seen == 1).all())
    assert torch.equal(rows, kept)


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(dtype, small_blocks):
    rows = random(6, 333).to(dtype)
    found = numerics.norms(rows)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, np.linalg.norm(rows.double(), axis=1), rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms_of_the_largest_and_the_smallest(dtype):
    most = torch.finfo(dtype).max / 10
    least = LEAST if dtype == torch.float32 else 5e-324
    rows = torch.tensor([[most] * 4, [least * 8] * 4, [0.0] * 4], dtype=dtype)
    expected = [2 * rows[0, 0].item(), 16 * least, 0.0]
    assert numerics.norms(rows).tolist() == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_no_columns(dtype):
    rows = torch.zeros(3, 0, dtype=dtype)
    assert [*numerics.blocks(rows)] == [slice(0, 0)]
    assert [ordered.shape for _, ordered in numerics.sorted_blocks(rows)] == [(3, 0)]
    assert numerics.norms(rows).tolist() == [0, 0, 0]
    assert numerics.median(rows).shape == (0,)
    assert numerics.combine(torch.ones(3), rows).shape == (0,)


def plain_squares(rows):
    """Squared distances in units of the largest number²: 1e-14 off at most.

    They are sums of differences in float64, each rounded once.
    """
    wide, largest = rows.double(), rows.double().abs().max().clamp(min=LEAST)
    return torch.stack([(((wide - row) / largest) ** 2).sum(dim=1) for row in wide])


def assert_right(rows, rtol=1e-10):
    found = numerics.square_distances(rows)
    assert torch.equal(found, found.T)
    np.testing.assert_allclose(found, plain_squares(rows), rtol=rtol, atol=0)


@settings(max_examples=150, deadline=None)
@given(matrices(WIDE | TINY))
def test_square_distances_are_exact(rows):
    assert numerics.square_distances(rows).dtype == torch.float64
    assert_right(rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.integers(1, 40), st.integers(-30, 0), st.integers(0, 9))
def test_square_distances_of_near_equal_rows(n, d, e, seed):
    """A common row and small differences from it, down to the last bit or none."""
    rows = random(1, d, seed) + 2.0**e * random(n, d, seed + 1)
    assert_right(rows)
    assert_right(random(1, d, seed).double() + 2.0 ** (e - 20) * random(n, d, seed + 1))


@pytest.mark.parametrize("far", [1e3, 1e10, 1e30, 3e38])
def test_outliers_do_not_blur_the_others(far, small_blocks):
    """20 of 40 rows, from far off to ever closer, hide no difference of the others."""
    rows = 1 + 1e-6 * random(40, 30)
    rows[:20] = far * 0.3 ** torch.arange(20.0)[:, None] * random(20, 30, 1).sign()
    for each in (rows, rows.double()):
        assert_right(each)


def test_where_cdist_fails():
    rows = 100 + 1e-3 * random(40, 1000)
    close = (torch.cdist(rows, rows) / rows.abs().max()).double() ** 2
    error = (close - plain_squares(rows)).abs() / plain_squares(rows)
    assert error.fill_diagonal_(0).max() > 0.5  # why there is one of our own
    assert_right(rows)


def test_far_rows_in_float64_do_not_make_the_others_vanish():
    """1e300² is no number; 1e300 as a unit would leave nothing of 1."""
    rows = random(9, 4).double()
    near = numerics.square_distances(rows[2:])
    rows[0], rows[1] = 1e300, 1e100
    found = numerics.square_distances(rows)
    assert bool(found.isfinite().all())
    ratio = found[2:, 2:][near > 0] / near[near > 0]
    np.testing.assert_allclose(ratio, ratio[0].item(), rtol=1e-10)
    assert found[2:, 2:].max() < found[1, 2:].min() < found[0, 1:].min()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_of_what_is_no_number_end(dtype):
    rows = random(8, 3).to(dtype)
    rows[1, 1], rows[4, 0] = torch.nan, torch.inf
    assert numerics.square_distances(rows).shape == (8, 8)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 3)])
def test_distances_of_nothing(shape):
    found = numerics.square_distances(torch.ones(shape))
    assert torch.equal(found, torch.zeros(shape[0], shape[0], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_which_rows_are_finite(dtype):
    rows = torch.randn(6, 40).to(dtype)
    rows[0, 3], rows[1, 0], rows[2, 39] = torch.nan, torch.inf, -torch.inf
    rows[3] = torch.finfo(dtype).max  # whose length does not fit into the type
    rows[4] = 0
    assert numerics.finite(rows).tolist() == [False] * 3 + [True] * 3
    lengths = numerics.norms(rows)[[0, 1, 2, 4, 5]]
    assert lengths.isfinite().tolist() == [False] * 3 + [True] * 2
    assert numerics.finite(rows[:, :0]).tolist() == [True] * 6


def test_where_a_device_has_float32_alone(monkeypatch):
    monkeypatch.setattr(numerics, "widest", lambda rows: torch.float32)
    rows = 3 + 1e-2 * random(40, 500)
    assert numerics.square_distances(rows).dtype == torch.float32
    for far in (1, 1e15):
        rows[:4] *= far
        assert_right(rows, rtol=1e-5)
    lengths = np.linalg.norm(rows.double(), axis=1)
    np.testing.assert_allclose(numerics.norms(rows), lengths, rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_combine(dtype, small_blocks):
    rows, weight = (1 + random(9, 77)).to(dtype), torch.arange(9.0).double() / 36
    found = numerics.combine(weight, rows)
    assert found.dtype == dtype
    expected = (weight @ rows.double()).to(dtype)
    steps = (found - expected).abs() / expected.abs().clamp(min=1)
    assert steps.max() <= 2 * torch.finfo(dtype).eps


def by_bisection(point, low, high):
    """The projection, from its definition alone: a shift that makes the sum 1."""
    a, b = point.min() - high, point.max() - low
    for _ in range(200):
        middle = (a + b) / 2
        above = np.clip(point - middle, low, high).sum() > 1
        a, b = (middle, b) if above else (a, middle)
    return np.clip(point - b, low, high)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-4, 4), min_size=1, max_size=12), st.floats(0, 1))
def test_capped_simplex_is_the_projection(values, eps):
    n = len(values)
    low, high = max(0.0, 1 / n - eps), min(1.0, 1 / n + eps)
    point = torch.tensor(values, dtype=torch.float64)
    found = numerics.capped_simplex(point, low, high)
    assert found.sum().item() == pytest.approx(1, abs=1e-12)
    assert ((found >= low) & (found <= high)).all()
    expected = by_bisection(point.numpy(), low, high)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_capped_simplex_keeps_the_digits_of_large_numbers():
    """By hand: 1e30 alone has weight 1; under a cap of ½ the next shares the rest."""
    point = torch.tensor([0.0, 1e30, 0.25, -1e308, 0.0], dtype=torch.float64)
    assert numerics.capped_simplex(point, 0, 1).tolist() == [0, 1, 0, 0, 0]
    found = numerics.capped_simplex(point, 0, 0.5).tolist()
    assert found == pytest.approx([1 / 12, 0.5, 1 / 3, 0, 1 / 12], abs=1e-15)
    for low, high in ((0.0, 0.25), (0.5, 1.0)):  # of which no three sum to 1
        found = numerics.capped_simplex(torch.tensor([0.0, 1.0, 5.0]), low, high)
        assert found.tolist() == [low or high] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mean_whose_sum_overflows(dtype):
    most = torch.finfo(dtype).max
    rows = torch.tensor([[most, 1.0], [most, 2.0], [-most, 6.0]], dtype=dtype)
    assert numerics.average(rows).tolist() == pytest.approx([most / 3, 3.0], rel=1e-6)
    two = torch.tensor([most, 1.5], dtype=dtype)
    assert torch.equal(numerics.average(rows[:2]), two)


def test_level_numbers():
    numbers = [1 / 3, 1 / 3 + 1e-15, 1 / 3 + 1e-7, 0.0, torch.inf, 1e305]
    third = torch.tensor(numbers, dtype=torch.float64)
    level = numerics.level(third)
    assert third[0] != third[1] and level[0] == level[1] != level[2]
    assert torch.allclose(level[:4], third[:4], rtol=1e-9, atol=0)
    assert torch.equal(level[3:], third[3:])
