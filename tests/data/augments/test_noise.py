import torch

from troth import seeding
from troth.data.augments.noise import noise

KEYS = seeding.keys(0, "test", 0, torch.arange(500))


def test_bytes_become_floats_with_noise_of_the_given_size(refuses):
    x = torch.full((500, 3, 4, 5), 100, dtype=torch.uint8)
    out = noise(x, KEYS, 255.0, sigma=0.2)
    assert out.dtype == torch.float32
    z = (out - 100) / 51
    assert abs(z.mean()) < 6 / z.numel() ** 0.5  # fails once in 10⁸
    assert abs(z.var() - 1) < 6 * (2 / z.numel()) ** 0.5
    assert out.min() < 0  # nothing is cut off
    x = torch.rand(500, 7).double()
    assert noise(x, KEYS, 1.0).dtype == torch.float64
    assert torch.equal(noise(x, KEYS, 1.0, sigma=0.0), x)
    for sigma in (-1.0, float("nan"), float("inf")):
        refuses("must be a finite number", noise, x, KEYS, 1.0, sigma=sigma)
