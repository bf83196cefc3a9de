import torch

from troth.data.augments.rotation import rotation
from troth.data.deformations.rotation import draw


def test_by_hand(keys):
    """A dot at the right edge: where it goes tells the angle."""
    m, side, sigma = 100, 33, 0.5
    x = torch.zeros(m, 1, side, side)
    x[:, :, 16, 27:30] = 1.0  # 11 to 13 pixels from the middle
    out = rotation(x, keys(m), sigma=sigma)
    place = torch.arange(side) - 16.0
    down, right = (out.sum((1, axis)) @ place for axis in (3, 2))
    angle = torch.atan2(down, right)
    assert angle.abs().max() < sigma + 0.01
    torch.testing.assert_close(angle, draw(keys(m), sigma)[:, 0], rtol=0, atol=0.02)
