"""A client's functions by name, what has a client axis, and a phase of many clients."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from troth.engine import packing as trees
from troth.engine import vmap
from troth.types import Batch, Broadcast, Client, Phase, Reply, Task

Liftable = tuple[Callable[..., Any], tuple[Any, ...]]
_EACH = Batch(0, 0, 0, None, 0, 0, 0)  # type: ignore[arg-type]


def function(client: Client, task: Task, name: str) -> Liftable:
    """A function and its client axes; `i`, the row's number, has one where none has.

    Args:
        client: its functions.
        task: what it predicts by.
        name: `predict`, `model`, `tell`, `settle`, or a phase and a part of it, such
            as `local.step`. `last` is a step that only some of the clients take;
            `prepare` gives x, y and weight.
    """
    settle = client.settle
    whole: dict[str, Liftable] = {
        "predict": (task.predict, (0, 0)),
        "model": (lambda i, w, state: client.model(w, state), (0, None, 0)),
        "tell": (lambda i, state: client.tell(state), (0, 0)),
        "settle": (lambda i, *rest: settle(*rest), (0, 0, _EACH)),  # type: ignore[misc]
    }
    which, _, part = name.partition(".")
    return _part(getattr(client, which), part) if part else whole[name]


def _part(phase: Phase, part: str) -> Liftable:
    def last(broadcast: Broadcast, carry: Any, *rest: Any) -> Any:
        return trees.where(rest[-1], phase.step(broadcast, carry, *rest[:-1]), carry)

    def prepare(broadcast: Broadcast, valid: Batch) -> Any:
        assert phase.prepare is not None
        return phase.prepare(broadcast, valid)[:3]  # the rest stays as it was

    found: dict[str, Liftable] = {
        "prepare": (prepare, (None, _EACH)),
        "begin": (lambda i, b, s: phase.begin(b, s), (0, None, 0)),
        "step": (phase.step, (None, 0, _EACH, _EACH)),
        "last": (last, (None, 0, _EACH, _EACH, 0)),
        "end": (lambda i, *rest: phase.end(*rest), (0, None, 0, 0, _EACH)),
    }
    return found[part]


def through(
    lift: Callable[[str], Any],
    name: str,
    phase: Phase,
    packing: trees.Packing,
    broadcast: Broadcast,
    rows: Tensor,
    valid: Batch,
    counts: Tensor,
    batches: Iterable[tuple[int, Batch]],
) -> tuple[Reply, Tensor]:
    """Some clients through a phase, as one matrix.

    Args:
        lift: name of a function of the client → that function, lifted.
        name: `local` or `finish`.
        phase: it.
        packing: of their states.
        broadcast: what the server sent; one row per client where these differ.
        rows: [c, width] their states.
        valid: what they look at besides.
        counts: [c] how many steps each takes.
        batches: of every step.

    Returns:
        What they reply, and their states after it.
    """
    n, device = len(rows), broadcast.w.device
    index = torch.arange(n, device=device)
    state = packing.unpack(rows)
    if phase.prepare is not None:
        x, y, weight = lift(f"{name}.prepare").once(broadcast, valid)
        valid = valid._replace(x=x, y=y, weight=weight)
    carry = lift(f"{name}.begin")(index, broadcast, state)
    if not vmap.captures(broadcast.w):  # a captured step copies what it writes over
        carry = trees.mapped(Tensor.clone, carry)
    ahead = int(counts.min())
    for t, batch in batches:
        if t < ahead:
            carry = lift(f"{name}.step")(broadcast, carry, batch, valid)
        else:
            active = (counts > t).to(device)
            carry = lift(f"{name}.last")(broadcast, carry, batch, valid, active)
    reply, state = lift(f"{name}.end")(index, broadcast, carry, state, valid)
    reply, state = trees.kept(reply), trees.kept(state)
    return reply, packing.pack(state, n)
