import pytest
import torch

from troth.client.solvers.fedavg import fedavg

from ..hand import BOWL, OPTIMIZERS, batch, by, number, sent, solved

SGD = fedavg(BOWL, by(0.1))


def test_two_steps_by_hand():
    # 1 − 0.1·(1 − 5) = 1.4; then 1.4 − 0.1·(1.4 − 3) = 1.56
    told = sent(number(1.0))
    carry = SGD.begin(told, ())
    assert torch.equal(carry[0], told.w)
    assert SGD.step(told, carry, batch(5.0))[0].item() == pytest.approx(1.4)
    reply, state = solved(SGD, told, batch(4.0, 6.0), batch(3.0))
    assert reply.update.item() == pytest.approx(0.56, abs=1e-12)
    assert (reply.extra.shape, state, SGD.extra) == ((0,), (), 0)
    assert told.w.item() == 1.0  # untouched


def test_the_schedule_and_weight_decay():
    # 1 − 0.05·(1 − 5) = 1.2; then 1.2 − 0.05·(1.2 − 3) = 1.29
    reply, _ = solved(SGD, sent(number(1.0), 0.5), batch(5.0), batch(3.0))
    assert reply.update.item() == pytest.approx(0.29, abs=1e-12)
    # 1 − 0.1·(1 − 5 + 2·1) = 1.2
    decayed = fedavg(BOWL, by(0.1, decay=2.0))
    reply, _ = solved(decayed, sent(number(1.0)), batch(5.0))
    assert reply.update.item() == pytest.approx(0.2, abs=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_moments_last_a_round_and_start_anew_in_each(optimizer):
    one, told = fedavg(BOWL, by(0.1, optimizer)), sent(number(1.0))
    seen = batch(5.0), batch(5.0)
    first, state = solved(one, told, *seen)
    if optimizer == "momentum":  # m = −4, v = 1.4; m = 0.9·(−4) − 3.6 = −7.2, v = 2.12
        assert first.update.item() == pytest.approx(1.12, abs=1e-12)
    assert not any(moment.any() for moment in one.begin(told, state)[1:])
    again, _ = solved(one, told, *seen, state=state)
    assert torch.equal(first.update, again.update)
