"""Several federations whose clients step as one matrix.

Their clients do the same work with the same model and personalizer. They differ in what
the shared model became, by who is hostile, what labels those hold and how the server
puts updates together; and in the seed, so in who is asked and in the batches. So the
rows of all are stepped together, each with what its own federation sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from troth import liftable
from troth.engine import Engine
from troth.federation import Asked, Federation
from troth.lifted import Lifted
from troth.types import Batch, Broadcast, Messages, Phase, Record

_SENT = Broadcast(0, 0, None, 0)  # type: ignore[arg-type]


class Stack:
    """Steps the clients of several federations together."""

    def __init__(self, federations: Sequence[Federation]) -> None:
        """Nothing is stepped yet.

        Args:
            federations: of as many clients, of one model and personalizer.
        """
        self.federations = list(federations)
        self._first: Engine = self.federations[0].engine
        self._lifted: dict[str, Lifted] = {}

    @torch.no_grad()
    def step(self) -> list[Record]:
        """One round of each."""
        asked = [f.ask() for f in self.federations]
        found = iter(self._run("local", self.federations, asked))
        return [
            f.take(a, *next(found)) if len(a.turnout.ids) else f.unanswered(a)
            for f, a in zip(self.federations, asked, strict=True)
        ]

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """After the last round, as `Federation.finish`: fine-tuning and its kin."""
        if self._first.client.finish is None:
            return
        every = [f.groups(f.members, chunk) for f in self.federations]
        for each in zip_longest(*every):
            pairs = zip(self.federations, each, strict=True)
            some = [(f, ids) for f, ids in pairs if ids is not None]
            asked = [f.last(ids, f.population.read(ids)) for f, ids in some]
            found = self._run("finish", [f for f, _ in some], asked)
            for (f, ids), (_, rows) in zip(some, found, strict=True):
                f.population.write(ids, rows)
            yield len(some[0][1])

    def _run(
        self, name: str, federations: Sequence[Federation], asked: Sequence[Asked]
    ) -> list[tuple[Messages, Tensor]]:
        """All rows through a phase at once; of those who ask nobody, nothing."""
        pairs = zip(federations, asked, strict=True)
        some = [(f.engine, a) for f, a in pairs if len(a.turnout.ids)]
        if not some:
            return []
        steps = [e.steps(name, a.turnout.ids, a.turnout.steps) for e, a in some]
        phase, counts = steps[0][0], torch.cat([own for _, own in steps])
        reply, rows = liftable.through(
            self._lift,
            name,
            phase,
            self._first.packing,
            _each([(a.broadcast, len(a.turnout.ids)) for _, a in some]),
            torch.cat([a.rows for _, a in some]),
            _joined([e.valid(phase, a.turnout.ids, few_shapes=True) for e, a in some]),
            counts,
            _batches(phase, some, int(counts.max())),
        )
        found, end = [], 0
        for engine, a in some:
            own = slice(end, end := end + len(a.turnout.ids))
            mine = type(reply)(*(field[own] for field in reply))
            found.append((engine.messages(mine, a.turnout.ids), rows[own]))
        return found

    def _lift(self, name: str) -> Lifted:
        """A function of the client by name, each row with a broadcast of its own."""
        if name not in self._lifted:
            function, dims = self._first.function(name)
            own = tuple(_SENT if dim is None else dim for dim in dims)
            how, in_place = self._first.plan.how, name.endswith(".step")
            self._lifted[name] = Lifted(function, own, how, in_place)
        return self._lifted[name]


def _batches(
    phase: Phase, some: Sequence[tuple[Engine, Asked]], steps: int
) -> Iterator[tuple[int, Batch]]:
    """Every step's batch, those of all federations one below the other."""
    every = [e.batches(phase, a.turnout.ids, a.round, steps) for e, a in some]
    for each in zip(*every, strict=True):
        yield each[0][0], _joined([batch for _, batch in each])


def _each(sent: Sequence[tuple[Broadcast, int]]) -> Broadcast:
    """What every row works with: as many of each as it has clients."""

    def repeated(name: str) -> Tensor:
        every = [(getattr(broadcast, name), rows) for broadcast, rows in sent]
        return torch.cat([t.expand(rows, *t.shape) for t, rows in every])

    each = {name: repeated(name) for name in ("w", "extra", "key")}
    return sent[0][0]._replace(**each)


def _joined(batches: Sequence[Batch]) -> Batch:
    """Batches of several federations one below the other; the step is that of all."""
    first: Any = batches[0]
    joined = {
        name: torch.cat(_as_wide([getattr(batch, name) for batch in batches]))
        for name in Batch._fields
        if name != "t"
    }
    found: Batch = first._replace(**joined)
    return found


def _as_wide(tensors: list[Tensor]) -> list[Tensor]:
    """[c, examples, …] each, with examples that do not count up to the most of any."""
    if tensors[0].dim() < 2:
        return tensors
    most = max(t.shape[1] for t in tensors)
    rest = [[0, 0] * (t.dim() - 2) + [0, most - t.shape[1]] for t in tensors]
    return [F.pad(t, pad) for t, pad in zip(tensors, rest, strict=True)]
