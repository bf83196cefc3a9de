"""Train many clients, in chunks that vmap vectorizes, or one by one on threads.

A phase (such as the local training of a round) consists of functions of one client:
begin, step per batch, end. The engine runs the loop over batches. A plan says how
clients are batched. The plan `vmap` computes a step for a chunk of clients at once, and
the plan `compiled` also compiles this step. The plan `threads` computes clients one by
one, which is faster for large networks: each thread has a module whose parameters are
views of the client's model. The plan `loop` is the plain implementation, with which
tests compare all others.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices
from troth.engine import vmap
from troth.engine.batches import Drawn, Feed
from troth.engine.vmap import Lifted, Whole
from troth.networks import flat as trees
from troth.networks import kernels
from troth.networks import task as tasks
from troth.networks.kernels import precision as digits
from troth.networks.validate import remaining
from troth.types import Batch, Broadcast, Client, Messages, Phase, Reply, Task

Liftable = tuple[Callable[..., Any], tuple[Any, ...]]
_EACH = Batch(0, 0, 0, None, 0, 0, 0)  # type: ignore[arg-type]


def function(client: Client, task: Task, name: str) -> Liftable:
    """Return a function of one client, and the client axes of its arguments for vmap.

    `name` is `predict`, `model`, `tell`, `settle`, or a phase and its part, such as
    `local.step`. The part `last` is a step that only some clients take. Some functions
    get the client's row index `i` as an argument, because vmap needs an argument that
    depends on the client.
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
        return phase.prepare(broadcast, valid)[:3]  # only x, y and weight can change

    parts: dict[str, Liftable] = {
        "prepare": (prepare, (None, _EACH)),
        "begin": (lambda i, b, s: phase.begin(b, s), (0, None, 0)),
        "step": (phase.step, (None, 0, _EACH, _EACH)),
        "last": (last, (None, 0, _EACH, _EACH, 0)),
        "end": (lambda i, *rest: phase.end(*rest), (0, None, 0, 0, _EACH)),
    }
    return parts[part]


_MOST = 32  # steps that are captured as one graph; more of them take long to capture


def whole(lift: Callable[[str], Any], name: str) -> Whole:
    """Return the beginning and all steps of a phase together, named `PHASE.whole`."""
    phase = name.partition(".")[0]
    return Whole(lift(f"{phase}.begin"), lift(f"{phase}.step"))


def through(
    lift: Callable[[str], Any],
    name: str,
    phase: Phase,
    packing: trees.Packing,
    broadcast: Broadcast,
    rows: Tensor,
    valid: Batch,
    counts: Tensor,
    blocks: Iterable[tuple[int, Batch]],
) -> tuple[Reply, Tensor]:
    """Run a phase for a chunk of clients at once; return replies and new states.

    Args:
        lift: Function that lifts a client function, given its name. For the name
            `PHASE.whole`, it returns the result of `whole`.
        name: Name of the phase.
        phase: Functions of the phase.
        packing: Layout of a client's state as a row.
        broadcast: What the server sends, the same for all clients or one per client.
        rows: [c, width] states of the clients.
        valid: Validation data of the clients.
        counts: [c] number of steps of each client.
        blocks: Batches of several steps, with the number of the first step.
    """
    n, device = len(rows), broadcast.w.device
    index = torch.arange(n, device=device)
    state = packing.unpack(rows)
    if phase.prepare is not None:
        x, y, weight = lift(f"{name}.prepare").once(broadcast, valid)
        valid = valid._replace(x=x, y=y, weight=weight)

    carry = _carry(lift, name, (index, broadcast, state), valid, counts, blocks)
    reply, state = lift(f"{name}.end")(index, broadcast, carry, state, valid)
    reply, state = trees.kept(reply), trees.kept(state)
    return reply, packing.pack(state, n)


def _carry(
    lift: Callable[[str], Any],
    name: str,
    given: tuple[Tensor, Broadcast, Any],
    valid: Batch,
    counts: Tensor,
    blocks: Iterable[tuple[int, Batch]],
) -> Any:
    """Return the carry of all clients after their steps (see `through`)."""
    begin, step, broadcast = lift(f"{name}.begin"), lift(f"{name}.step"), given[1]
    ahead, most, carry = int(counts.min()), int(counts.max()), None
    for first, block in blocks:
        steps = len(block.t)
        if steps == ahead == most <= _MOST and step.captures(broadcast.w):
            together = lift(f"{name}.whole")
            if together.takes(*given, block, valid):
                return together(*given, block, valid)
        carry = begin(*given) if carry is None else carry
        if first == 0 and not vmap.captures(broadcast.w):
            carry = trees.mapped(Tensor.clone, carry)  # captured steps use copies
        for t in range(first, first + steps):
            batch = block.at(t - first)
            if t < ahead:
                carry = step(broadcast, carry, batch, valid)
            else:
                active = (counts > t).to(broadcast.w.device)
                carry = lift(f"{name}.last")(broadcast, carry, batch, valid, active)
    return begin(*given) if carry is None else carry


def spread(one: Callable[[int, int], Any], n: int, workers: int) -> list[Any]:
    """Return `one(worker, k)` for k = 0 … n − 1, computed on several threads.

    Each worker is one thread, so that objects of a worker need no locks. In each
    thread, torch uses one core.
    """
    workers = min(workers, n)
    if workers <= 1:
        return [one(0, k) for k in range(n)]

    def share(worker: int) -> list[Any]:
        with torch.no_grad():
            return [one(worker, k) for k in range(worker, n, workers)]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers) as pool:
            shares = list(pool.map(share, range(workers)))
    finally:
        torch.set_num_threads(before)
    return [shares[k % workers][k // workers] for k in range(n)]


class Plan(NamedTuple):
    """How clients are batched and computed; a resumed run uses the same plan."""

    how: str  # loop, vmap, compiled or threads
    chunk: int  # number of clients that are computed together
    workers: int = 1  # number of threads, which compute different clients
    threads: int = 0  # number of threads of a torch operation; 0 means the default

    @property
    def apart(self) -> bool:
        """Whether clients are computed one by one."""
        return self.how in ("loop", "threads")


class _Work(NamedTuple):
    """A phase, and the clients for which it is computed."""

    name: str  # `local` or `finish`
    broadcast: Broadcast
    rows: Tensor  # [c, width] states of the clients
    ids: np.ndarray  # [c]
    round_: int
    counts: Tensor  # [c] number of steps of each client


class Engine:
    """Computes phases for any number of clients, according to a plan."""

    scores: Sequence[Any] = ()  # further scores of every evaluation
    step_seconds: float | None = None  # of one client; `None`: not measured

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
        kernels.ready(w0)  # tries a kernel, which would fail within a trace
        self.ways = remaining(objective.obstacles)  # plans that the network allows
        self.objective, self._make, self.precision = objective, make_client, precision
        self.feed, self.device = feed, w0.device
        self.task = tasks.functional(objective, precision)
        self.client = make_client(self.task)
        together = self.device.type == "cuda"
        self._together_task = tasks.functional(objective, precision, together)
        self._together_client = make_client(self._together_task)
        self.packing = trees.Packing(self.client.init(w0))
        self._lifted: dict[tuple[str, str, bool], Lifted | Whole] = {}
        self._ahead: tuple[Any, Drawn] | None = None  # what was drawn ahead
        self._own: list[tuple[Client, Task]] = []  # a client and a task of each thread
        self.use(plan)

    def use(self, plan: Plan) -> None:
        """Use this plan from now on.

        If the network does not support the plan, use `loop`. The traces of other plans
        are kept on a CPU, and deleted on a GPU, where they take memory.
        """
        if plan.how not in self.ways:
            plan = Plan("loop", 1, threads=plan.threads)
        self.plan = plan
        if self.device.type != "cpu":
            self._lifted.clear()
        self._clients, self._tasks = [self.client], [self.task]
        if plan.how == "threads":
            while len(self._own) < plan.workers:
                task = tasks.in_place(self.objective, self.precision)
                self._own.append((self._make(task), task))
            clients, own = zip(*self._own[: plan.workers], strict=True)
            self._clients, self._tasks = [*clients], [*own]

    def products(self) -> AbstractContextManager[None]:
        """Within the block, compute matrix products in the engine's precision."""
        return digits.products(self.precision, self.device)

    def start(self, w0: Tensor) -> Tensor:
        """Return the state [width] of a client that never took part."""
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
        """Compute a phase for some clients; if memory runs out, halve the chunks.

        Args:
            name: Name of the phase: `local` or `finish`.
            broadcast: Message of the server.
            rows: [c, width] states of the clients.
            ids: [c] ids of the clients.
            round_: Number of the round.
            limit: Largest number of steps, one for all clients or one per client; None
                means no limit.

        Returns:
            The messages of the clients and their new states.
        """
        _, counts = self.steps(name, ids, limit)
        work = _Work(name, broadcast, rows, ids, round_, counts)
        while True:
            try:
                with self.products():
                    reply, made = self._run(work)
                return self.messages(reply, ids), made
            except (RuntimeError, MemoryError) as error:
                if not devices.exhausted(error) or self.plan.chunk == 1:
                    raise
                self.use(self.plan._replace(chunk=(self.plan.chunk + 1) // 2))

    def messages(self, reply: Reply, ids: np.ndarray) -> Messages:
        """Return the clients' messages: their replies, numbers of examples and ids."""
        clients = devices.sent(torch.from_numpy(ids), self.device)
        size = self.feed.data.train.size[clients]
        loss = torch.full((len(ids),), torch.nan, device=self.device)
        return Messages(reply.update, reply.extra, loss, size, clients)

    def _run(self, work: _Work) -> tuple[Reply, Tensor]:
        n, chunk = len(work.ids), self.plan.chunk
        while chunk > 1 and (chunk + 1) // 2 >= n:  # equal sizes: one trace
            chunk = (chunk + 1) // 2

        def some(worker: int, k: int) -> tuple[Reply, Tensor]:
            keep = min(chunk, n - k * chunk)
            part: Any = slice(k * chunk, (k + 1) * chunk)
            if keep < chunk:  # a short last chunk is padded
                part = np.arange(k * chunk, part.stop).clip(max=n - 1)
            own = work._replace(rows=work.rows[part], ids=work.ids[part])
            own = own._replace(counts=work.counts[part])
            if self.plan.apart:
                return self._alone(own, worker)
            reply, made = self._together(own)
            return Reply(*(f[:keep] for f in reply)), made[:keep]

        pieces = -(-n // chunk)
        out: list[tuple[Reply, Tensor]] = spread(some, pieces, self.plan.workers)
        if len(out) == 1 and not self.plan.apart:
            return out[0]
        replies, states = zip(*out, strict=True)
        whole = Reply(*(torch.cat(field) for field in zip(*replies, strict=True)))
        return whole, torch.cat(states)

    def steps(
        self, name: str, ids: np.ndarray, limit: int | np.ndarray | None
    ) -> tuple[Phase, Tensor]:
        """Return a phase by its name, and the number of steps of each client."""
        phase: Phase = getattr(self.client, name)
        counts = self.feed.steps(phase)[torch.from_numpy(ids)]
        most = counts if limit is None else counts.minimum(torch.as_tensor(limit))
        return phase, most

    def _together(self, work: _Work) -> tuple[Reply, Tensor]:
        """Run the phase for one lifted chunk of clients."""
        phase: Phase = getattr(self.client, work.name)
        valid = self.valid(phase, work.ids, few_shapes=True)
        drawn = self.drawn(phase, work.ids, work.round_, int(work.counts.max()))
        given = work.broadcast, work.rows, valid, work.counts, self.feed.blocks(drawn)
        return through(self._lift, work.name, phase, self.packing, *given)

    def _alone(self, work: _Work, worker: int) -> tuple[Reply, Tensor]:
        """Compute the phase for one client, with the functions of one thread."""
        phase: Phase = getattr(self._clients[worker], work.name)
        broadcast = work.broadcast
        state = trees.first(self.packing.unpack(work.rows))
        valid = trees.first(self.valid(phase, work.ids))
        valid = phase.prepare(broadcast, valid) if phase.prepare else valid
        carry = phase.begin(broadcast, state)
        drawn = self.drawn(phase, work.ids, work.round_, int(work.counts[0]))
        for _, batch in self.feed.gathered(drawn):
            carry = phase.step(broadcast, carry, trees.first(batch), valid)
        reply, state = phase.end(broadcast, carry, state, valid)
        return Reply(*(field[None] for field in reply)), self.packing.pack(state, 1)

    def drawn(self, phase: Phase, ids: np.ndarray, round_: int, steps: int) -> Drawn:
        """Draw the batches that these clients train on in a phase."""
        alone = self.plan.apart and not phase.by_group  # one client needs no padding
        what = ids.tobytes(), steps, round_, phase.by_group, alone
        before, self._ahead = self._ahead, None
        if before is not None and before[0] == what:
            return before[1]
        return self.feed.drawn(ids, *what[1:])

    def draw_ahead(
        self, name: str, ids: np.ndarray, round_: int, limit: int | np.ndarray | None
    ) -> None:
        """Draw the batches of the next run of a phase, while a GPU is still busy.

        The arguments are those of `run`. If the clients are run in several chunks,
        nothing is drawn.
        """
        if self.plan.chunk < max(2, len(ids)):
            return
        phase, counts = self.steps(name, ids, limit)
        steps = int(counts.max())
        what = ids.tobytes(), steps, round_, phase.by_group, False
        self._ahead = what, self.drawn(phase, ids, round_, steps)

    def valid(self, phase: Phase, ids: np.ndarray, few_shapes: bool = False) -> Batch:
        """Return validation data if the phase uses them, else empty batches."""
        if not phase.valid:
            return self.feed.nothing(len(ids))
        return self.feed.whole(ids, self.feed.data.valid, few_shapes)

    def function(self, name: str, alone: bool = False) -> Liftable:
        """Return a function of one client and the client axes of its arguments.

        If `alone`, it is the version for chunks of one client.
        """
        client = self.client if alone else self._together_client
        return function(client, self._together_task, name)

    def _lift(self, name: str) -> Any:
        """Lift a client function once and keep the result (see `through`)."""
        alone = "." in name and self.plan.chunk == 1
        key = name, self.plan.how, alone
        if key not in self._lifted and name.endswith(".whole"):
            self._lifted[key] = whole(self._lift, name)
        elif key not in self._lifted:
            own = name.endswith(".step")  # a step may overwrite its carry, a copy
            function, dims = self.function(name, alone)
            self._lifted[key] = Lifted(function, dims, self.plan.how, own, alone)
        return self._lifted[key]

    @torch.no_grad()
    def models(self, w: Tensor, rows: Tensor) -> Tensor:
        """Return the parameters [c, d] with which clients predict."""
        if self.packing.width == 0:
            return w.expand(len(rows), -1)
        index = torch.arange(len(rows), device=self.device)
        return self._lift("model").once(index, w, self.packing.unpack(rows))  # type: ignore[no-any-return]

    @torch.no_grad()
    def settled(self, rows: Tensor, ids: np.ndarray) -> Tensor:
        """Return the states [c, width] after choices by validation data.

        Some personalizers make such a choice whenever the personal model is used, for
        example of λ in `ditto`.
        """
        settle, valid = self.client.settle, self.feed.data.valid
        if settle is None:
            return rows
        with self.products():
            if not self.plan.apart:
                state, whole = self.packing.unpack(rows), self.feed.whole
                given = torch.arange(len(rows), device=self.device), state
                batch = whole(ids, valid, few_shapes=True)
                state = trees.kept(self._lift("settle").once(*given, batch))
                return self.packing.pack(state, len(rows))
            decided = []
            for k in range(len(rows)):
                state = trees.first(self.packing.unpack(rows[k : k + 1]))
                batch = trees.first(self.feed.whole(ids[k : k + 1], valid))
                decided.append(self.packing.pack(settle(state, batch), 1))
            return torch.cat(decided)

    @torch.no_grad()
    def told(self, rows: Tensor) -> Tensor:
        """Return the values that the personalizer adds to `clients.csv`, [c, columns].

        They are computed on the host, because some devices do not have float64.
        """
        index, state = torch.arange(len(rows)), self.packing.unpack(rows.cpu())
        return self._lift("tell").once(index, state)  # type: ignore[no-any-return]

    @torch.no_grad()
    def predict(self, models: Tensor, x: Tensor) -> Tensor:
        """Return the outputs [c, b, k] of each client's model on its examples."""

        def one(worker: int, k: int) -> Tensor:
            return self._tasks[worker].predict(models[k], x[k])

        with self.products():
            if not self.plan.apart:
                return self._lift("predict").once(models, x)  # type: ignore[no-any-return]
            return torch.stack(spread(one, len(models), self.plan.workers))
