import itertools
from collections import Counter

import pytest
import torch
from clients_sent import drawn, key
from clients_sent import messages as sent
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth.server.filters.bucketing import bucketing

MOST = 2**63 - 1


def messages(n, d=3, e=2, dtype=torch.float64):
    draw = torch.Generator().manual_seed(100 * n + d)
    client = torch.randperm(5 * n + 1, generator=draw)[:n]
    size = torch.randint(1, 99, (n,), generator=draw)
    extra, loss = drawn(n, e, 1, dtype), drawn(n, 1, 2, dtype)[:, 0]
    return sent(drawn(n, d, 0, dtype), client, loss, size, extra)


def groups(given_, s, drawn):
    """Which rows make which bucket, read off marks that travel in `extra`."""
    n = len(given_.client)
    marked = given_._replace(extra=torch.eye(n, dtype=torch.float64))
    found = bucketing(marked, drawn, s=s).extra
    return [row.nonzero().flatten().tolist() for row in found]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 15), st.integers(1, 17), st.integers(0, 99))
def test_every_row_is_in_one_bucket_and_a_bucket_its_mean(n, s, seed):
    given_, said = messages(n), dict[str, Tensor]()
    found = bucketing(given_, key(seed), note=said.update, s=s)
    buckets = groups(given_, s, key(seed))
    assert sorted(itertools.chain(*buckets)) == [*range(n)]
    sizes = [len(b) for b in buckets]
    assert sizes == [s] * (n // s) + [n % s] * (n % s > 0)
    lowest = []
    for i, bucket in enumerate(buckets):
        for name in ("update", "extra", "loss"):
            expected = getattr(given_, name)[bucket].mean(dim=0)
            torch.testing.assert_close(getattr(found, name)[i], expected)
        assert found.size[i] == given_.size[bucket].sum()
        lowest.append(min(bucket, key=lambda row: int(given_.client[row])))
        assert found.client[i] == given_.client[lowest[-1]]
    assert (said["into"] != given_.client).tolist() == [
        row not in lowest for row in range(n)
    ]
    for bucket, first in zip(buckets, lowest, strict=True):
        assert {*said["into"][bucket].tolist()} == {int(given_.client[first])}


def test_by_hand():
    update, extra = [[1.0, 5.0], [3.0, -5.0]], torch.tensor([[2.0], [4.0]])
    given_ = sent(update, [8, 6], [0.5, 1.5], [10, 30], extra)
    said: dict[str, Tensor] = {}
    found = bucketing(given_, key(), note=said.update)
    assert [field.tolist() for field in found] == [
        [[2.0, 0.0]],
        [[3.0]],
        [1.0],
        [40],
        [6],
    ]
    assert said["into"].tolist() == [6, 6]


@pytest.mark.parametrize("n", [1, 2, 9])
def test_buckets_of_one_change_the_order_alone(n):
    given_, said = messages(n), dict[str, Tensor]()
    found = bucketing(given_, key(), note=said.update, s=1)
    back = [found.client.tolist().index(c) for c in given_.client.tolist()]
    for before, after in zip(given_, found, strict=True):
        assert torch.equal(before, after[back])
    assert torch.equal(said["into"], given_.client)


def test_buckets_are_drawn_anew_by_round_and_evenly():
    """Of 6 rows in pairs, each pair has probability 1/5.

    600 rounds: a count is binomial with mean 120 and deviation 9.8; beyond 70 … 170 by
    any of 15 has probability below 15·2·exp(−50²/(2·96 + 2·50/3)) < 1e-3 (Bernstein),
    in fact about 5e-6, and the draws are fixed.
    """
    given_, counts = messages(6), Counter[tuple[int, ...]]()
    for round_ in range(600):
        counts.update(map(tuple, groups(given_, 2, key(round_))))
    assert set(counts) == set(itertools.combinations(range(6), 2))
    assert min(counts.values()) > 70
    assert max(counts.values()) < 170


def test_wide_rows():
    given_ = messages(5, d=700_000, dtype=torch.float32)
    found = bucketing(given_, key())
    for i, bucket in enumerate(groups(given_, 2, key())):
        expected = given_.update[bucket].double().mean(dim=0).float()
        torch.testing.assert_close(found.update[i], expected)


@pytest.mark.parametrize("size", [[MOST] * 3, [-MOST - 1] * 3, [MOST, -5, 3]])
@pytest.mark.parametrize("s", [1, 2, 3, 50])
def test_absurd_sizes_do_not_overflow(size, s):
    given_ = messages(3)._replace(size=torch.tensor(size))
    found = bucketing(given_, key(), s=s).size
    assert found.dtype == torch.long
    for i, bucket in enumerate(groups(given_, s, key())):
        exact = sum(size[row] for row in bucket)
        assert (int(found[i]) > 0) == (exact > 0)
        assert int(found[i]) == pytest.approx(max(-MOST, min(MOST, exact)), rel=0.7)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_sizes_of_other_types(dtype):
    given_ = messages(4)._replace(size=torch.tensor([1, 2, 3, 4], dtype=dtype))
    found = bucketing(given_, key()).size
    assert found.dtype == dtype
    assert found.sum() == 10


def test_a_loss_that_is_no_number_stays_in_its_bucket():
    loss = torch.tensor([torch.nan, 1.0, 2.0, 3.0], dtype=torch.float64)
    given_ = messages(4)._replace(loss=loss)
    assert bucketing(given_, key()).loss.isnan().sum() == 1
