"""What holds of every personalizer in the folder.

One that stands beside a solver gives a `Personal`; one that owns the reply a `Client`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from troth import lookup, tasks, trees
from troth.clients import descent
from troth.parts import Part
from troth.regularizers.l2sq import l2sq
from troth.types import Anchor, Batch, Broadcast, Client, Personal, Task

NAMES = lookup.names("personalizer")
OPTIONS: dict[str, dict[str, Any]] = {}  # for members that cannot do without
OPTIMIZERS = lookup.names("optimizer")
CLIENTS = 3


def problem() -> Task:
    """A classifier of three numbers into two classes: d = 8, float64."""
    return tasks.functional(tasks.Objective(nn.Linear(3, 2).double(), 2), "float64")


def drawn(*shape: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def batch(client: int = 0) -> Batch:
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    label = torch.tensor([0, 1, 1, 0, 1, 0])
    x = drawn(6, 3, seed=client)
    return Batch(x, label, weight, torch.tensor(0), torch.tensor(1))


def made(name: str, task: Task, optimizer: str) -> Personal | Client:
    given = lookup.check("personalizer", name, OPTIONS.get(name, {}))
    part = Part(optimizer, lookup.check("optimizer", optimizer, {}))
    personal = lookup.call(
        lookup.find("personalizer", name),
        given,
        task=task,
        descent=descent(part, 0.1, 0.0),
        regularizer=l2sq(),
    )
    assert isinstance(personal, Personal | Client)
    return personal


def stepped(one: Personal | Client, w: Tensor, state: Any, seen: Batch) -> Any:
    """The state after a step, whichever sort it is."""
    scale = torch.ones((), dtype=w.dtype)
    if isinstance(one, Personal):
        return one.step(state, Anchor(w, w + 1), seen, seen, scale)
    sent = Broadcast(w, w.new_zeros(one.extra), scale)
    carry = one.local.step(sent, one.local.begin(sent, state), seen, seen)
    reply, state = one.local.end(sent, carry, state, seen)
    assert reply.update.shape == w.shape
    assert reply.extra.shape == (one.extra,)
    return state


@pytest.fixture(params=[(n, o) for n in NAMES for o in OPTIMIZERS], ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[Personal | Client, Task]:
    task = problem()
    return made(request.param[0], task, request.param[1]), task


Case = tuple[Personal | Client, Task]


def test_all_are_found() -> None:
    assert {"none", "local", "ditto"} <= set(NAMES)


def test_the_state_is_a_tuple_of_tensors(case: Case) -> None:
    one, task = case
    w0 = drawn(task.d, seed=10)
    state = one.init(w0)
    assert isinstance(state, tuple)
    flat = trees.leaves(state)
    assert all(isinstance(leaf, Tensor) for leaf in flat)
    assert all(leaf.dtype == w0.dtype for leaf in flat)  # it is packed into one row


def test_a_newcomer_predicts_with_a_whole_model(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    model = one.model(w, one.init(w0))
    assert model.shape == (task.d,)
    assert model.dtype == w0.dtype


def test_a_step_keeps_the_shapes(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    before = one.init(w0)
    after = stepped(one, w, before, batch())
    old, new = trees.leaves(before), trees.leaves(after)
    assert [leaf.shape for leaf in new] == [leaf.shape for leaf in old]
    assert [leaf.dtype for leaf in new] == [leaf.dtype for leaf in old]
    assert all(leaf.isfinite().all() for leaf in new)
    assert one.model(w, after).shape == (task.d,)
    trees.like(before, new)  # the same tree


def test_twice_the_same(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    first = stepped(one, w, one.init(w0), batch())
    again = stepped(one, w, one.init(w0), batch())
    pairs = zip(trees.leaves(first), trees.leaves(again), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_does_not_touch_what_it_reads(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    seen = batch()
    state = stepped(one, w, one.init(w0), seen)  # moments that are not zero
    read = [w0, w, *trees.leaves(state), *seen]
    kept = [t.clone() for t in read]
    stepped(one, w, state, seen)
    one.model(w, state)
    assert all(torch.equal(a, b) for a, b in zip(read, kept, strict=True))


def test_clients_together_as_each_alone(case: Case) -> None:
    one, task = case
    w0, w = drawn(2, task.d, seed=10)
    seen = [batch(k) for k in range(CLIENTS)]
    state = one.init(w0)
    alone = [trees.leaves(stepped(one, w, state, b)) for b in seen]
    stacked = Batch(*(torch.stack(field) for field in zip(*seen, strict=True)))
    rows = [leaf.expand(CLIENTS, *leaf.shape) for leaf in trees.leaves(state)]

    def lifted(flat: list[Tensor], b: Batch) -> list[Tensor]:
        return trees.leaves(stepped(one, w, trees.like(state, flat), b))

    if not rows:  # nothing to carry
        return
    together = torch.func.vmap(lifted)(rows, stacked)
    for k, leaves in enumerate(alone):
        for a, b in zip(leaves, together, strict=True):
            torch.testing.assert_close(b[k], a, rtol=1e-12, atol=1e-13)
