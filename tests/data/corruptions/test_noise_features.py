import math

import pytest
import torch
from scipy import stats

from troth import seeding
from troth.data.corruptions.noise_features import noise_features
from troth.types import Refusal

RARE = 1e-9  # how often a right generator fails a statistical test here
KEY = seeding.keys(0, "corruption", 0, torch.tensor(3))
Y = torch.arange(4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("scale", "std"), [(1.0, 1.0), (16.0, 0.25)])
def test_the_noise_is_normal_with_that_spread(dtype, scale, std):
    """By Kolmogorov and Smirnov; fails with probability 1e-9."""
    x = torch.full((4, 5, 1000), 3.0, dtype=dtype)
    found, y = noise_features(x, Y, KEY, scale, std=std)
    assert y is Y and found.dtype == dtype and bool((x == 3).all())
    noise = (found - x).double().reshape(-1).numpy() / (std * scale)
    assert stats.kstest(noise, "norm").pvalue > RARE


def test_bytes_stay_bytes_and_missing_values_missing():
    x = torch.tensor([0, 1, 128, 254, 255], dtype=torch.uint8).expand(1000, 5)
    found, _ = noise_features(x, Y, KEY, 255.0, std=0.02)
    assert found.dtype == torch.uint8
    plain = noise_features(x.float(), Y, KEY, 255.0, std=0.02)[0]
    assert torch.equal(found.float(), plain.round().clamp(0, 255))
    assert int(found.min()) == 0 and int(found.max()) == 255
    wild = noise_features(x, Y, KEY, 255.0, std=100.0)[0]
    assert {0, 255} <= {*wild.unique().tolist()}
    assert 0.4 < float((wild == 0).double().mean()) < 0.6  # no number wraps around
    x = torch.tensor([[torch.nan, 1.0]]).expand(4, 2)
    found = noise_features(x, Y, KEY, 1.0)[0]
    assert bool(found[:, 0].isnan().all()) and bool(found[:, 1].isfinite().all())
    assert noise_features(x, Y, KEY, 1.0, std=0.0)[0] is x  # nothing is added


def test_refuses_what_is_no_spread():
    for std in (-0.1, math.inf, -math.inf, math.nan, 1.7e308):
        with pytest.raises(
            Refusal, match=r"corruption\.std = .* at least 0 and finite"
        ):
            noise_features(torch.zeros(4, 2), Y, KEY, 255.0, std=std)
