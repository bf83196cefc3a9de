"""Models → a table with a row a client."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices, numerics
from troth.data import labels
from troth.engine.engine import Engine
from troth.engine.population import Population
from troth.evaluation import scores
from troth.types import Aim, Split

Table = dict[str, np.ndarray]

_Show = Callable[[Tensor, Tensor], Tensor]
_EXAMPLES = 2048  # of the shared model at once
_NUMBERS = 2**29  # of personal models; more at once are not faster


class _Slots(NamedTuple):
    """All examples of some clients, one client after another."""

    slot: Tensor  # [slots] in the split
    start: np.ndarray  # [n] where each client begins here
    size: np.ndarray  # [n]


@torch.no_grad()
def shared(
    engine: Engine, w: Tensor, split: Split, ids: np.ndarray, aim: Aim | None = None
) -> Table:
    """The shared model on each client's own examples.

    Args:
        engine: predicts.
        w: [d] the shared model.
        split: which examples.
        ids: of which clients.
        aim: what an attacker is after: then the table says how often it succeeds.
    """
    where, shows = _slots(split, ids), _shows(aim)
    outputs: list[list[Tensor]] = [[] for _ in shows]
    for slot in torch.split(where.slot, _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        for show, found in zip(shows, outputs, strict=True):
            shown = show(x, y)
            with engine.products():
                found.append(engine.task.predict(w, shown))
    return _table(engine, outputs, split, where, aim)


@torch.no_grad()
def losses(
    engine: Engine, w: Tensor, split: Split, first: np.ndarray, size: np.ndarray
) -> Tensor:
    """[n] the mean loss of the shared model on clients' examples; NaN without any.

    As `shared` has it, but alone and on the device, which nobody waits for: a rule that
    reads losses asks for them in every round.

    Args:
        engine: predicts.
        w: [d] the shared model.
        split: which examples.
        first: [n] the first slot of each client.
        size: [n] how many it has.
    """
    where, each = _placed(first, size), []
    for slot in torch.split(devices.sent(where.slot, w.device), _EXAMPLES):
        x, y = engine.feed.gather(slot, split)
        with engine.products():
            each.append(engine.objective.per_example(engine.task.predict(w, x), y))
    found = torch.cat([*each, w.new_zeros(1)])  # and a place for padding
    found = found.to(numerics.widest(found))
    position = np.arange(size.max(initial=0))
    inside = position < size[:, None]
    place = np.where(inside, where.start[:, None] + position, len(found) - 1)
    rows = found[devices.sent(torch.from_numpy(place), w.device)]
    return rows.sum(dim=1) / devices.sent(torch.from_numpy(size), w.device)


@torch.no_grad()
def personal(
    engine: Engine,
    w: Tensor,
    population: Population,
    split: Split,
    ids: np.ndarray,
    aim: Aim | None = None,
) -> Table:
    """Each client's own model on its own examples; arguments as of `shared`."""
    where, shows = _slots(split, ids), _shows(aim)
    order = np.argsort(where.size, kind="stable")  # neighbors pad each other little
    outputs = [[torch.empty(0)] * len(ids) for _ in shows]
    chunk = _chunk(engine, population)
    groups = [order[k : k + chunk] for k in range(0, len(ids), chunk)]
    every = population.each(ids[some] for some in groups)
    for some, (clients, rows) in zip(groups, every, strict=True):
        batch = engine.feed.whole(clients, split)
        models = engine.models(w, engine.settled(rows, clients))
        flat = batch.x.flatten(0, 1), batch.y.flatten(0, 1)
        for show, found in zip(shows, outputs, strict=True):
            out = engine.predict(models, show(*flat).reshape(batch.x.shape))
            for place, k in enumerate(some):
                found[k] = out[place, : where.size[k]]
    return _table(engine, outputs, split, where, aim)


def _shows(aim: Aim | None) -> list[_Show]:
    """What models are shown: the inputs as they are, and as an attacker has them."""
    plain: _Show = lambda x, y: x  # noqa: E731
    return [plain] if aim is None else [plain, lambda x, y: aim(x, y)[0]]


def _chunk(engine: Engine, population: Population) -> int:
    """How many models are evaluated at once: at most an eighth of what is free."""
    numbers = engine.task.d * 3 + population.width
    one = engine.feed.dtype.itemsize * numbers + 2**16
    most = min(256, _NUMBERS // numbers)
    return int(max(1, min(most, devices.free(engine.device) // 8 // one)))


def _slots(split: Split, ids: np.ndarray) -> _Slots:
    clients = torch.from_numpy(ids).to(split.size.device)
    return _placed(*(part[clients].cpu().numpy() for part in (split.start, split.size)))


def _placed(first: np.ndarray, size: np.ndarray) -> _Slots:
    start = np.concatenate([[0], np.cumsum(size)[:-1]])
    slots = np.arange(size.sum()) - np.repeat(start - first, size)
    return _Slots(torch.from_numpy(slots), start, size)


def _table(
    engine: Engine,
    outputs: Sequence[Sequence[Tensor]],
    split: Split,
    where: _Slots,
    aim: Aim | None,
) -> Table:
    """Scores of the outputs on inputs as they are, and what an attacker's come to."""
    plain, *aimed = (torch.cat(list(found)) for found in outputs)
    y, place = split.y[where.slot.to(split.y.device)], (where.start, where.size)
    loss = engine.objective.per_example(plain, y)
    classes, y = engine.task.classes, labels.likely(y)
    table = scores.score(plain.cpu(), y.cpu(), loss.cpu(), *place, classes)
    if aim is not None:
        parts = torch.split(where.slot, _EXAMPLES)
        each = [aim(*engine.feed.gather(slot, split))[1].cpu() for slot in parts]
        wanted, several = torch.cat(each), y.dim() == 2
        table["attack_success"] = scores.success(
            aimed[0].cpu(), wanted, *place, several
        )
    return table
