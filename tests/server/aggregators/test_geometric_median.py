import pytest
import torch
from clients_sent import DENORMAL, column, drawn, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.linalg import vector_norm
from torch.nn.functional import normalize

from troth.server.aggregators.geometric_median import geometric_median
from troth.server.aggregators.median import median
from troth.types import Refusal

WIDE = torch.float64


def of(update, **options):
    return geometric_median(messages(update), **options)


def total(z, update):
    return float(vector_norm(update.double() - z.double(), dim=1).sum())


def steepness(z, update):
    """‖Σ_i unit vectors‖/n less the share of rows that lie at z: 0 at the optimum."""
    gap = z.double() - update.double()
    d = vector_norm(gap, dim=1)
    at = d < 1e-5 * d.max()
    pull = (gap[~at] / d[~at][:, None]).sum(dim=0)
    return max(0.0, float(vector_norm(pull)) - int(at.sum())) / len(update)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 10])
def test_on_a_line_it_is_the_median(n):
    update = drawn(n, 1)
    torch.testing.assert_close(of(update), median(messages(update)), rtol=0, atol=1e-5)


SHAPES = [(5, 1), (5, 2), (6, 3), (9, 40), (60, 7), (31, 31), (30, 2000), (12, 70_000)]


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (WIDE, 5e-8)])
def test_is_where_all_pulls_cancel(n, d, dtype, most):
    """The condition of optimality, from the rows themselves."""
    update = drawn(n, d, dtype=dtype)
    assert steepness(of(update), update) < most


@pytest.mark.parametrize("d", [2, 400])
@pytest.mark.parametrize("near", [1e-2, 1e-4, 1e-5])
def test_near_a_row_it_is_as_accurate(d, near):
    """A row that lies close to the optimum of the others, against steps on the rows."""
    others, way = drawn(9, d), normalize(drawn(1, d, seed=8), dim=1)
    update = torch.cat([others, of(others) + near * way])
    assert steepness(of(update), update) < 1e-6


@pytest.mark.parametrize("d", [2, 300])
@pytest.mark.parametrize("copies", [2, 5, 6, 9])
def test_copies_of_a_row(d, copies):
    """Half of the rows at one place: it is the optimum."""
    update = torch.cat([drawn(1, d).expand(copies, d), drawn(5, d, seed=2)])
    z = of(update)
    assert steepness(z, update) < 1e-7
    assert copies <= 5 or torch.equal(z, update[0])
    assert copies < 5 or float((z - update[0]).abs().max()) <= 1e-5


NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-10, 10),
    st.floats(-(2.0**100), 2.0**100),
    DENORMAL,
)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_converges_on_anything(data):
    """No refusal, and no point of many tried is better."""
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 4))
    flat = data.draw(st.lists(NUMBERS, min_size=n * d, max_size=n * d))
    update = torch.tensor(flat, dtype=WIDE).reshape(n, d)
    z, said = noted(geometric_median, messages(update))
    assert z.isfinite().all()
    assert float(said["weight"].sum()) == pytest.approx(1)
    assert (said["weight"] >= 0).all()
    best = min(total(p, update) for p in [*update, update.mean(0), update.median(0)[0]])
    r = vector_norm(update - median(messages(update)), dim=1)
    slack = 1e-5 * n * float(r.sort().values[(n - 1) // 2])
    assert total(z, update) <= best * (1 + 1e-12) + slack


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 10**6))
def test_f_rows_move_it_no_farther_than_promised(f, more, seed):
    n, d = 2 * f + more, 3
    benign, hostile = drawn(n - f, d, seed), drawn(f, d, seed + 1)
    z = of(torch.cat([10.0 ** (seed % 9) * hostile, benign]), f=f)
    center = benign.mean(dim=0)
    radius = vector_norm(benign - center, dim=1).max()
    limit = 2 * (n - f) / (n - 2 * f) * radius
    assert vector_norm(z - center) <= limit * (1 + 1e-4)


def test_refuses_a_tolerance_that_it_does_not_reach():
    update, little = drawn(20, 2), {"iterations": 1, "tolerance": 1e-12}
    words = r"gradient of .* in iterations = 1, and tolerance is 1e-12"
    with pytest.raises(Refusal, match=words):
        of(update, **little)
    rough, best = total(of(update, **little, strict=False), update), of(update)
    assert total(best, update) < rough < 1.1 * total(best, update)


@pytest.mark.parametrize("size", [1e30, 1e99, 1e120, 1e200, 1e307])
@pytest.mark.parametrize("d", [3, 30])  # fewer coordinates than rows, and more
def test_a_row_counts_by_its_direction_however_far_it_is(size, d):
    near, far = drawn(9, d), drawn(9, d)
    near[4], far[4] = 1e12, size
    torch.testing.assert_close(of(far, f=1), of(near, f=1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("nu", [1e-300, 1e-170, 1e6, 1e170, 1e300])
def test_smoothing_out_of_all_proportion(nu):
    """Much of it is the mean, and next to none the median."""
    sent = column(0.0, 0.0, 1.0, 2.0, -1.0, dtype=WIDE)
    expected = sent.update.mean(dim=0) if nu > 1 else torch.zeros(1, dtype=WIDE)
    torch.testing.assert_close(geometric_median(sent, nu=nu), expected)
