"""The functions of a client by name, and which arguments have a client axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from troth import trees
from troth.types import Batch, Broadcast, Client, Phase, Task

Liftable = tuple[Callable[..., Any], tuple[Any, ...]]
_EACH = Batch(0, 0, 0, None, 0, 0, 0)  # type: ignore[arg-type]


def function(client: Client, task: Task, name: str) -> Liftable:
    """One of them; `i` is the row's number, for functions of nothing else with an axis.

    Args:
        client: whose.
        task: what it predicts by.
        name: `predict`, `model`, `tell`, `settle`, or a phase and a part of it, such
            as `local.step`; `last` is a step that only some of the clients take; of
            `prepare`, x, y and weight.
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
