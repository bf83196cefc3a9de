import itertools
from collections import Counter

import clients_sent
import pytest
import torch
from clients_sent import drawn, key, mixed, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.filters.bucketing import bucketing

MOST = 2**63 - 1


def messages(n, d=3, e=2, dtype=torch.float64):
    draw = torch.Generator().manual_seed(100 * n + d)
    client = torch.randperm(5 * n + 1, generator=draw)[:n]
    size = torch.randint(1, 99, (n,), generator=draw)
    extra, loss = drawn(n, e, 1, dtype), drawn(n, 1, 2, dtype)[:, 0]
    return clients_sent.messages(drawn(n, d, 0, dtype), client, loss, size, extra)


def groups(sent, s, drawn):
    """Which rows make which bucket, read off marks that travel in `extra`."""
    marked = sent._replace(extra=torch.eye(len(sent.client), dtype=torch.float64))
    found = bucketing(marked, drawn, s=s).extra
    return [row.nonzero().flatten().tolist() for row in found]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 15), st.integers(1, 17), st.integers(0, 99))
def test_every_row_is_in_one_bucket_and_a_bucket_its_mean(n, s, seed):
    sent = messages(n)
    found, said = noted(bucketing, sent, key(seed), s=s)
    buckets = groups(sent, s, key(seed))
    assert sorted(itertools.chain(*buckets)) == [*range(n)]
    assert [len(b) for b in buckets] == [s] * (n // s) + [n % s] * (n % s > 0)
    for i, bucket in enumerate(buckets):
        rows, lowest = mixed(sent, bucket), sent.client[bucket].min()
        for name in ("update", "extra", "loss"):
            expected = getattr(rows, name).mean(dim=0)
            torch.testing.assert_close(getattr(found, name)[i], expected)
        assert found.size[i] == rows.size.sum() and found.client[i] == lowest
        assert (said["into"][bucket] == lowest).all()


def test_buckets_are_drawn_anew_by_round_and_evenly():
    """Of 6 rows in pairs, each pair has probability 1/5.

    600 rounds: a count is binomial with mean 120 and deviation 9.8; beyond 70 … 170 by
    any of 15 has probability below 15·2·exp(−50²/(2·96 + 2·50/3)) < 1e-3 (Bernstein),
    in fact about 5e-6, and the draws are fixed.
    """
    sent, counts = messages(6), Counter()
    for round_ in range(600):
        counts.update(map(tuple, groups(sent, 2, key(round_))))
    assert set(counts) == set(itertools.combinations(range(6), 2))
    assert min(counts.values()) > 70 and max(counts.values()) < 170


def test_wide_rows():
    sent = messages(5, d=250_000, dtype=torch.float32)
    found = bucketing(sent, key())
    for i, bucket in enumerate(groups(sent, 2, key())):
        expected = sent.update[bucket].double().mean(dim=0).float()
        torch.testing.assert_close(found.update[i], expected)


@pytest.mark.parametrize("size", [[MOST] * 3, [-MOST - 1] * 3, [MOST, -5, 3]])
@pytest.mark.parametrize("s", [1, 2, 3, 50])
def test_absurd_sizes_do_not_overflow(size, s):
    sent = messages(3)._replace(size=torch.tensor(size))
    found = bucketing(sent, key(), s=s).size
    assert found.dtype == torch.long
    for i, bucket in enumerate(groups(sent, s, key())):
        exact = sum(size[row] for row in bucket)
        assert (int(found[i]) > 0) == (exact > 0)
        assert int(found[i]) == pytest.approx(max(-MOST, min(MOST, exact)), rel=0.7)


def test_a_loss_that_is_no_number_stays_in_its_bucket():
    sent = messages(4)
    sent.loss[0] = torch.nan
    assert bucketing(sent, key()).loss.isnan().sum() == 1
