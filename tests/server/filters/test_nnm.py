import numpy as np
import pytest
import torch
from clients_sent import drawn, messages, mixed
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.filters.nnm import nnm


def of(update, client=None, **options):
    return nnm(messages(update, client), **options).update


def by_definition(update, client, f):
    x = update.numpy()
    rows = []
    for i in range(len(x)):
        far = ((x - x[i]) ** 2).sum(axis=1)
        near = sorted(range(len(x)), key=lambda j: (j != i, far[j], client[j]))
        rows.append(x[near[: max(1, len(x) - f)]].mean(axis=0))
    return np.array(rows)


@pytest.mark.parametrize("steps", [0.1, 1e-8, 1e25])
def test_ties_are_not_broken_by_rounding(steps):
    """Equally spaced: every row but the first and last has two nearest."""
    line = torch.arange(7.0, dtype=torch.float64)[:, None]
    found = of(steps * line.expand(7, 3) + steps / 3, f=5, strict=False)
    scaled = (found[:, :1] - steps / 3) / steps
    np.testing.assert_allclose(scaled, by_definition(line, range(7), 5), atol=1e-6)


def test_extra_goes_with_the_same_neighbors():
    """Where others say the same, what it sent beside still counts for itself."""
    update = torch.tensor([[0.0], [1.0], [3.0]])
    extra = torch.tensor([[10.0, 0.0], [20.0, 1.0], [60.0, 5.0]])
    found = nnm(messages(update, extra=extra), f=1)
    assert found.extra.tolist() == [[15.0, 0.5], [15.0, 0.5], [40.0, 3.0]]
    alike = messages(torch.ones(3, 2), extra=extra)
    assert torch.equal(nnm(alike, f=2, strict=False).extra, extra)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 9), st.integers(0, 10**6))
def test_whole_numbers_with_ties(n, f, seed):
    draw = torch.Generator().manual_seed(seed)
    update = torch.randint(-2, 3, (n, 2), generator=draw).double()
    sent = messages(update, torch.randperm(50, generator=draw)[:n])
    found = nnm(sent, f=f, strict=False).update
    expected = by_definition(update, sent.client.tolist(), f)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    order = torch.randperm(n, generator=draw)
    again = nnm(mixed(sent, order), f=f, strict=False).update
    np.testing.assert_allclose(again, found[order], rtol=1e-12, atol=1e-14)


def test_wide_rows():
    update = drawn(6, 200_000).float()
    expected = by_definition(update.double(), range(6), 2)
    np.testing.assert_allclose(of(update, f=2), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("far", [1e30, 3e38])
def test_far_rows_mix_into_no_benign_one(far):
    benign = drawn(5, 4).float()
    found = of(torch.cat([torch.full((2, 4), far), benign]), f=2)
    torch.testing.assert_close(found[2:], benign.mean(0).expand(5, 4))
    assert found.isfinite().all()
