import numpy as np
import pytest
import torch
from clients_sent import key, messages

from troth.server.attacks.random_update import random_update


def test_size_and_shape_of_the_noise():
    """Of 10⁵ draws each: mean, spread, fourth moment, correlation, all within 5 σ.

    Fails by chance with probability below 2·10⁻⁵ (30 comparisons at 6·10⁻⁷ each).
    """
    d = 100_000
    update = torch.randn(5, d, dtype=torch.float64) * torch.tensor(
        [[1e-3], [1.0], [50.0], [1.0], [1.0]]
    )
    update[3] += 1000  # the spread is about the update's own mean
    hostile = torch.tensor([True, True, True, True, False])
    found = random_update(messages(update), hostile, key()).update
    z = found[:4] / torch.from_numpy(np.std(update[:4].numpy(), axis=1))[:, None]
    bound = 5 / d**0.5
    assert (z.mean(dim=1).abs() < bound).all()
    assert ((z**2).mean(dim=1) - 1).abs().max() < bound * 2**0.5
    assert ((z**4).mean(dim=1) - 3).abs().max() < bound * 96**0.5
    others = (z @ z.T / d).fill_diagonal_(0)
    assert others.abs().max() < bound
    assert (z[:, 1:] * z[:, :-1]).mean(dim=1).abs().max() < bound


@pytest.mark.parametrize(("options", "expected"), [({}, 2.0), ({"scale": 3.0}, 6.0)])
def test_the_standard_deviation_is_the_populations(options, expected):
    """(1, 5, 1, 5) has mean 3 and 1/d·Σ(·)² = 4; a unit of noise tells the factor."""
    update, hostile = torch.tensor([[1.0, 5.0, 1.0, 5.0]]), torch.tensor([True])
    unit = random_update(messages(update), hostile, key(), std=1.0).update
    found = random_update(messages(update), hostile, key(), **options).update
    torch.testing.assert_close(found, unit * expected)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_without_spread_it_sends_zeros(value):
    update, hostile = torch.full((2, 4), value), torch.tensor([True, False])
    found = random_update(messages(update), hostile, key()).update
    assert not found[0].any()
    one = random_update(messages(torch.ones(1, 1)), torch.tensor([True]), key()).update
    assert not one.any()


def test_scale_zero_sends_zeros():
    sent = messages(torch.randn(1, 6))
    assert not random_update(sent, torch.tensor([True]), key(), scale=0.0).update.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-40, 1e30, 1e38])
def test_extremes(dtype, size):
    update = torch.tensor([[1.0, -1.0] * 50], dtype=dtype) * size
    hostile = torch.tensor([True])
    unit = random_update(messages(update), hostile, key(), std=1.0).update.double()
    found = random_update(messages(update), hostile, key()).update.double()
    torch.testing.assert_close(found, unit * size, rtol=1e-4, atol=1e-44)


def test_an_own_update_that_is_no_number_goes_out_as_it_is():
    update = torch.tensor([[1.0, torch.nan], [torch.inf, 2.0], [1.0, 2.0]])
    hostile = torch.ones(3, dtype=torch.bool)
    found = random_update(messages(update), hostile, key()).update
    assert torch.equal(found[:2].view(torch.int32), update[:2].view(torch.int32))
    assert found[2].isfinite().all()
    assert (
        random_update(messages(update), hostile, key(), std=1.0).update.isfinite().all()
    )
