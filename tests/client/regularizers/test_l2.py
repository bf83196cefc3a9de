import pytest
import torch

from troth.client.regularizers.l2 import l2

from ..hand import BOWL, TAILED, batch, number

NONE, ONE = batch(), l2(BOWL)


@pytest.mark.parametrize(
    ("task", "v", "w", "value", "pull"),
    [
        (BOWL, [4.0, 2.0, 1.0], [1.0, -2.0, 1.0], 5.0, [0.6, 0.8, 0.0]),
        # the last is a running statistic: no distance
        (TAILED, [3.0, 4.0, 100.0], [0.0, 0.0, 0.0], 5.0, [0.6, 0.8, 0.0]),
    ],
)
def test_by_hand(task, v, w, value, pull):
    v, w, one = number(*v), number(*w), l2(task)
    assert one.value(v, w, NONE).item() == pytest.approx(value, rel=1e-15)
    found = one.grad(v, w, NONE)
    torch.testing.assert_close(found, number(*pull), rtol=1e-15, atol=0)
    assert one.curvature == 0.0  # no bound


@pytest.mark.parametrize("far", [1e-38, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37])
def test_pulls_alike_from_near_and_far(far):
    """In single precision, where squares of such numbers are 0 or infinite."""
    away = far * torch.tensor([3.0, -4.0])
    w = torch.zeros_like(away)
    assert ONE.value(away, w, NONE).item() == pytest.approx(5 * far, rel=1e-6)
    assert ONE.grad(away, w, NONE).tolist() == pytest.approx([0.6, -0.8], rel=1e-6)
