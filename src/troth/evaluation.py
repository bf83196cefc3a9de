"""Models → a table with a row a client."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from troth import memory, scores
from troth.engine import Engine
from troth.population import Population
from troth.types import Split

Table = dict[str, np.ndarray]
_EXAMPLES = 2048  # of the shared model at once


@torch.no_grad()
def shared(engine: Engine, w: Tensor, split: Split, ids: np.ndarray) -> Table:
    """The shared model on each client's own examples."""
    slots, start, size = _slots(split, ids)
    outputs = []
    for first in range(0, len(slots), _EXAMPLES):
        x, _ = engine.feed.gather(slots[first : first + _EXAMPLES], split)
        outputs.append(engine.task.predict(w, x))
    return _score(engine, torch.cat(outputs), split, slots, start, size)


@torch.no_grad()
def personal(
    engine: Engine, w: Tensor, population: Population, split: Split, ids: np.ndarray
) -> Table:
    """Each client's own model on its own examples."""
    slots, start, size = _slots(split, ids)
    order = np.argsort(size, kind="stable")  # neighbours pad each other little
    outputs: list[Tensor] = [torch.empty(0)] * len(ids)
    chunk = _chunk(engine, population)
    groups = [order[k : k + chunk] for k in range(0, len(ids), chunk)]
    every = population.each(ids[some] for some in groups)
    for some, (clients, rows) in zip(groups, every, strict=True):
        batch = engine.feed.whole(clients, split)
        out = engine.predict(engine.models(w, rows), batch.x)
        for place, k in enumerate(some):
            outputs[k] = out[place, : size[k]]
    return _score(engine, torch.cat(outputs), split, slots, start, size)


def _chunk(engine: Engine, population: Population) -> int:
    """How many models are evaluated at once: about an eighth of what is free."""
    number = engine.feed.dtype.itemsize
    one = number * (engine.task.d * 3 + population.width) + 2**16
    return int(max(1, min(256, memory.free(engine.device) // 8 // one)))


def _slots(split: Split, ids: np.ndarray) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """All slots of some clients, one after another, with where each begins."""
    clients = torch.from_numpy(ids).to(split.size.device)
    first, size = (part[clients].cpu().numpy() for part in (split.start, split.size))
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    slots = np.arange(size.sum()) - np.repeat(start - first, size)
    return torch.from_numpy(slots), start, size


def _score(
    engine: Engine,
    outputs: Tensor,
    split: Split,
    slots: Tensor,
    start: np.ndarray,
    size: np.ndarray,
) -> Table:
    y = split.y[slots.to(split.y.device)]
    loss = engine.objective.per_example(outputs, y)
    return scores.score(
        outputs.cpu(), y.cpu(), loss.cpu(), start, size, engine.task.classes
    )
