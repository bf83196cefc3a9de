"""What holds of all attacks in which the hostile clients act as one."""

from typing import Any

import numpy as np
import pytest
import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth import lookup
from troth.server.attacks import _crowd
from troth.types import Messages

TOGETHER: dict[str, dict[str, Any]] = {
    "alie": {},
    "ipm": {},
    "mimic": {},
    "min_max": {},
    "min_sum": {},
    "optimal_alie": {},
    "optimal_ipm": {},
    "sign_flip": {"of": "benign"},
}
ALL = pytest.mark.parametrize("name", TOGETHER)
HOSTILE = torch.tensor([False, True, False, False, True, False, False])


def attacked(name, sent, hostile, **options):
    function = lookup.find("attack", name)
    found = lookup.call(
        function,
        lookup.check("attack", name, TOGETHER[name] | options),
        messages=sent,
        hostile=hostile,
        memory=torch.zeros(0),
        defence=lambda m: (m.update / len(m.update)).sum(dim=0),
    )
    result: Messages = found[0] if name == "mimic" else found
    return result


def updates(n, d, seed=0, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=draw, dtype=dtype)


def bits(x):
    return x.view(torch.int32)


@ALL
def test_all_send_the_same(name):
    sent = messages(updates(7, 5))
    found = attacked(name, sent, HOSTILE)
    assert torch.equal(bits(found.update[1]), bits(found.update[4]))
    assert not torch.equal(found.update[1], sent.update[1])
    for a, b in zip(found[1:], sent[1:], strict=True):
        assert a is b


@ALL
def test_the_order_of_rows_changes_not_a_bit(name):
    for seed in range(5):
        sent = messages(updates(7, 50, seed))
        order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
        mixed = Messages(*(field[order] for field in sent))
        a = attacked(name, sent, HOSTILE).update[order]
        b = attacked(name, mixed, HOSTILE[order]).update
        assert torch.equal(bits(a), bits(b))


@ALL
def test_hostile_clients_own_rows_do_not_matter(name):
    one, other = updates(7, 5), updates(7, 5)
    other[HOSTILE] = torch.nan
    a, b = (attacked(name, messages(u), HOSTILE).update for u in (one, other))
    assert torch.equal(bits(a), bits(b))


@ALL
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_benign_rows_that_are_no_numbers_are_not_looked_at(name, bad):
    update = updates(7, 5)
    update[2, 3] = bad
    found = attacked(name, messages(update), HOSTILE)
    assert found.update[1].isfinite().all()
    assert torch.equal(bits(found.update[~HOSTILE]), bits(update[~HOSTILE]))
    if name.startswith(("alie", "optimal")):
        return  # they know n, from which their z comes, or rehearse on all rows
    rest = torch.arange(7) != 2
    without = messages(update[rest], torch.arange(10, 17)[rest])
    alone = attacked(name, without, HOSTILE[rest])
    assert torch.equal(bits(found.update[1]), bits(alone.update[1]))


@ALL
def test_where_nothing_is_finite_nothing_happens(name):
    update = torch.full((7, 5), torch.nan)
    found = attacked(name, messages(update), HOSTILE)
    assert torch.equal(bits(found.update), bits(update))


@ALL
def test_adversaries_alone_take_their_own_rows_for_benign(name):
    update = updates(4, 5)
    found = attacked(name, messages(update), torch.ones(4, dtype=torch.bool)).update
    assert (bits(found) == bits(found[0])).all()
    if name.startswith(("alie", "optimal")):
        assert found.isfinite().all()
        return
    more = torch.cat([update, torch.full((1, 5), 9.0)])  # one that hears of the four
    seen = attacked(name, messages(more), torch.arange(5) == 4).update[4]
    assert torch.equal(bits(found[0]), bits(seen))


@ALL
def test_one_benign_row(name):
    """It has no spread: what is made of mean and spread is the row itself."""
    update = updates(3, 5)
    found = attacked(name, messages(update), torch.tensor([True, False, True])).update
    assert found.isfinite().all()
    if name in ("alie", "optimal_alie", "mimic", "min_max", "min_sum"):
        assert torch.equal(bits(found), bits(update[1].expand(3, 5)))


@ALL
@pytest.mark.parametrize("scale", [1e30, 3e38, 1e-30, 1e-42])
def test_large_and_small_numbers(name, scale):
    """As with ordinary ones, times the scale, up to the end of the range."""
    update = updates(7, 5).clamp(-1, 1)
    whole = attacked(name, messages((update * scale).double()), HOSTILE).update[1]
    found = attacked(name, messages(update * scale), HOSTILE).update[1]
    assert found.isfinite().all()
    if scale == 3e38 and name.startswith("optimal"):
        return  # the range ends before the search does
    limit = torch.finfo(torch.float32).max
    torch.testing.assert_close(
        found.double(), whole.clamp(-limit, limit), rtol=1e-5, atol=3e-45
    )


@ALL
@pytest.mark.parametrize("scale", [1.7e308, 1e-320])
def test_the_ends_of_double_precision(name, scale):
    update = updates(7, 5, dtype=torch.float64).clamp(-1, 1) * scale
    assert attacked(name, messages(update), HOSTILE).update[1].isfinite().all()


@ALL
def test_does_not_read_size_loss_or_extra(name):
    sent = messages(updates(7, 5), extra=2)
    lies = sent._replace(
        extra=sent.extra * torch.nan, loss=torch.rand(7), size=torch.arange(7) * 1000
    )
    a, b = attacked(name, sent, HOSTILE), attacked(name, lies, HOSTILE)
    assert torch.equal(bits(a.update), bits(b.update))


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
