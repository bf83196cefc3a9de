import pytest
import torch

from troth.client.regularizers.l2 import l2
from troth.client.regularizers.l2sq import l2sq
from troth.client.regularizers.smooth_l2 import smooth_l2
from troth.types import Refusal

from ..hand import BOWL, INF, NAN, TAILED, batch, drawn, number

NONE = batch()


def test_by_hand():
    # √(12² + 5²) = 13
    v, w = number(4.0, 2.0), number(1.0, -2.0)
    one = smooth_l2(BOWL, delta=12.0)
    assert one.value(v, w, NONE).item() == pytest.approx(1.0, rel=1e-14)
    assert one.grad(v, w, NONE).tolist() == pytest.approx([3 / 13, 4 / 13], rel=1e-14)
    # the last is a running statistic: no distance
    v, w = number(3.0, 4.0, 100.0), number(0.0, 0.0, 0.0)
    pull = smooth_l2(TAILED, delta=12.0).grad(v, w, NONE)
    assert pull.tolist() == pytest.approx([3 / 13, 4 / 13, 0.0])


@pytest.mark.parametrize("delta", [0.01, 1.0, 50.0])
def test_near_it_is_l2sq_and_far_away_l2(delta):
    one, away = smooth_l2(BOWL, delta=delta), drawn(6)
    zero, close = torch.zeros_like(away), {"rtol": 1e-9, "atol": 0}
    near, far = 1e-6 * delta * away, 1e9 * delta * away
    # the value, too, where √(δ² + r²) − δ would cancel
    for part, other in ((one.grad, l2sq().grad), (one.value, l2sq().value)):
        expected = other(near, zero, NONE) / delta
        torch.testing.assert_close(part(near, zero, NONE), expected, **close)
    straight = l2(BOWL).grad(far, zero, NONE)
    torch.testing.assert_close(one.grad(far, zero, NONE), straight, **close)


@pytest.mark.parametrize("delta", [0.1, 1.0, 3.0])
def test_its_curvature_is_the_largest_there_is(delta):
    one, w = smooth_l2(BOWL, delta=delta), drawn(4)
    for far in (1e-4, 0.3, 2.0, 30.0):
        v = w + far * drawn(4, seed=2)
        bend = torch.linalg.eigvalsh(torch.func.jacrev(one.grad)(v, w, NONE))
        assert 0 < bend.max() <= one.curvature * (1 + 1e-12)
        if far == 1e-4:
            assert bend.max().item() == pytest.approx(one.curvature, rel=1e-5)


@pytest.mark.parametrize("far", [1e-38, 1e-30, 1e30, 1e37])
def test_numbers_whose_squares_do_not_fit(far):
    away = far * torch.tensor([3.0, -4.0])
    zero, one = torch.zeros_like(away), smooth_l2(BOWL)
    pull = one.grad(away, zero, NONE).double()
    expected = 5 * far / (1 + (5 * far) ** 2) ** 0.5
    assert pull.norm().item() == pytest.approx(expected, rel=1e-6)
    value = one.value(away, zero, NONE).item()
    assert value == pytest.approx(max(5 * far - 1, 0), rel=1e-6, abs=1e-37)


@pytest.mark.parametrize("delta", [0.0, -1.0, INF, NAN])
def test_refuses(delta):
    with pytest.raises(Refusal, match=f"delta = {delta} must be a finite number above"):
        smooth_l2(BOWL, delta=delta)
