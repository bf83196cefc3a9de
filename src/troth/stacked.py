"""Several federations whose clients step as one matrix.

They ask the same clients for the same work on the same batches, and differ in what the
shared model became: by who is hostile, what labels those hold, and how the server puts
updates together. So the rows of all are stepped together, each with the shared model
of its own federation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from troth import liftable
from troth.engine import Engine
from troth.federation import Asked, Federation
from troth.lifted import Lifted
from troth.types import Batch, Broadcast, Messages, Phase, Record

_SENT = Broadcast(0, 0, None, None)  # type: ignore[arg-type]


class Stack:
    """Steps the clients of several federations together."""

    def __init__(self, federations: Sequence[Federation]) -> None:
        """Nothing is stepped yet.

        Args:
            federations: of the same clients, model, personalizer and seed.
        """
        self.federations = list(federations)
        self.engines: list[Engine] = [f.engine for f in federations]
        self._lifted: dict[str, Lifted] = {}

    @torch.no_grad()
    def step(self) -> list[Record]:
        """One round of each."""
        asked = [f.ask() for f in self.federations]
        if len(asked[0].turnout.ids) == 0:
            return [f.step() for f in self.federations]
        found = self._run("local", asked)
        pairs = zip(self.federations, asked, found, strict=True)
        return [f.take(a, *messages_rows) for f, a, messages_rows in pairs]

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """After the last round, as `Federation.finish`: fine-tuning and its kin."""
        first = self.federations[0]
        if first.engine.client.finish is None:
            return
        for ids in first.groups(first.members, chunk):
            asked = [f.last(ids) for f in self.federations]
            found = self._run("finish", asked)
            for f, (_, rows) in zip(self.federations, found, strict=True):
                f.population.write(ids, rows)
            yield len(ids)

    def _run(self, name: str, asked: Sequence[Asked]) -> list[tuple[Messages, Tensor]]:
        """All rows through a phase at once."""
        first, ids = self.engines[0], asked[0].turnout.ids
        assert all(np.array_equal(a.turnout.ids, ids) for a in asked)
        phase, counts = first.steps(name, ids, asked[0].turnout.steps)
        reply, rows = liftable.through(
            self._lift,
            name,
            phase,
            first.packing,
            _each([a.broadcast for a in asked], len(ids)),
            torch.cat([a.rows for a in asked]),
            _joined([e.valid(phase, ids, few_shapes=True) for e in self.engines]),
            counts.repeat(len(asked)),
            self._batches(phase, ids, asked[0].round, int(counts.max())),
        )
        n, found = len(ids), []
        for k, engine in enumerate(self.engines):
            own = slice(k * n, (k + 1) * n)
            mine = type(reply)(*(field[own] for field in reply))
            found.append((engine.messages(mine, ids), rows[own]))
        return found

    def _batches(
        self, phase: Phase, ids: np.ndarray, round_: int, steps: int
    ) -> Iterator[tuple[int, Batch]]:
        every = [e.batches(phase, ids, round_, steps) for e in self.engines]
        for each in zip(*every, strict=True):
            yield each[0][0], _joined([batch for _, batch in each])

    def _lift(self, name: str) -> Lifted:
        """A function of the client by name, each row with a broadcast of its own."""
        if name not in self._lifted:
            function, dims = self.engines[0].function(name)
            own = tuple(_SENT if dim is None else dim for dim in dims)
            how, in_place = self.engines[0].plan.how, name.endswith(".step")
            self._lifted[name] = Lifted(function, own, how, in_place)
        return self._lifted[name]


def _each(sent: Sequence[Broadcast], rows: int) -> Broadcast:
    """What every row works with: as many of each as it has clients."""

    def repeated(tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors).repeat_interleave(rows, dim=0)

    w, extra = repeated([b.w for b in sent]), repeated([b.extra for b in sent])
    return sent[0]._replace(w=w, extra=extra)


def _joined(batches: Sequence[Batch]) -> Batch:
    """Batches of several federations one below the other; the step is that of all."""
    first: Any = batches[0]
    joined = {
        name: torch.cat([getattr(batch, name) for batch in batches])
        for name in Batch._fields
        if name != "t"
    }
    found: Batch = first._replace(**joined)
    return found
