"""Clients through a phase: together in chunks, lifted, or apart, on threads.

`vmap` steps a chunk of clients as one matrix, `compiled` does so through a compiler.
Where computing outweighs the costs of calling, clients step apart, each thread with a
module whose parameters are views of the client's row (`threads`). `loop` is the plain
specification that the others are tested against.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices
from troth.engine import packing
from troth.engine import phase as liftable
from troth.engine.batches import Drawn, Feed
from troth.engine.vmap import Lifted
from troth.networks import task as tasks
from troth.networks.kernels import precision as digits
from troth.types import Batch, Broadcast, Client, Messages, Phase, Reply, Task


def spread(one: Callable[[int, int], Any], n: int, workers: int) -> list[Any]:
    """`one(worker, k)` for k < n, in order; each worker does every so-many-th.

    Args:
        one: a piece of work; what belongs to a worker is used by its thread alone.
        n: how many pieces.
        workers: threads; torch has one core in each while they run.
    """
    workers = min(workers, n)
    if workers <= 1:
        return [one(0, k) for k in range(n)]

    def share(worker: int) -> list[Any]:
        with torch.no_grad():
            return [one(worker, k) for k in range(worker, n, workers)]

    with _one_core_each(), ThreadPoolExecutor(workers) as pool:
        shares = list(pool.map(share, range(workers)))
    return [shares[k % workers][k // workers] for k in range(n)]


@contextmanager
def _one_core_each() -> Iterator[None]:
    """Inside, torch has one core in every thread, and starts none of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Plan(NamedTuple):
    """How clients step: chosen by measuring, recorded, and reused by a resumed run."""

    how: str  # loop, vmap, compiled or threads
    chunk: int  # clients that step together
    workers: int = 1  # threads that step clients apart

    @property
    def apart(self) -> bool:
        """Whether clients step one by one."""
        return self.how in ("loop", "threads")


class Engine:
    """Steps any number of clients through a phase, by a plan."""

    def __init__(
        self,
        objective: tasks.Objective,
        make_client: Callable[[Task], Client],
        feed: Feed,
        w0: Tensor,
        precision: str,
        plan: Plan,
    ) -> None:
        devices.keep()
        self.objective, self._make, self._precision = objective, make_client, precision
        self.feed, self.device = feed, w0.device
        self.task = tasks.functional(objective, precision)
        self.client = make_client(self.task)
        together = self.device.type == "cuda"
        self._together_task = tasks.functional(objective, precision, together)
        self._together_client = make_client(self._together_task)
        self.packing = packing.Packing(self.client.init(w0))
        self.use(plan)

    def use(self, plan: Plan) -> None:
        """Go by this plan from now on."""
        self.plan = plan
        self._lifted: dict[str, Lifted] = {}
        self._clients, self._tasks = [self.client], [self.task]
        if plan.how == "threads":
            self._tasks = [
                tasks.in_place(self.objective, self._precision)
                for _ in range(plan.workers)
            ]
            self._clients = [self._make(task) for task in self._tasks]

    def products(self) -> AbstractContextManager[None]:
        """Inside, products have the digits of the engine's precision."""
        return digits.products(self._precision, self.device)

    def start(self, w0: Tensor) -> Tensor:
        """The row of a client that was never asked."""
        return self.packing.pack(self.client.init(w0), 1)[0].to(w0.device, w0.dtype)

    @torch.no_grad()
    def run(
        self,
        name: str,
        broadcast: Broadcast,
        rows: Tensor,
        ids: np.ndarray,
        round_: int,
        limit: int | np.ndarray | None = None,
    ) -> tuple[Messages, Tensor]:
        """Take clients through a phase; memory that runs out halves the chunk.

        Args:
            name: `local` or `finish`.
            broadcast: what the server sent.
            rows: [c, width] their states.
            ids: [c] who they are.
            round_: it keys their batches.
            limit: at most so many steps, for all or for each of them.
        """
        while True:
            try:
                with self.products():
                    out = self._run(name, broadcast, rows, ids, round_, limit)
                break
            except (RuntimeError, MemoryError) as error:
                if not devices.exhausted(error) or self.plan.chunk == 1:
                    raise
                self.use(self.plan._replace(chunk=(self.plan.chunk + 1) // 2))
        return self.messages(out[0], ids), out[1]

    def messages(self, reply: Reply, ids: np.ndarray) -> Messages:
        """What clients send, signed with what the server knows of them."""
        clients = devices.sent(torch.from_numpy(ids), self.device)
        size = self.feed.data.train.size[clients]
        loss = torch.full((len(ids),), torch.nan, device=self.device)
        return Messages(reply.update, reply.extra, loss, size, clients)

    def _run(
        self,
        name: str,
        broadcast: Broadcast,
        rows: Tensor,
        ids: np.ndarray,
        round_: int,
        limit: int | np.ndarray | None,
    ) -> tuple[Reply, Tensor]:
        phase, counts = self.steps(name, ids, limit)
        if self.plan.apart:
            return self._apart(name, broadcast, rows, ids, round_, counts)
        chunk = self.plan.chunk  # or half, or a quarter …: every shape costs a trace
        while chunk > 1 and (chunk + 1) // 2 >= len(ids):
            chunk = (chunk + 1) // 2

        def some(worker: int, k: int) -> tuple[Reply, Tensor]:
            keep = min(chunk, len(ids) - k * chunk)
            part: Any = slice(k * chunk, (k + 1) * chunk)
            if keep < chunk:  # a short last chunk is padded
                part = np.arange(k * chunk, part.stop).clip(max=len(ids) - 1)
            reply, made = self._together(
                name, phase, broadcast, rows[part], ids[part], round_, counts[part]
            )
            return Reply(*(f[:keep] for f in reply)), made[:keep]

        out = spread(some, -(-len(ids) // chunk), self.plan.workers)
        replies = [reply for reply, _ in out]
        whole = Reply(*(_join(f) for f in zip(*replies, strict=True)))
        return whole, _join([made for _, made in out])

    def steps(
        self, name: str, ids: np.ndarray, limit: int | np.ndarray | None
    ) -> tuple[Phase, Tensor]:
        """A phase by name, and how many steps each client takes in it."""
        phase: Phase = getattr(self.client, name)
        per_epoch = self.feed.per_epoch[torch.from_numpy(ids)]
        counts = torch.stack([b.in_steps(per_epoch) for b in phase.budgets]).amax(0)
        most = counts if limit is None else counts.minimum(torch.as_tensor(limit))
        return phase, most

    def _together(
        self,
        name: str,
        phase: Phase,
        broadcast: Broadcast,
        rows: Tensor,
        ids: np.ndarray,
        round_: int,
        counts: Tensor,
    ) -> tuple[Reply, Tensor]:
        """One chunk, lifted."""
        valid = self.valid(phase, ids, few_shapes=True)
        batches = self.batches(phase, ids, round_, int(counts.max()))
        given = broadcast, rows, valid, counts, batches
        return liftable.through(self._lift, name, phase, self.packing, *given)

    def batches(
        self, phase: Phase, ids: np.ndarray, round_: int, steps: int
    ) -> Iterator[tuple[int, Batch]]:
        """Every step's batch, [clients, batch, …], gathered some steps at a time."""
        return self.feed.gathered(self.drawn(phase, ids, round_, steps))

    def drawn(self, phase: Phase, ids: np.ndarray, round_: int, steps: int) -> Drawn:
        """Which examples these clients will see in a phase."""
        alone = self.plan.apart and not phase.by_group  # nobody's padding
        return self.feed.drawn(ids, steps, round_, phase.by_group, alone)

    def valid(self, phase: Phase, ids: np.ndarray, few_shapes: bool = False) -> Batch:
        """What a phase looks at besides: validation data, or nothing."""
        if not phase.valid:
            return self.feed.nothing(len(ids))
        return self.feed.whole(ids, self.feed.data.valid, few_shapes)

    def function(self, name: str, alone: bool = False) -> liftable.Liftable:
        """A function of the client by name, to be lifted; or for one client alone."""
        client = self.client if alone else self._together_client
        return liftable.function(client, self._together_task, name)

    def _lift(self, name: str) -> Lifted:
        """A function of the client by name, lifted once."""
        if name not in self._lifted:
            own = name.endswith(".step")  # of its carry, which `through` copied
            alone = "." in name and self.plan.chunk == 1
            function, dims = self.function(name, alone)
            self._lifted[name] = Lifted(function, dims, self.plan.how, own, alone)
        return self._lifted[name]

    def _apart(
        self,
        name: str,
        broadcast: Broadcast,
        rows: Tensor,
        ids: np.ndarray,
        round_: int,
        counts: Tensor,
    ) -> tuple[Reply, Tensor]:
        """Clients one by one, on as many threads as the plan says."""

        def one(worker: int, k: int) -> tuple[Reply, Tensor]:
            phase: Phase = getattr(self._clients[worker], name)
            mine = ids[k : k + 1]
            state = packing.first(self.packing.unpack(rows[k : k + 1]))
            valid = packing.first(self.valid(phase, mine))
            valid = phase.prepare(broadcast, valid) if phase.prepare else valid
            carry = phase.begin(broadcast, state)
            for _, batch in self.batches(phase, mine, round_, int(counts[k])):
                carry = phase.step(broadcast, carry, packing.first(batch), valid)
            reply, state = phase.end(broadcast, carry, state, valid)
            return reply, self.packing.pack(state, 1)[0]

        out = spread(one, len(ids), self.plan.workers)
        replies = [reply for reply, _ in out]
        whole = Reply(*(torch.stack(f) for f in zip(*replies, strict=True)))
        return whole, torch.stack([row for _, row in out])

    @torch.no_grad()
    def models(self, w: Tensor, rows: Tensor) -> Tensor:
        """What clients predict with: [c, d]."""
        if self.packing.width == 0:
            return w.expand(len(rows), -1)
        index = torch.arange(len(rows), device=self.device)
        return self._lift("model").once(index, w, self.packing.unpack(rows))  # type: ignore[no-any-return]

    @torch.no_grad()
    def settled(self, rows: Tensor, ids: np.ndarray) -> Tensor:
        """The rows as they are read: with what clients decide only then.

        Args:
            rows: [c, width] their states.
            ids: [c] whose validation data they decide by.
        """
        if self.client.settle is None:
            return rows
        with self.products():
            if self.plan.apart:
                every = enumerate(rows)
                each = [self._settled(row, ids[k : k + 1]) for k, row in every]
                return torch.stack(each)
            index, n = torch.arange(len(rows), device=self.device), len(rows)
            valid = self.feed.whole(ids, self.feed.data.valid, few_shapes=True)
            state = self._lift("settle").once(index, self.packing.unpack(rows), valid)
            return self.packing.pack(packing.kept(state), n)

    def _settled(self, row: Tensor, mine: np.ndarray) -> Tensor:
        """One client's."""
        assert self.client.settle is not None
        state = packing.first(self.packing.unpack(row[None]))
        valid = packing.first(self.feed.whole(mine, self.feed.data.valid))
        return self.packing.pack(self.client.settle(state, valid), 1)[0]

    @torch.no_grad()
    def told(self, rows: Tensor) -> Tensor:
        """What clients tell about themselves, `client.columns`: [c, columns].

        On the host, for not every device has float64.
        """
        index, state = torch.arange(len(rows)), self.packing.unpack(rows.cpu())
        return self._lift("tell").once(index, state)  # type: ignore[no-any-return]

    @torch.no_grad()
    def predict(self, models: Tensor, x: Tensor) -> Tensor:
        """Outputs of every client's model on its own examples: [c, b, k]."""

        def one(worker: int, k: int) -> Tensor:
            return self._tasks[worker].predict(models[k], x[k])

        with self.products():
            if not self.plan.apart:
                return self._lift("predict").once(models, x)  # type: ignore[no-any-return]
            return torch.stack(spread(one, len(models), self.plan.workers))


def _join(parts: Iterable[Tensor]) -> Tensor:
    parts = list(parts)
    return parts[0] if len(parts) == 1 else torch.cat(parts)
