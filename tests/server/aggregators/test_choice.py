"""What holds of all rules that choose rows."""

import clients_sent
import pytest
import torch
from clients_sent import applied, drawn, mixed
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ["krum", "multi_krum", "bulyan", "mda", "k_norm", "k_loss"]
EVERY = pytest.mark.parametrize("name", NAMES)
BY_DISTANCE = pytest.mark.parametrize("name", NAMES[:4])


def messages(update, client=None):
    ids = torch.arange(len(update)) if client is None else client
    return clients_sent.messages(update, ids, loss=(ids * 7 % 11).to(update))


def call(name, sent, **options):
    """The result, and the ids of the clients that were chosen."""
    found, _, said = applied("aggregator", name, sent, **options)
    assert said["chosen"].dtype == torch.bool
    assert said["chosen"].shape == sent.client.shape
    return found, {*sent.client[said["chosen"]].tolist()}


def within(found, rows, slack=0.0):
    """Between the least and the largest of the rows, in every coordinate."""
    slack = slack * found.abs()
    return bool(
        ((rows.amin(0) - slack <= found) & (found <= rows.amax(0) + slack)).all()
    )


@EVERY
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 14), d=st.integers(1, 4), f=st.integers(0, 6), seed=st.integers(0)
)
def test_the_order_of_rows_does_not_matter(name, n, d, f, seed):
    """Small whole numbers: full of ties and duplicates."""
    draw = torch.Generator().manual_seed(seed % 2**60)
    update = torch.randint(-2, 3, (n, d), generator=draw).float()
    sent = messages(update, torch.randperm(40, generator=draw)[:n])
    order = torch.randperm(n, generator=draw)
    found, who = call(name, sent, f=f, strict=False)
    again, same = call(name, mixed(sent, order), f=f, strict=False)
    assert torch.equal(found, again) and who == same


@EVERY
def test_equal_rows_go_by_client_id(name):
    client = torch.tensor([9, 4, 7, 1, 8, 2, 6])
    sent = messages(torch.ones(7, 3), client)._replace(loss=torch.zeros(7))
    found, who = call(name, sent, f=1)
    assert found.tolist() == [1.0, 1.0, 1.0]
    count = {"krum": 1, "bulyan": 5}.get(name, 6)
    lowest = client.sort().values.tolist()
    assert who == ({2} if name == "k_loss" else {*lowest[:count]})


@BY_DISTANCE
def test_near_equal_rows_are_told_apart(name):
    """Forty float32 rows around 1000, of which three lie ten times as far off.

    A distance by ‖a‖² + ‖b‖² − 2a·b in float32 is noise here.
    """
    update = 1000 + 1e-3 * drawn(40, 200, dtype=torch.float32)
    update[[0, 17, 39]] += 1e-2
    _, who = call(name, messages(update), f=3)
    assert not who & {0, 17, 39} or name == "bulyan"
    if name in ("multi_krum", "mda"):
        assert len(who) == 37


@BY_DISTANCE
@pytest.mark.parametrize("far", [10.0, 1e30, 3e38])
@pytest.mark.parametrize("alike", [True, False])
def test_far_rows_count_for_nothing(name, far, alike):
    draw = torch.Generator().manual_seed(1)
    for f in (1, 2, 5):
        n = 4 * f + 3
        update = torch.rand(n, 6, generator=draw)
        directions = torch.randn(f, 6, generator=draw).sign()
        update[-f:] = far * (torch.ones(f, 6) if alike else directions)
        found, who = call(name, messages(update), f=f)
        assert within(found, update[:-f])
        assert name == "bulyan" or not who & {*range(n - f, n)}


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_denormal_rows_are_kept_and_the_largest_warn_of_nothing(name, dtype):
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    update = least.expand(9, 2).clone()
    update[4] = 1
    sent = messages(update)._replace(loss=torch.arange(9.0))
    found, who = call(name, sent, f=1)
    assert torch.equal(found, least.expand(2))
    assert 4 not in who or name == "bulyan"
    update = torch.full((7, 2), torch.finfo(torch.double).max, dtype=torch.float64)
    assert torch.equal(call(name, messages(update), f=1)[0], update[0])
