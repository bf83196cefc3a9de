import torch

from troth.data.augments.translation import translation
from troth.data.deformations.translation import draw


def test_by_hand(keys):
    """A dot in the middle of a wide frame: where it goes tells the shift."""
    m, side, sigma = 100, 65, 0.1
    x = torch.zeros(m, 1, side, side)
    x[:, :, 32, 32] = 1.0
    out = translation(x, keys(m), sigma=sigma)
    place = (torch.arange(side) - 32.0) / (side / 2)
    shift = torch.stack([out.sum((1, 3)) @ place, out.sum((1, 2)) @ place], dim=1)
    torch.testing.assert_close(-shift, draw(keys(m), sigma), rtol=0, atol=1e-5)
