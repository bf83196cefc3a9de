"""The kernel beside the plain code, on a GPU; without one there is nothing to run."""

import pytest
import torch

from troth import numerics
from troth.server.attacks import random_update

rows = pytest.importorskip("troth.networks.kernels.rows")
pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize(("n", "d"), [(1, 1), (3, 16_384), (10, 100_001), (2, 0)])
def test_sums_are_those_in_float64(n, d):
    x, center = torch.randn(n, d, device="cuda"), torch.randn(n, device="cuda")
    away = x.double() - center.double()[:, None]
    plain = torch.stack([away.sum(dim=1), away.square().sum(dim=1)], dim=1)
    torch.testing.assert_close(rows.sums(x, center), plain, rtol=1e-12, atol=1e-9)


def test_lengths_and_what_is_finite_are_those_of_a_cpu():
    x = torch.randn(6, 5000)
    x[1, 77], x[2, 4999], x[3, 0] = torch.nan, torch.inf, -torch.inf
    x[4], x[5] = 3e38, 0.0
    ours, plain = numerics.norms(x.cuda()).cpu(), numerics.norms(x)
    torch.testing.assert_close(ours, plain, equal_nan=True)
    assert torch.equal(numerics.finite(x.cuda()).cpu(), numerics.finite(x))


def test_spreads_are_those_of_a_cpu():
    x, rows = torch.randn(5, 3001), torch.tensor([0, 2, 3, 4])
    x[2], x[3] = 1e3, 1e3 + torch.randn(3001)
    x[4, 0] = 1e6  # the number that the others are counted from
    ours = random_update._spreads(x.cuda(), rows.cuda()).cpu()
    torch.testing.assert_close(ours, random_update._spreads(x, rows))
    assert ours[1] == 0
    x[0] = torch.inf  # another's
    ours = random_update._spreads(x.cuda(), rows[1:].cuda()).cpu()
    torch.testing.assert_close(ours, random_update._spreads(x, rows[1:]))


@pytest.mark.parametrize(("n", "d"), [(1, 2048), (3, 16_384), (10, 100_001), (0, 4096)])
def test_a_row_is_taken_from_all_rows(n, d):
    x, w = torch.randn(n, d, device="cuda"), torch.randn(d).cuda()
    assert rows.spans(x, w)
    assert torch.equal(rows.minus(x, w), x - w)


def test_what_is_left_to_torch():
    wide = torch.zeros(3, 5000, device="cuda")
    assert not rows.spans(wide[:, :7].contiguous(), wide[0, :7])
    assert not rows.spans(wide[:, :4000], wide[0, :4000])  # with gaps between rows
