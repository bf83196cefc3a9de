"""The loop over rounds, as a generator that yields a record of each round.

Progress, evaluation, checkpoints and early stopping are the work of the caller, between
two rounds.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import devices
from troth.engine.local_training import Engine
from troth.engine.population import Population
from troth.evaluation import evaluate
from troth.federation.sampling import Turnout, everyone
from troth.server.rules import Rules
from troth.server.server import Received, Served, Serving, served
from troth.types import Broadcast, Messages, Record


class Asked(NamedTuple):
    """A round that has begun: its cohort, the broadcast and the clients' states."""

    round: int
    cohort: np.ndarray
    turnout: Turnout
    broadcast: Broadcast
    rows: Tensor  # [c, width] states of the clients that answer


class Federation:
    """A federation: its shared model, its clients' states and its rules' memories."""

    def __init__(
        self,
        engine: Engine,
        population: Population,
        rules: Rules,
        w0: Tensor,  # [d] the first shared model
        *,
        rounds: int,
        sample: Callable[[int], np.ndarray],  # round → ids of the cohort
        scale: Callable[[int], float],  # round → factor of every learning rate
        hostile: np.ndarray,  # [n] mask of malicious clients
        seed: int,  # seed of the rules' random numbers
        turnout: Callable[[int, np.ndarray], Turnout] = everyone,
        newcomers: np.ndarray | None = None,  # ids of clients that join after training
    ) -> None:
        """Set up a federation before its first round."""
        self.engine, self.population = engine, population
        self.rounds, self.sample, self.scale = rounds, sample, scale
        self.turnout = turnout
        # Function (round, ids) that draws the poisoned data of these clients again.
        self.redraw: Callable[[int, np.ndarray], None] | None = None
        self._coming: tuple[int, np.ndarray, Turnout] | None = None  # a known round
        self.hostile, self.round = hostile, 0
        self.broadcast = first(engine, w0)
        nobody = np.zeros(0, dtype=np.int64)
        self.newcomers = nobody if newcomers is None else newcomers
        self.members = np.setdiff1d(np.arange(population.n), self.newcomers)
        tail, n = engine.task.tail, len(self.members)
        self.serving = Serving(rules, tail, seed, w0.device, n)

    def train(self) -> Iterator[Record]:
        """Run the remaining rounds; yield a record of each."""
        while self.round < self.rounds:
            yield self.step()

    @torch.no_grad()
    def step(self) -> Record:
        """Run one round and return its record."""
        asked = self.ask()
        ids, steps = asked.turnout.ids, asked.turnout.steps
        messages, rows = self.nobody(asked), asked.rows
        if len(ids):
            messages, rows = self.engine.run(
                "local", asked.broadcast, asked.rows, ids, asked.round, steps
            )
        received = self.receive(asked, self.with_losses(asked, messages), rows)
        self._draw_ahead()
        return self.take(asked, served([(self.serving, received)])[0])

    def _asked(self, r: int) -> tuple[np.ndarray, Turnout]:
        """Return the cohort of a round, and which of its clients answer."""
        if self._coming is None or self._coming[0] != r:
            cohort = self.sample(r)
            self._coming = r, cohort, self.turnout(r, cohort)
        return self._coming[1:]

    def _draw_ahead(self) -> None:
        """Draw the batches of the next round while a GPU still computes this one."""
        r = self.round + 1
        if self.engine.device.type == "cpu" or r >= self.rounds:
            return
        _, turnout = self._asked(r)
        if len(turnout.ids):
            self.engine.draw_ahead("local", turnout.ids, r, turnout.steps)

    @torch.no_grad()
    def ask(self) -> Asked:
        """Begin a round: choose its cohort, and read the states of its clients."""
        r = self.round
        cohort, turnout = self._asked(r)
        before = outgoing(self.engine, self.broadcast, self.scale(r), r)
        if len(turnout.ids) == 0:
            return Asked(r, cohort, turnout, before, before.w.new_zeros(0, 0))
        if self.redraw is not None:
            self.redraw(r, turnout.ids)
        rows = self.population.read(turnout.ids)
        if self.population.on_disk and r + 1 < self.rounds:
            self.population.prefetch(self._asked(r + 1)[1].ids)
        return Asked(r, cohort, turnout, before, rows)

    def with_losses(self, asked: Asked, messages: Messages) -> Messages:
        """Add each client's loss of the shared model if a rule needs losses."""
        if not self.serving.asks_loss or not len(asked.turnout.ids):
            return messages
        loss = losses(self.engine, asked.broadcast.w, asked.turnout.ids)
        return messages._replace(loss=loss)

    def nobody(self, asked: Asked) -> Messages:
        """Return the empty messages of a round in which no client answers."""
        w, extra = asked.broadcast.w, asked.broadcast.extra
        ids = torch.zeros(0, dtype=torch.long, device=w.device)
        return Messages(
            w.new_zeros(0, len(w)), extra.new_zeros(0, len(extra)), w[:0], ids, ids
        )

    @torch.no_grad()
    def receive(self, asked: Asked, messages: Messages, rows: Tensor) -> Received:
        """Store the clients' new states; begin the server's part of the round."""
        ids = asked.turnout.ids
        if len(ids):
            self.population.write(ids, rows)
        hostile: Tensor | None = None  # None if there are no malicious clients
        if self.serving.rules.attack is not None or self.hostile.any():
            mask = torch.from_numpy(self.hostile[ids])
            hostile = devices.sent(mask, messages.client.device)
        return self.serving.receive(asked.broadcast, messages, asked.round, hostile)

    def take(self, asked: Asked, result: Served) -> Record:
        """Finish a round with the server's result."""
        turnout = asked.turnout
        self.broadcast, self.round = result.broadcast, asked.round + 1
        return Record(asked.round, asked.cohort, turnout.absent, turnout.cut, *result)

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """Train all members after the last round, if the personalizer does so.

        At most `chunk` clients are trained at a time, with the full learning rate.
        Yield the number of clients of each finished chunk.
        """
        if self.engine.client.finish is None:
            return
        for ids, rows in self.population.each(self.groups(self.members, chunk)):
            sent = self.last(ids, rows).broadcast
            _, rows = self.engine.run("finish", sent, rows, ids, self.rounds)
            self.population.write(ids, rows)
            yield len(ids)

    def last(self, ids: np.ndarray, rows: Tensor) -> Asked:
        """Begin the training after the last round, for clients with these states."""
        if self.redraw is not None:
            self.redraw(self.rounds, ids)
        sent = outgoing(self.engine, self.broadcast, 1.0, self.rounds)
        return Asked(self.rounds, ids, everyone(self.rounds, ids), sent, rows)

    def groups(self, ids: np.ndarray, chunk: int) -> list[np.ndarray]:
        """Split clients into chunks of at most `chunk`, which are trained together.

        Chunks consist of clients with similar numbers of steps.
        """
        each = self.engine.feed.per_epoch.numpy()[ids]
        order = ids[np.argsort(each, kind="stable")]
        return [order[k : k + chunk] for k in range(0, len(order), chunk)]


def first(engine: Engine, w0: Tensor) -> Broadcast:
    """Return the first broadcast, with the initial shared model w0."""
    extra = w0.new_zeros(engine.client.extra)
    key = w0.new_zeros((), dtype=torch.long)
    return Broadcast(w0, extra, w0.new_ones(()), key)


def dumped(serving: Serving, broadcast: Broadcast) -> dict[str, Tensor]:
    """Return the server's tensors for a checkpoint: memories and broadcast."""
    memories = {f"memory.{k}": v for k, v in serving.memories.items()}
    return memories | {"w": broadcast.w, "extra": broadcast.extra}


def restored(
    serving: Serving, broadcast: Broadcast, tensors: Mapping[str, Tensor]
) -> Broadcast:
    """Restore the server's memories from a checkpoint; return the broadcast in it."""
    device = broadcast.w.device
    serving.memories = {k: tensors[f"memory.{k}"].to(device) for k in serving.memories}
    w, extra = tensors["w"].to(device), tensors["extra"].to(device)
    return broadcast._replace(w=w, extra=extra)


def outgoing(
    engine: Engine, broadcast: Broadcast, scale: float, round_: int
) -> Broadcast:
    """Return the broadcast of a round, with its learning rate factor and random key."""
    factor = torch.full_like(broadcast.scale, scale)
    return broadcast._replace(scale=factor, key=engine.feed.common(round_))


def answer(
    engine: Engine,
    broadcast: Broadcast,
    rows: Tensor,
    ids: np.ndarray,
    round_: int,
    loss: bool = False,
) -> tuple[Messages, Tensor]:
    """Train the clients of one site of a deployment for a round.

    Return their messages and new states. With `loss`, the messages also have the loss
    of the shared model on all training data of each client.
    """
    messages, rows = engine.run("local", broadcast, rows, ids, round_)
    if loss:
        messages = messages._replace(loss=losses(engine, broadcast.w, ids))
    return messages, rows


def losses(engine: Engine, w: Tensor, ids: np.ndarray) -> Tensor:
    """Return the loss of the shared model w on all training data of each client."""
    feed = engine.feed
    return evaluate.losses(engine, w, feed.data.train, *feed.places(ids)).to(w)
