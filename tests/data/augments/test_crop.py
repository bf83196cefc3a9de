import pytest
import torch
from torch.nn.functional import pad

from troth.data.augments.crop import crop
from troth.types import Refusal

MODES = {"zero": "constant", "edge": "replicate", "mirror": "reflect"}


def windows(image, padding, fill):
    """All windows there are, the slow way."""
    _, h, w = image.shape
    wide = pad(image[None].double(), [padding] * 4, mode=MODES[fill])[0].to(image.dtype)
    span = range(2 * padding + 1)
    return [wide[:, i : i + h, j : j + w] for i in span for j in span]


@pytest.mark.parametrize("fill", MODES)
@pytest.mark.parametrize("kind", [torch.uint8, torch.float64])
def test_every_window_is_one_of_the_padded_image(fill, kind, keys):
    torch.manual_seed(0)
    x = torch.randint(0, 256, (40, 2, 5, 7)).to(kind)
    out = crop(x, keys(40), padding=2, fill=fill)
    assert out.shape == x.shape and out.dtype == kind
    for before, after in zip(x, out, strict=True):
        assert any(torch.equal(after, w) for w in windows(before, 2, fill))


def test_all_places_are_equally_likely(keys, refuses):
    image = torch.arange(1, 10).reshape(1, 1, 3, 3)
    m = 9_000
    out = crop(image.expand(m, 1, 3, 3), keys(m), padding=1)
    found, counts = out.unique(dim=0, return_counts=True)
    assert len(found) == 9
    spread = (m / 9 * 8 / 9) ** 0.5  # six standard deviations: fails once in 10⁸
    assert (counts - m / 9).abs().max() < 6 * spread
    x = torch.rand(20, 1, 4, 4)
    assert torch.equal(crop(x, keys(20), padding=0), x)
    refuses(r"padding = -1 must be at least 0", crop, x, keys(20), padding=-1)
    with pytest.raises(Refusal, match=r"smaller than the image, here 4×4"):
        crop(x, keys(20), padding=4, fill="mirror")
