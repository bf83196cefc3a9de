import pytest
import torch
from clients_sent import key, messages

from troth.server.attacks.gaussian import gaussian


def test_size_and_shape_of_the_noise():
    """Of 10⁵ draws each, within 5 σ: fails with probability below 10⁻⁵."""
    d, bound = 100_000, 5 / 100_000**0.5
    sent, hostile = messages(torch.zeros(3, d)), torch.tensor([True, False, True])
    found = gaussian(sent, hostile, key(), mean=-3.0, std=2.0).update.double()
    z = (found[hostile] + 3) / 2
    assert z.mean(dim=1).abs().max() < bound
    assert ((z**2).mean(dim=1) - 1).abs().max() < bound * 2**0.5
    assert ((z**4).mean(dim=1) - 3).abs().max() < bound * 96**0.5
    assert (z[0] * z[1]).mean().abs() < bound  # everyone draws its own


def test_the_own_update_does_not_matter():
    hostile = torch.tensor([True, False])
    sent = messages(torch.full((2, 5), torch.nan)), messages(torch.ones(2, 5))
    a, b = (gaussian(each, hostile, key()).update[0] for each in sent)
    assert torch.equal(a, b) and a.isfinite().all()


@pytest.mark.parametrize(("mean", "std"), [(1e30, 1e30), (0.0, 1e300), (-1e300, 0.0)])
def test_beyond_the_range_it_stops(mean, std):
    sent, hostile = messages(torch.zeros(1, 100)), torch.tensor([True])
    found = gaussian(sent, hostile, key(), mean=mean, std=std).update
    assert found.isfinite().all()
    assert found.abs().max() >= 1e30
