"""What holds of all attacks in which the hostile clients act as one."""

import numpy as np
import pytest
import torch
from clients_sent import applied, messages, mixed, same
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.attacks import _crowd

TOGETHER = ["alie", "ipm", "mimic", "min_max", "min_sum", "optimal_alie", "optimal_ipm"]
ALL = pytest.mark.parametrize("name", [*TOGETHER, "sign_flip"])
HOSTILE = torch.tensor([False, True, False, False, True, False, False])
KNOW_N = ("alie", "optimal_alie", "optimal_ipm")
"""From n comes their z, or they rehearse on all rows."""


def attacked(name, sent, hostile=HOSTILE):
    """The updates, as a round has them."""
    options = {"of": "benign"} if name == "sign_flip" else {}
    options |= {"hostile": hostile, "defence": average}
    return applied("attack", name, sent, **options)[0].update


def average(sent):
    return (sent.update / len(sent.update)).sum(dim=0)


def updates(n, d, seed=0, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=draw, dtype=dtype)


@ALL
def test_all_send_the_same(name):
    """Whatever they sent themselves, and whatever clients report beside."""
    sent, other = messages(updates(7, 5), extra=2), updates(7, 5)
    found = attacked(name, sent)
    assert same(found[1], found[4]) and not torch.equal(found[1], sent.update[1])
    other[HOSTILE] = torch.nan
    lies = {"loss": torch.rand(7), "size": torch.arange(7) * 1000}
    lying = sent._replace(update=other, extra=sent.extra * torch.nan, **lies)
    assert same(attacked(name, lying), found)


@ALL
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_changes_not_a_bit(name, seed):
    sent = messages(updates(7, 50, seed))
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    found = attacked(name, mixed(sent, order), HOSTILE[order])
    assert same(found, attacked(name, sent)[order])


@ALL
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_benign_rows_that_are_no_numbers_are_not_looked_at(name, bad):
    update = updates(7, 5)
    update[2, 3] = bad
    found, rest = attacked(name, messages(update)), torch.arange(7) != 2
    assert found[1].isfinite().all()
    assert same(found[~HOSTILE], update[~HOSTILE])
    if name not in KNOW_N:
        without = messages(update[rest], torch.arange(10, 17)[rest])
        assert same(attacked(name, without, HOSTILE[rest]), found[rest])


@ALL
def test_where_nothing_is_finite_nothing_happens(name):
    update = torch.full((7, 5), torch.nan)
    assert same(attacked(name, messages(update)), update)


@ALL
def test_adversaries_alone_take_their_own_rows_for_benign(name):
    update = updates(4, 5)
    found = attacked(name, messages(update), torch.ones(4, dtype=torch.bool))
    assert same(found, found[:1].expand(4, 5).clone()) and found.isfinite().all()
    if name not in KNOW_N:
        more = torch.cat([update, torch.full((1, 5), 9.0)])  # it hears of the four
        assert same(attacked(name, messages(more), torch.arange(5) == 4)[4], found[0])


@ALL
def test_one_benign_row(name):
    """It has no spread: what is made of mean and spread is the row itself."""
    update = updates(3, 5)
    found = attacked(name, messages(update), torch.tensor([True, False, True]))
    assert found.isfinite().all()
    if name in ("alie", "optimal_alie", "mimic", "min_max", "min_sum"):
        assert same(found, update[1].repeat(3, 1))


@ALL
@pytest.mark.parametrize("scale", [1e30, 3e38, 1e-30, 1e-42])
def test_large_and_small_numbers(name, scale):
    """As with ordinary ones, times the scale, up to the end of the range."""
    update = updates(7, 5).clamp(-1, 1) * scale
    found = attacked(name, messages(update))[1]
    assert found.isfinite().all()
    if scale == 3e38 and name.startswith("optimal"):
        return  # the range ends before the search does
    limit = torch.finfo(torch.float32).max
    whole = attacked(name, messages(update.double()))[1].clamp(-limit, limit)
    torch.testing.assert_close(found.double(), whole, rtol=1e-5, atol=3e-45)


@ALL
@pytest.mark.parametrize("scale", [1.7e308, 1e-320])
def test_the_ends_of_double_precision(name, scale):
    update = updates(7, 5, dtype=torch.float64).clamp(-1, 1) * scale
    assert attacked(name, messages(update))[1].isfinite().all()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 12),
    st.sampled_from([1, 2, 7, (1 << 13) - 1, 1 << 13, (1 << 13) + 1]),
    st.floats(-1e6, 1e6),
    st.integers(0, 1000),
)
def test_moments_are_those_of_numpy(k, d, shift, seed):
    x = updates(k, d, seed, torch.float64) + shift
    mean, std = _crowd.moments(_crowd.Crowd(x, torch.arange(k)))
    wide = x.numpy().astype(np.longdouble)
    np.testing.assert_allclose(mean, wide.mean(axis=0), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(std, wide.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("value", [0.1, 1e-45, 3.4e38, -7.3])
@pytest.mark.parametrize("k", [1, 3, 7, 49])
def test_equal_rows_have_no_spread_at_all(value, k):
    x = torch.full((k, 3), value)
    mean, std = _crowd.moments(_crowd.Crowd(x, torch.arange(k)))
    assert torch.equal(mean, x[0].double())
    assert not std.any()


@given(st.floats(0, allow_infinity=False, width=64))
def test_the_power_of_two_below(size):
    found = float(_crowd.power_of_two(torch.tensor(size, dtype=torch.float64)))
    assert found == 1 if size == 0 else found <= size and size / 2 < found
    assert float(torch.frexp(torch.tensor(found, dtype=torch.float64)).mantissa) == 0.5
