"""Numbers by hand: F(v) = ½(v − x)², lr = 0.1, so that a step is v + 0.1·(x − v)."""

import pytest
import torch

from troth.client.combine import beside
from troth.client.personalizers.ditto import ditto
from troth.client.personalizers.local import local
from troth.client.personalizers.none import none
from troth.client.regularizers.l2sq import l2sq
from troth.client.solvers.fedavg import fedavg
from troth.types import Batch, Budget, Personal, Phase, Reply, Solver

from .hand import BOWL, INF, batch, by, number, sent, worked

SGD = by(0.1)
SENT = sent(number(1.0))


def round_(client, steps, x=11.0, per_epoch=1, v=1.0):
    """w_k and v after a round of so many steps on the same example."""
    seen = [batch(x, t=t, per_epoch=per_epoch) for t in range(steps)]
    reply, state = worked(client.local, client.init(number(v)), SENT, *seen)
    return (SENT.w + reply.update).item(), client.model(SENT.w, state).item()


def both(personal, *budgets):
    return beside(fedavg(BOWL, SGD), personal, (budgets[0], budgets[1]))


LOCAL = local(BOWL, SGD)
AFTER = [1.0, 2.0, 2.9, 3.71, 4.439]  # from 1 towards 11, after 0, 1, 2 … steps


def test_budgets_are_each_ones_own():
    """Steps, or epochs of as many steps as the client has, or both."""
    for shared, own, per_epoch, ends in (
        (Budget(3), Budget(3), 1, (3, 3)),
        (Budget(3), Budget(1), 1, (3, 1)),
        (Budget(1), Budget(3), 1, (1, 3)),
        (Budget(2), Budget(4), 1, (2, 4)),
        (Budget(epochs=2), Budget(epochs=1), 2, (4, 2)),
        (Budget(epochs=2), Budget(epochs=1), 1, (2, 1)),
        (Budget(epochs=2), Budget(3), 2, (4, 3)),
        (Budget(epochs=2), Budget(3), 1, (2, 3)),
    ):
        client = both(LOCAL, shared, own)
        assert client.local.budgets == (shared, own)
        found = round_(client, max(ends), per_epoch=per_epoch)
        assert found == pytest.approx([AFTER[steps] for steps in ends])


def test_ditto_beside_a_solver_that_works_longer_or_shorter():
    # v = 3: 3 − 0.1·((3 − 11) + 2·(3 − 1)) = 3.4, and no further; or
    # 3.4 → 3.4 + 0.76 − 0.48 = 3.68 → 3.68 + 0.732 − 0.536 = 3.876
    personal = ditto(BOWL, SGD, l2sq(), lam=2.0)
    for shared, own, expected in ((3, 1, 3.4), (1, 3, 3.876)):
        client = both(personal, Budget(shared), Budget(own))
        assert round_(client, 3, v=3.0) == pytest.approx((AFTER[shared], expected))


def test_clients_with_other_epochs_in_one_matrix():
    client = both(LOCAL, Budget(epochs=2), Budget(steps=1))
    step = torch.func.vmap(client.local.step, in_dims=(None, 0, 0, 0))
    n = 3
    carry = torch.ones(n, 1, dtype=torch.float64)
    carry = (carry,), (carry,)
    for t in range(4):
        one = torch.full((n, 1, 1), 11.0, dtype=torch.float64)
        clock = torch.full((n,), t), torch.tensor([1, 2, 4])
        none = torch.zeros(n)
        b = Batch(one, one, torch.ones_like(one[:, 0]), *clock, none, none)
        carry = step(SENT, carry, b, b)
    (shared,), (own,) = carry
    assert shared[:, 0].tolist() == pytest.approx([AFTER[2], AFTER[4], AFTER[4]])
    assert own[:, 0].tolist() == pytest.approx([AFTER[1]] * n)


def test_steps_of_a_budget():
    per_epoch = torch.tensor([1, 5, 7])
    assert Budget(steps=3).in_steps(per_epoch).tolist() == [3, 3, 3]
    assert Budget(epochs=2).in_steps(per_epoch).tolist() == [2, 10, 14]
    assert Budget(steps=4, epochs=2).in_steps(per_epoch).tolist() == [6, 14, 18]


def test_moments_stop_with_the_budget():
    heavy = by(0.1, "momentum", beta=0.5)
    client = both(local(BOWL, heavy), Budget(steps=3), Budget(steps=1))
    state = client.init(SENT.w)
    carry = client.local.begin(SENT, state)
    for t in range(3):
        carry = client.local.step(SENT, carry, batch(11.0, t=t), batch(11.0, t=t))
    v, m = carry[1]
    assert (v.item(), m.item()) == pytest.approx((2.0, -10.0))


def recorder(seen):
    """Writes down its anchor, and moves one up a step."""

    def step(state, anchor, b, valid, scale):
        seen.append((anchor.w.item(), anchor.moving.item(), b.x.item()))
        return (state[0] + 1,)

    return Personal(lambda w0: (w0,), step, lambda w, state: state[0])


def test_the_personal_model_sees_the_rounds_own_w_and_the_solvers_step():
    seen = []
    three = Budget(steps=3)
    client = both(recorder(seen), three, three)
    carry = client.local.begin(SENT, client.init(SENT.w))
    for t, x in enumerate((11.0, 21.0, 5.0)):  # w_k: 1 → 2 → 3.9 → 4.01
        carry = client.local.step(SENT, carry, batch(x, t=t), batch(x, t=t))
    assert [w for w, _, _ in seen] == [1.0, 1.0, 1.0]  # fixed
    assert [moving for _, moving, _ in seen] == pytest.approx([2.0, 3.9, 4.01])
    assert [x for _, _, x in seen] == [11.0, 21.0, 5.0]  # the same batches
    assert carry[1][0].item() == 4.0


def test_a_solver_that_is_done_stays_where_the_personal_model_sees_it():
    seen = []
    client = both(recorder(seen), Budget(steps=2), Budget(steps=4))
    assert round_(client, 4) == pytest.approx((AFTER[2], 5.0))
    moving = [AFTER[1], AFTER[2], AFTER[2], AFTER[2]]
    assert [where for _, where, _ in seen] == pytest.approx(moving)


def test_the_personal_model_lives_on_and_the_solver_starts_anew():
    client = both(LOCAL, Budget(steps=1), Budget(steps=1))
    state = client.init(SENT.w)
    for r in range(3):
        carry = client.local.begin(SENT, state)
        assert carry[0][0].item() == 1.0
        carry = client.local.step(SENT, carry, batch(11.0), batch(11.0))
        reply, state = client.local.end(SENT, carry, state, batch(11.0))
        assert reply.update.item() == pytest.approx(1.0)
        assert client.model(SENT.w, state).item() == pytest.approx(AFTER[r + 1])


def test_an_idle_personalizer_takes_no_time():
    client = both(none(), Budget(steps=2), Budget(steps=50))
    assert client.local.budgets == (Budget(steps=2),)
    assert round_(client, 2) == pytest.approx((AFTER[2], 1.0))


def test_no_harm_from_a_shared_model_at_infinity():
    client = both(ditto(BOWL, SGD, l2sq(), lam=0.0), Budget(2), Budget(1))
    seen = [batch(11.0, t=t) for t in range(2)]
    _, state = worked(client.local, client.init(SENT.w), sent(number(INF)), *seen)
    assert client.model(SENT.w, state).item() == pytest.approx(AFTER[1])


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
    client = beside(solver, personal, (Budget(steps=1), Budget(steps=1)))
    assert client.extra == 1
    assert client.local.valid
    assert client.columns == ("v",)
    assert not client.shares_personal
    state = client.init(SENT.w)
    carry = client.local.begin(SENT, state)
    before = state[1][0].item()
    _, state = client.local.end(SENT, carry, state, batch(3.0))
    assert state[0][0].item() == 1.0  # what the solver keeps
    assert state[1][0].item() == before
    state = client.settle(state, batch(3.0))
    own = before + batch(3.0).x.sum().item()  # what the personalizer makes of it
    assert client.tell(state).item() == state[1][0].item() == own
    assert state[0][0].item() == 1.0
    assert client.finish is not None and client.finish.valid
    carry = client.finish.begin(SENT, state)  # sees its own state alone
    _, state = client.finish.end(SENT, carry, state, batch(3.0))
    assert [leaf.item() for leaf in state[1]] == [own, 10 * own]
    assert state[0][0].item() == 1.0
