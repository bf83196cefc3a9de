import torch

from troth.data.augments.affine import affine


def test_by_hand(keys):
    """A white image stays white where the nearest pixel stands outside, else not."""
    x = torch.ones(50, 1, 8, 8)
    assert (affine(x, keys(50), padding="border") - 1).abs().max() < 1e-6
    dark = affine(x, keys(50), sigma=0.5).flatten(1).min(1).values
    assert (dark < 0.5).float().mean() > 0.9
