import numpy as np
import pytest
import torch
from clients_sent import key, messages, same

from troth.server.attacks.random_update import random_update


def sent(update, **options):
    """The updates of clients who are all hostile."""
    everyone = torch.ones(len(update), dtype=torch.bool)
    return random_update(messages(update), everyone, key(), **options).update


def test_size_and_shape_of_the_noise():
    """Of 10⁵ draws each: mean, spread, fourth moment, correlation, all within 5 σ.

    Fails by chance with probability below 2·10⁻⁵ (30 comparisons at 6·10⁻⁷ each).
    """
    d, scale = 100_000, torch.tensor([[1e-3], [1.0], [50.0], [1.0]])
    update = torch.randn(4, d, dtype=torch.float64) * scale
    update[3] += 1000  # the spread is about the update's own mean
    z = sent(update) / torch.from_numpy(np.std(update.numpy(), axis=1))[:, None]
    bound = 5 / d**0.5
    assert (z.mean(dim=1).abs() < bound).all()
    assert ((z**2).mean(dim=1) - 1).abs().max() < bound * 2**0.5
    assert ((z**4).mean(dim=1) - 3).abs().max() < bound * 96**0.5
    assert (z @ z.T / d).fill_diagonal_(0).abs().max() < bound
    assert (z[:, 1:] * z[:, :-1]).mean(dim=1).abs().max() < bound


@pytest.mark.parametrize(
    ("options", "expected"), [({}, 2.0), ({"scale": 3.0}, 6.0), ({"scale": 0.0}, 0.0)]
)
def test_the_standard_deviation_is_the_populations(options, expected):
    """(1, 5, 1, 5) has mean 3 and 1/d·Σ(·)² = 4; a unit of noise tells the factor."""
    update = torch.tensor([[1.0, 5.0, 1.0, 5.0]])
    found = sent(update, **options)
    torch.testing.assert_close(found, sent(update, std=1.0) * expected)


def test_without_spread_it_sends_zeros():
    for update in (torch.zeros(1, 4), torch.full((1, 4), 3.0), torch.ones(1, 1)):
        assert not sent(update).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-40, 1e30, 1e38])
def test_extremes(dtype, size):
    update = torch.tensor([[1.0, -1.0] * 50], dtype=dtype) * size
    found, unit = sent(update).double(), sent(update, std=1.0).double()
    torch.testing.assert_close(found, unit * size, rtol=1e-4, atol=1e-44)


def test_an_own_update_that_is_no_number_goes_out_as_it_is():
    update = torch.tensor([[1.0, torch.nan], [torch.inf, 2.0], [1.0, 2.0]])
    found = sent(update)
    assert same(found[:2], update[:2]) and found[2].isfinite().all()
    assert sent(update, std=1.0).isfinite().all()
