import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.data.deformations._flow import pixels_per_unit
from troth.data.deformations.translation import translation


def units(rows, columns, x, frame="edges"):
    """A shift in pixels as `translation` takes it."""
    shift = torch.tensor([rows, columns], dtype=torch.float64)
    unit = torch.tensor(pixels_per_unit(*x.shape[-2:], frame), dtype=torch.float64)
    return (shift / unit).expand(len(x), 2)


def moved(x, rows, columns):
    """out[i, j] = x[i + rows, j + columns], 0 outside, the slow way."""
    out = torch.zeros_like(x)
    h, w = x.shape[-2:]
    for i in range(h):
        for j in range(w):
            if 0 <= i + rows < h and 0 <= j + columns < w:
                out[..., i, j] = x[..., i + rows, j + columns]
    return out


@pytest.mark.parametrize("frame", ["edges", "centres"])
@settings(max_examples=40)
@given(
    h=st.integers(2, 12),
    w=st.integers(2, 12),
    rows=st.integers(-12, 12),
    columns=st.integers(-12, 12),
)
def test_whole_pixels_are_a_shift(frame, h, w, rows, columns):
    x = torch.rand(2, 1, h, w, dtype=torch.float64)
    shift = units(rows, columns, x, frame)
    expected = moved(x, rows, columns)
    assert (translation(x, shift, frame=frame) - expected).abs().max() < 1e-12
    out = translation(x, shift, frame=frame, interpolation="nearest")
    assert torch.equal(out, expected)


def test_by_hand():
    x = torch.tensor([[[[1.0, 2, 3, 4]]]])
    right, half = torch.tensor([[0.0, -0.5]]), torch.tensor([[0.0, 0.25]])
    assert translation(x, right).tolist() == [[[[0, 1, 2, 3]]]]  # to the right
    assert translation(x, right, padding="border").tolist() == [[[[1, 1, 2, 3]]]]
    out = translation(x, right * 2, padding="reflection")
    assert out.tolist() == [[[[2, 1, 1, 2]]]]
    assert translation(x, half).tolist() == [[[[1.5, 2.5, 3.5, 2]]]]
    down = translation(x.mT, torch.tensor([[-0.5, 0.0]]))
    assert down.flatten().tolist() == [0, 1, 2, 3]
    x = torch.rand(3, 1, 6, 6) + 1
    for far in (2.0, -2.0, 1e6, -1e30):
        assert (translation(x, torch.tensor([[far, 0.0]] * 3)) == 0).all()
    edge = translation(x, torch.tensor([[2.0, 0.0]] * 3), padding="border")
    assert (edge - x[..., -1:, :]).abs().max() < 1e-5
    assert pixels_per_unit(32, 28) == (16.0, 14.0)
    assert pixels_per_unit(32, 28, "mixed") == (16.0, 14.0)
    assert pixels_per_unit(32, 28, "centres") == (15.5, 13.5)
