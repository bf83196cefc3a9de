import pytest
import torch

from troth.client.personalizers.ewc import ewc
from troth.client.personalizers.finetune import finetune
from troth.types import Batch, Task

from ..hand import OPTIMIZERS, batch, by, drawn, number, sent, worked


def bowl(slopes):
    """F(v) = ½·Σ_i slopes_i·(v_i − x_i)²: g = slopes·(v − x)."""

    def loss(v, seen):
        return 0.5 * (slopes * (v - seen.x[0]).square()).sum()

    return Task(len(slopes), 0, loss, torch.func.grad(loss), lambda v, x: x)


def examples(*rows):
    """One example of several numbers in every step."""
    each = [number(*row)[None] for row in rows]
    return [batch(0.0, t=t)._replace(x=x, y=x) for t, x in enumerate(each)]


def finished(one, w, seen):
    state = one.init(torch.zeros_like(w))
    reply, state = worked(one.finish, state, sent(w), *seen)
    v = one.model(torch.full_like(w, 7.0), state)
    assert torch.equal(reply.update, v - w)
    return v


def test_by_hand():
    # w = (1, 1), slopes (1, 2); x = (0, 0), (3, 0): g = (1, 2), (−2, 2);
    # F = ((1 + 4)/2, 4). Then x = (2, 2): g = (−1, −2), no pull yet: v = (1.1, 1.2);
    # g = (−0.9, −1.6), pull 0.5·(2.5·0.1, 4·0.2): v = (1.1775, 1.32)
    one = ewc(bowl(number(1.0, 2.0)), by(0.1), None, lam=0.5, batches=2)
    seen = examples((0.0, 0.0), (3.0, 0.0), (2.0, 2.0), (2.0, 2.0))
    w = number(1.0, 1.0)
    assert finished(one, w, seen[:2]).tolist() == [1.0, 1.0]  # measuring
    assert finished(one, w, seen[:3]).tolist() == pytest.approx([1.1, 1.2])
    assert finished(one, w, seen).tolist() == pytest.approx([1.1775, 1.32])


def test_ends_at_the_minimizer_of_its_objective():
    """argmin ½·s·(v − x)² + (λ/2)·F·(v − w)², F = (s·(w − x))²."""
    slopes, w, x = number(0.5, 1.0, 3.0), number(1.0, -2.0, 0.5), number(2.0, 1.0, 0.0)
    one = ewc(bowl(slopes), by(0.09), None, lam=2.0, batches=1)
    v = finished(one, w, examples(*[x.tolist()] * 250))
    f = (slopes * (w - x)).square()
    expected = (slopes * x + 2.0 * f * w) / (slopes + 2.0 * f)
    torch.testing.assert_close(v, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("batches", [1, 4])
def test_without_pull_it_is_finetune_on_the_later_batches(optimizer, batches):
    task, step = bowl(number(1.0, 2.0, 0.3)), by(0.1, optimizer)
    seen, w = examples(*drawn(9, 3).tolist()), number(1.0, -1.0, 2.0)
    found = finished(ewc(task, step, None, lam=0.0, batches=batches), w, seen)
    plain = finished(finetune(task, step, None), w, seen[batches:])
    assert torch.equal(found, plain)
    pulled = finished(ewc(task, step, None, lam=1.0, batches=batches), w, seen)
    assert not torch.allclose(pulled, plain, 0, 1e-3)


@pytest.mark.parametrize(("lam", "steps"), [(0.0, 4), (1.0, 2)])
def test_a_shared_model_far_off(lam, steps):
    """Single precision: F is 1e60, and does no harm where nothing pulls."""
    w, zero = torch.full((2,), 1e30), torch.zeros(1, 2)
    one = ewc(bowl(torch.ones(2)), by(0.5), None, lam=lam, batches=1)
    carry = one.finish.begin(sent(w), one.init(w))
    for t in range(steps):
        seen = Batch(zero, zero, torch.ones(1), *map(torch.tensor, (t, 1)))
        carry = one.finish.step(sent(w), carry, seen, seen)
    assert carry[0].isfinite().all()
