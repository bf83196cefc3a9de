"""Train the clients of several federations together, as rows of one matrix.

The federations have the same network, solver and personalizer. Their shared models,
adversaries, labels, server rules and seeds may differ. Each client is trained with the
server's message of its federation.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from troth.engine import local_training as liftable
from troth.engine.batches import Drawn, Feed
from troth.engine.local_training import Engine
from troth.engine.vmap import Lifted, Whole
from troth.federation.rounds import Asked, Federation
from troth.server.server import served
from troth.types import Batch, Broadcast, Messages, Phase, Record

_SENT = Broadcast(0, 0, None, 0)  # type: ignore[arg-type]


class Stack:
    """Several federations whose clients are trained together."""

    def __init__(self, federations: Sequence[Federation]) -> None:
        """Stack federations with equal numbers of clients and equal networks."""
        self.federations = list(federations)
        self._first: Engine = self.federations[0].engine
        self._lifted: dict[str, Lifted | Whole] = {}
        self._sent: dict[Any, Tensor] = {}
        self._feeds: dict[Feed, Feed] = {}  # feed → first feed with the same batches
        for feed in (f.engine.feed for f in self.federations):
            same = (known for known in self._feeds.values() if known.alike(feed))
            self._feeds[feed] = next(same, feed)
        cuda = self._first.device.type == "cuda"
        self._stream = torch.cuda.Stream(self._first.device) if cuda else None  # type: ignore[no-untyped-call]
        self._flying: list[tuple[Federation, Asked, Messages, Tensor]] = []

    @torch.no_grad()
    def launch(self) -> None:
        """Begin a round of each federation: train all clients of the cohorts.

        On a GPU, the work is queued in a separate CUDA stream, and the function returns
        at once. The federations change only in `land`.
        """
        if self._stream is not None:  # wait for the work queued in the default stream
            self._stream.wait_stream(torch.cuda.current_stream())
        with self._aside():
            asked = [f.ask() for f in self.federations]
            results = iter(self._run("local", self.federations, asked))
            self._flying = []
            for f, a in zip(self.federations, asked, strict=True):
                messages, rows = f.nobody(a), a.rows
                if len(a.turnout.ids):
                    messages, rows = next(results)
                self._flying.append((f, a, f.with_losses(a, messages), rows))

    @torch.no_grad()
    def land(self) -> list[Record]:
        """Finish the round that `launch` began; return one record per federation."""
        with self._aside():
            ready = [(f.serving, f.receive(a, m, r)) for f, a, m, r in self._flying]
            results = served(ready)
        pairs = zip(self._flying, results, strict=True)
        records = [f.take(asked, one) for (f, asked, _, _), one in pairs]
        self._flying = []
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
        return records

    def _aside(self) -> AbstractContextManager[Any]:
        """Return a context that queues work in the stack's CUDA stream, if any."""
        return torch.cuda.stream(self._stream) if self._stream else nullcontext()

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """Train the members of all federations after the last round.

        This is `Federation.finish` for all federations. Yield the number of clients of
        each finished chunk, per federation.
        """
        if self._first.client.finish is None:
            return
        every = [f.groups(f.members, chunk) for f in self.federations]
        for each in zip_longest(*every):
            pairs = zip(self.federations, each, strict=True)
            some = [(f, ids) for f, ids in pairs if ids is not None]
            asked = [f.last(ids, f.population.read(ids)) for f, ids in some]
            results = self._run("finish", [f for f, _ in some], asked)
            for (f, ids), (_, rows) in zip(some, results, strict=True):
                f.population.write(ids, rows)
            yield len(some[0][1])

    def _run(
        self, name: str, federations: Sequence[Federation], asked: Sequence[Asked]
    ) -> list[tuple[Messages, Tensor]]:
        """Run a phase of training for all clients of all federations at once.

        Return the messages and new states of each federation that has clients.
        """
        pairs = zip(federations, asked, strict=True)
        some = [(f.engine, a) for f, a in pairs if len(a.turnout.ids)]
        if not some:
            return []
        steps = [e.steps(name, a.turnout.ids, a.turnout.steps) for e, a in some]
        phase, counts = steps[0][0], torch.cat([own for _, own in steps])
        with self._first.products():
            reply, rows = liftable.through(
                self._lift,
                name,
                phase,
                self._first.packing,
                self._each([(a.broadcast, len(a.turnout.ids)) for _, a in some]),
                torch.cat([a.rows for _, a in some]),
                self._valid(phase, some),
                counts,
                self._blocks(phase, some, int(counts.max())),
            )
        results, end = [], 0
        for engine, a in some:
            own = slice(end, end := end + len(a.turnout.ids))
            mine = type(reply)(*(field[own] for field in reply))
            results.append((engine.messages(mine, a.turnout.ids), rows[own]))
        return results

    def _valid(self, phase: Phase, some: Sequence[tuple[Engine, Asked]]) -> Batch:
        """Return the validation examples of all clients, or an empty batch."""
        if phase.valid:
            ids = [(engine, a.turnout.ids) for engine, a in some]
            return _joined([e.valid(phase, own, few_shapes=True) for e, own in ids])
        rows = sum(len(a.turnout.ids) for _, a in some)
        return self._first.feed.nothing(rows)

    def _each(self, sent: Sequence[tuple[Broadcast, int]]) -> Broadcast:
        """Repeat each broadcast for each of its clients, in buffers for CUDA graphs."""

        def repeated(name: str) -> Tensor:
            every = [(getattr(broadcast, name), rows) for broadcast, rows in sent]
            rows = [t.expand(rows, *t.shape) for t, rows in every]
            shape = name, sum(map(len, rows)), *rows[0].shape[1:]
            if shape not in self._sent:
                self._sent[shape] = rows[0].new_empty(shape[1:])
                self._sent[shape].is_kept = True  # type: ignore[attr-defined]
            return torch.cat(rows, out=self._sent[shape])

        each = {name: repeated(name) for name in ("w", "extra", "key")}
        return sent[0][0]._replace(**each)

    def _blocks(
        self, phase: Phase, some: Sequence[tuple[Engine, Asked]], steps: int
    ) -> Iterator[tuple[int, Batch]]:
        """Yield the batches of several steps, concatenated over all federations."""
        rows = sum(len(asked.turnout.ids) for _, asked in some)
        most = self._first.feed.block(rows)
        drawn: dict[Any, Drawn] = {}  # one for all federations with the same batches
        every = []
        for engine, asked in some:
            ids = asked.turnout.ids
            same = id(self._feeds[engine.feed]), asked.round, ids.tobytes()
            if same not in drawn:
                drawn[same] = engine.drawn(phase, ids, asked.round, steps)
            every.append(engine.feed.blocks(drawn[same], most))
        for each in zip(*every, strict=True):
            yield each[0][0], _joined([block for _, block in each], 1)

    def _lift(self, name: str) -> Any:
        """Vectorize a function of one client over rows with different broadcasts."""
        if name not in self._lifted and name.endswith(".whole"):
            self._lifted[name] = liftable.whole(self._lift, name)
        elif name not in self._lifted:
            function, dims = self._first.function(name)
            own = tuple(_SENT if dim is None else dim for dim in dims)
            how, in_place = self._first.plan.how, name.endswith(".step")
            self._lifted[name] = Lifted(function, own, how, in_place)
        return self._lifted[name]


def _joined(batches: Sequence[Batch], axis: int = 0) -> Batch:
    """Concatenate the batches of several federations along the axis of clients.

    The axis is 1 if the batches are those of several steps (see `Batch.at`).
    """
    joined: Any = {
        name: torch.cat(_as_wide([getattr(batch, name) for batch in batches], axis), k)
        for name, k in zip(
            Batch._fields, (axis, axis, axis, 0, 0, 0, axis), strict=True
        )
        if name != "t"
    }
    return batches[0]._replace(**joined)


def _as_wide(tensors: list[Tensor], axis: int) -> list[Tensor]:
    """Pad the examples, which follow the axis of clients, to the largest number."""
    at = axis + 1
    if tensors[0].dim() <= at or len({t.shape[at] for t in tensors}) == 1:
        return tensors
    most = max(t.shape[at] for t in tensors)
    after = tensors[0].dim() - at - 1
    rest = [[0, 0] * after + [0, most - t.shape[at]] for t in tensors]
    return [F.pad(t, pad) for t, pad in zip(tensors, rest, strict=True)]
