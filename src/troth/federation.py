"""The round, written once: a generator of records.

Progress, evaluation, checkpoints and stopping early are the caller's `for` loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import evaluation
from troth.availability import Turnout, everyone
from troth.engine import Engine
from troth.population import Population
from troth.serving import Rules, Serving
from troth.types import Broadcast, Messages, Record


class Asked(NamedTuple):
    """A round that has begun: who was asked, and what they work with."""

    round: int
    cohort: np.ndarray
    turnout: Turnout
    broadcast: Broadcast
    rows: Tensor  # [c, width] the states of those that answer


class Federation:
    """All that a federation is at one moment: a shared model, states, memories."""

    def __init__(
        self,
        engine: Engine,
        population: Population,
        rules: Rules,
        w0: Tensor,
        *,
        rounds: int,
        sample: Callable[[int], np.ndarray],
        scale: Callable[[int], float],
        hostile: np.ndarray,
        seed: int,
        turnout: Callable[[int, np.ndarray], Turnout] = everyone,
        newcomers: np.ndarray | None = None,
    ) -> None:
        """A federation before its first round.

        Args:
            engine: steps the clients.
            population: keeps their states.
            rules: attack, filters, aggregator and server.
            w0: [d] the first shared model.
            rounds: how many there will be.
            sample: round → ids of the clients asked.
            scale: round → factor on every learning rate.
            hostile: [n] which clients an adversary controls.
            seed: keys the rules' randomness.
            turnout: round, ids asked → what becomes of them.
            newcomers: ids of clients that take no part, and get models at the end.
        """
        self.engine, self.population = engine, population
        self.rounds, self.sample, self.scale = rounds, sample, scale
        self.turnout = turnout
        self.redraw: Callable[[int, np.ndarray], None] | None = None  # of poisoned data
        self.hostile, self.round = hostile, 0
        extra = w0.new_zeros(engine.client.extra)
        key = w0.new_zeros((), dtype=torch.long)
        self.broadcast = Broadcast(w0, extra, w0.new_ones(()), key)
        nobody = np.zeros(0, dtype=np.int64)
        self.newcomers = nobody if newcomers is None else newcomers
        self.members = np.setdiff1d(np.arange(population.n), self.newcomers)
        tail, n = engine.task.tail, len(self.members)
        self.serving = Serving(rules, tail, seed, w0.device, n)

    def train(self) -> Iterator[Record]:
        """Round after round, from wherever it stands."""
        while self.round < self.rounds:
            yield self.step()

    @torch.no_grad()
    def step(self) -> Record:
        """One round."""
        asked = self.ask()
        ids, steps = asked.turnout.ids, asked.turnout.steps
        if len(ids) == 0:
            return self.take(asked, self._nothing(asked.broadcast, ids), asked.rows)
        found = self.engine.run(
            "local", asked.broadcast, asked.rows, ids, asked.round, steps
        )
        return self.take(asked, *found)

    @torch.no_grad()
    def ask(self) -> Asked:
        """Begin a round: what its clients are to work with."""
        r = self.round
        cohort = self.sample(r)
        turnout = self.turnout(r, cohort)
        before = outgoing(self.engine, self.broadcast, self.scale(r), r)
        if len(turnout.ids) == 0:
            return Asked(r, cohort, turnout, before, before.w.new_zeros(0, 0))
        if self.redraw is not None:
            self.redraw(r, turnout.ids)
        rows = self.population.read(turnout.ids)
        self._prefetch(r + 1)
        return Asked(r, cohort, turnout, before, rows)

    @torch.no_grad()
    def take(self, asked: Asked, messages: Messages, rows: Tensor) -> Record:
        """End a round with what its clients sent and the states that they are left in.

        Nothing changes for clients that did not answer.
        """
        before, turnout = asked.broadcast, asked.turnout
        if len(turnout.ids):
            self.population.write(turnout.ids, rows)
            if self.serving.asks_loss:
                loss = losses(self.engine, before.w, turnout.ids)
                messages = messages._replace(loss=loss)
        hostile = self._hostile(messages)
        served = self.serving.serve(before, messages, asked.round, hostile)
        self.broadcast, self.round = served.broadcast, asked.round + 1
        return Record(asked.round, asked.cohort, turnout.absent, turnout.cut, *served)

    def _nothing(self, broadcast: Broadcast, ids: np.ndarray) -> Messages:
        """What is sent where nobody answers."""
        w = broadcast.w
        nobody = torch.from_numpy(ids).to(w.device)
        none = [w.new_zeros(0, len(v)) for v in (w, broadcast.extra)]
        return Messages(none[0], none[1], w[:0], nobody, nobody)

    def _hostile(self, messages: Messages) -> Tensor | None:
        """Which rows an adversary controls; None where there is neither."""
        if self.serving.rules.attack is None and not self.hostile.any():
            return None
        rows = self.hostile[messages.client.cpu().numpy()]
        return torch.from_numpy(rows).to(messages.client.device)

    def _prefetch(self, r: int) -> None:
        """Have the states of those that come next read meanwhile."""
        if self.population.on_disk and r < self.rounds:
            self.population.prefetch(self.turnout(r, self.sample(r)).ids)

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """After the last round, once: fine-tuning and its kin, for all members.

        The schedule is that of the rounds; learning rates are the whole ones here.

        Args:
            chunk: how many at a time.

        Yields:
            How many are done with each time.
        """
        if self.engine.client.finish is None:
            return
        broadcast = outgoing(self.engine, self.broadcast, 1.0, self.rounds)
        for ids, rows in self.population.each(self.groups(self.members, chunk)):
            if self.redraw is not None:
                self.redraw(self.rounds, ids)
            _, rows = self.engine.run("finish", broadcast, rows, ids, self.rounds)
            self.population.write(ids, rows)
            yield len(ids)

    def last(self, ids: np.ndarray) -> Asked:
        """What some clients are to work with after the last round."""
        if self.redraw is not None:
            self.redraw(self.rounds, ids)
        turnout = everyone(self.rounds, ids)
        rows = self.population.read(ids)
        sent = outgoing(self.engine, self.broadcast, 1.0, self.rounds)
        return Asked(self.rounds, ids, turnout, sent, rows)

    def groups(self, ids: np.ndarray, chunk: int) -> list[np.ndarray]:
        """Clients, so many at a time.

        Those with about as much to do together: a chunk waits for its longest.
        """
        each = self.engine.feed.per_epoch.numpy()[ids]
        order = ids[np.argsort(each, kind="stable")]
        return [order[k : k + chunk] for k in range(0, len(order), chunk)]


def outgoing(
    engine: Engine, broadcast: Broadcast, scale: float, round_: int
) -> Broadcast:
    """What a round begins with: w, its learning rates and its common draws."""
    factor = torch.full_like(broadcast.scale, scale)
    return broadcast._replace(scale=factor, key=engine.feed.common(round_))


def answer(
    engine: Engine,
    broadcast: Broadcast,
    rows: Tensor,
    ids: np.ndarray,
    round_: int,
    limit: int | np.ndarray | None = None,
    loss: bool = False,
) -> tuple[Messages, Tensor]:
    """What clients send in a round, and their states after it.

    Args:
        engine: steps them.
        broadcast: what the server sent.
        rows: [c, width] their states before.
        ids: [c] who they are.
        round_: it keys their batches.
        limit: at most so many steps, for all or for each of them.
        loss: whether they also tell the loss of w on all their training data.
    """
    messages, rows = engine.run("local", broadcast, rows, ids, round_, limit)
    if loss:
        messages = messages._replace(loss=losses(engine, broadcast.w, ids))
    return messages, rows


def losses(engine: Engine, w: Tensor, ids: np.ndarray) -> Tensor:
    """What clients would report: the loss of w on all their training data."""
    table = evaluation.shared(engine, w, engine.feed.data.train, ids)
    return torch.from_numpy(table["loss"]).to(w)
