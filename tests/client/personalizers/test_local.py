import pytest
import torch

from troth.client.personalizers.local import local
from troth.types import Anchor

from ..hand import BOWL, INF, NAN, batch, by, number, stepped
from ..hand import ONE as WHOLE


def test_two_steps_by_hand():
    # 1 − 0.1·(1 − 5) = 1.4; then 1.4 − 0.1·(1.4 − 3) = 1.56
    one = local(BOWL, by(0.1))
    state = one.init(number(1.0))
    assert one.model(number(9.0), state).item() == 1.0
    anchor = Anchor(number(100.0), number(-100.0), number(100.0))
    for b in (batch(5.0), batch(2.0, 4.0)):
        state = one.step(state, anchor, b, b, WHOLE)
    assert one.model(anchor.w, state).item() == pytest.approx(1.56, abs=1e-12)
    assert not one.idle


@pytest.mark.parametrize("w", [0.0, 1e30, INF, NAN])
def test_never_looks_at_the_shared_model(w):
    one = local(BOWL, by(0.1))
    first = one.init(number(1.0))
    found = stepped(one, first, w, 5.0, 5.0, 5.0)
    assert torch.equal(found[0], stepped(one, first, 7.0, 5.0, 5.0, 5.0)[0])
    assert found[0].isfinite()


def test_moments_live_on_in_the_state():
    one = local(BOWL, by(0.1, "momentum"))
    state = one.init(number(1.0))
    for expected in ([1.0, 0.0], [1.4, -4.0], [2.12, -7.2]):
        assert [t.item() for t in state] == pytest.approx(expected)
        state = stepped(one, state, 0.0, 5.0)
