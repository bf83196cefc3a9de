"""Numbers by hand: F(v) = ½(v − x)², lr = 0.1, so that a step is v + 0.1·(x − v)."""

import pytest
import torch

from troth.client.client import combined
from troth.client.personalizers.local import local
from troth.client.personalizers.none import none
from troth.client.solvers.fedavg import fedavg
from troth.types import Budget, Personal, Phase, Reply, Solver

from .hand import BOWL, batch, by, number, sent, worked

SGD = by(0.1)
SENT = sent(number(1.0))


def round_(client, steps, x=11.0, per_epoch=1, v=1.0):
    """w_k and v after a round of so many steps on the same example."""
    seen = [batch(x, t=t, per_epoch=per_epoch) for t in range(steps)]
    reply, state = worked(client.local, client.init(number(v)), SENT, *seen)
    return (SENT.w + reply.update).item(), client.model(SENT.w, state).item()


def both(personal, *budgets):
    return combined(fedavg(BOWL, SGD), personal, budgets)


LOCAL = local(BOWL, SGD)
AFTER = [1.0, 2.0, 2.9, 3.71, 4.439]  # from 1 towards 11, after 0, 1, 2 … steps


@pytest.mark.parametrize(
    ("shared", "own", "per_epoch", "ends"),
    [
        (Budget(3), Budget(3), 1, (3, 3)),
        (Budget(3), Budget(1), 1, (3, 1)),
        (Budget(1), Budget(3), 1, (1, 3)),
        (Budget(epochs=2), Budget(epochs=1), 2, (4, 2)),
        (Budget(epochs=2), Budget(3), 1, (2, 3)),
    ],
)
def test_budgets_are_each_ones_own(shared, own, per_epoch, ends):
    """Steps, or epochs of as many steps as the client has, or both."""
    client = both(LOCAL, shared, own)
    assert client.local.budgets == (shared, own)
    found = round_(client, max(ends), per_epoch=per_epoch)
    assert found == pytest.approx([AFTER[steps] for steps in ends])


def test_steps_of_a_budget():
    per_epoch = torch.tensor([1, 5, 7])
    assert Budget(steps=3).in_steps(per_epoch).tolist() == [3, 3, 3]
    assert Budget(epochs=2).in_steps(per_epoch).tolist() == [2, 10, 14]
    assert Budget(steps=4, epochs=2).in_steps(per_epoch).tolist() == [6, 14, 18]


def recorder(seen):
    """Writes down its anchor, and moves one up a step."""

    def step(state, anchor, b, valid, scale):
        seen.append((anchor.w.item(), anchor.moving.item(), b.x.item()))
        return (state[0] + 1,)

    return Personal(lambda w0: (w0,), step, lambda w, state: state[0])


@pytest.mark.parametrize(
    ("shared", "moving"),
    [(3, [2.0, 3.9, 4.01]), (2, [2.0, 3.9, 3.9])],  # or done, and it stays there
)
def test_the_personal_model_sees_the_rounds_own_w_and_the_solvers_step(shared, moving):
    seen, xs = [], [11.0, 21.0, 5.0]  # w_k: 1 → 2 → 3.9 → 4.01
    client = both(recorder(seen), Budget(steps=shared), Budget(steps=3))
    batches = [batch(x, t=t) for t, x in enumerate(xs)]
    reply, state = worked(client.local, client.init(SENT.w), SENT, *batches)
    fixed, at, examples = map(list, zip(*seen, strict=True))
    assert (fixed, examples) == ([1.0] * 3, xs)  # the same batches
    assert at == pytest.approx(moving)
    assert reply.update.item() == pytest.approx(moving[-1] - 1)
    assert client.model(SENT.w, state).item() == 4.0


def test_an_idle_personalizer_takes_no_time():
    client = both(none(), Budget(steps=2), Budget(steps=50))
    assert client.local.budgets == (Budget(steps=2),)
    assert round_(client, 2) == pytest.approx((AFTER[2], 1.0))


def test_nested_carries_have_budgets_too():
    """A carry is a tuple of tensors, or of such tuples."""
    personal = Personal(
        lambda w0: ((w0, w0), w0),
        lambda state, *rest: ((state[0][0] + 1, state[0][1] + 2), state[1] + 3),
        lambda w, state: state[1],
    )
    client = both(personal, Budget(steps=2), Budget(steps=1))
    assert round_(client, 2) == pytest.approx((AFTER[2], 4.0))


def test_what_else_it_passes_on():
    solver = Solver(
        init=lambda w0: (w0 * 0,),
        begin=lambda sent, state: (sent.w,),
        step=lambda sent, carry, b: carry,
        end=lambda sent, carry, state: (Reply(sent.w, sent.w), (state[0] + 1,)),
        extra=1,
    )
    tuned = Phase(
        lambda sent, own: (own[0] * 10,),
        lambda sent, carry, *_: carry,
        lambda sent, carry, own, valid: (Reply(sent.w, sent.w), (own[0], *carry)),
        (Budget(steps=1),),
        valid=True,
    )
    personal = LOCAL._replace(
        finish=tuned,
        valid=True,
        settle=lambda own, valid: (own[0] + valid.x.sum(), *own[1:]),
        columns=("v",),
        tell=lambda own: own[0][None],
    )
    client, three = combined(solver, personal, (Budget(1), Budget(1))), batch(3.0)
    assert client.extra == 1 and client.columns == ("v",)
    assert client.local.valid and client.finish.valid and not client.shares_personal
    state = client.init(SENT.w)
    _, state = client.local.end(SENT, client.local.begin(SENT, state), state, three)
    assert [part[0].item() for part in state] == [1.0, 1.0]  # the solver's counts up
    state = client.settle(state, three)
    assert client.tell(state).item() == 4.0  # what the personalizer makes of it
    _, state = worked(client.finish, state, SENT, three)  # sees its own state alone
    assert [leaf.item() for part in state for leaf in part] == [1.0, 4.0, 40.0]
