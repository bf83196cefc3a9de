import pytest
import torch

from troth import seeding
from troth.data.augments.flip import flip
from troth.types import Refusal

KEYS = seeding.keys(0, "test", 0, torch.arange(4_000))


def test_each_is_itself_or_its_mirror_image():
    x = torch.randint(0, 256, (4_000, 1, 2, 3), dtype=torch.uint8)
    out = flip(x, KEYS, p=0.3)
    mirrored = (out == x.flip(-1)).flatten(1).all(1)
    same = (out == x).flatten(1).all(1)
    assert (mirrored | same).all()
    only = (mirrored & ~same).double().mean()  # palindromes are both
    share = (x != x.flip(-1)).flatten(1).any(1).double().mean()
    # Six standard deviations: fails once in 10⁸.
    assert abs(only / share - 0.3) < 6 * (0.21 / 4_000) ** 0.5
    x = torch.rand(4_000, 1, 2, 3)
    assert torch.equal(flip(x, KEYS, p=0.0), x)
    assert torch.equal(flip(x, KEYS, p=1.0), x.flip(-1))
    with pytest.raises(Refusal, match=r"p = 1.5 must be a probability"):
        flip(torch.ones(1, 1, 2, 2), KEYS[:1], p=1.5)
