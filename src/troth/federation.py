"""The round, written once: a generator of records.

Progress, evaluation, checkpoints and stopping early are the caller's `for` loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import evaluation, seeding, tails
from troth.availability import Turnout, everyone
from troth.engine import Engine
from troth.population import Population
from troth.rules import Rule, no_memory
from troth.types import Broadcast, Messages, Record


class Rules(NamedTuple):
    """What happens to messages in a round, in this order."""

    attack: Rule | None
    filters: tuple[Rule, ...]
    aggregator: Rule
    server: Rule
    statistics: Rule  # aggregates what batch normalisation keeps running


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
        """
        self.engine, self.population, self.rules = engine, population, rules
        self.tail = engine.task.tail
        self.rounds, self.sample, self.scale = rounds, sample, scale
        self.turnout = turnout
        self.hostile, self.seed, self.round = hostile, seed, 0
        extra = w0.new_zeros(engine.client.extra)
        self.broadcast = Broadcast(w0, extra, w0.new_ones(()))
        self.memories = {name: no_memory(w0.device) for name in self._named()}

    def _named(self) -> dict[str, Rule]:
        """Every rule under the name that its memory is kept by."""
        named = {f"filter{i}": rule for i, rule in enumerate(self.rules.filters)}
        named |= {"aggregator": self.rules.aggregator, "server": self.rules.server}
        named |= {"extra": self.rules.aggregator, "statistics": self.rules.statistics}
        return named | ({"attack": self.rules.attack} if self.rules.attack else {})

    @property
    def asks_loss(self) -> bool:
        """Whether some rule reads the clients' losses."""
        return any("loss" in rule.asks for rule in self._named().values())

    def train(self) -> Iterator[Record]:
        """Round after round, from wherever it stands."""
        while self.round < self.rounds:
            yield self.step()

    @torch.no_grad()
    def step(self) -> Record:
        """One round."""
        r = self.round
        cohort = self.sample(r)
        turnout = self.turnout(r, cohort)
        before = self.broadcast
        before = before._replace(scale=torch.full_like(before.scale, self.scale(r)))
        messages = self._sent(before, turnout)
        messages, tail = tails.cut(messages, self.tail), self.tail
        seen = tails.cut_broadcast(before, tail)
        messages, dropped = self._filtered(seen, self._attacked(seen, messages))
        memories = dict(self.memories)
        after = tails.join(self._stepped(seen, messages), tail)
        head = before.w.shape[0] - tail
        moved, rest = (_norm(s) for s in (after.w - before.w).tensor_split([head]))
        stayed = len(messages.client) == 0 or not math.isfinite(moved + rest)
        self.broadcast, self.round = before if stayed else after, r + 1
        if stayed:  # what was not taken is not remembered either
            moved, self.memories = 0.0, memories
        absent, cut = turnout.absent, turnout.cut
        return Record(
            r, self.broadcast, cohort, messages, dropped, moved, stayed, absent, cut
        )

    def _sent(self, broadcast: Broadcast, turnout: Turnout) -> Messages:
        """What the clients send that answer; nothing changes for the others."""
        ids, r, w = turnout.ids, self.round, broadcast.w
        if len(ids) == 0:
            nobody = torch.from_numpy(ids).to(w.device)
            none = [w.new_zeros(0, len(v)) for v in (w, broadcast.extra)]
            return Messages(none[0], none[1], w[:0], nobody, nobody)
        rows = self.population.read(ids)
        self._prefetch(r + 1)
        messages, rows = self.engine.run(
            "local", broadcast, rows, ids, r, turnout.steps
        )
        self.population.write(ids, rows)
        if self.asks_loss:
            messages = messages._replace(loss=self._losses(w, ids))
        return messages

    def _prefetch(self, r: int) -> None:
        """Have the states of those that come next read meanwhile."""
        if self.population.on_disk and r < self.rounds:
            self.population.prefetch(self.turnout(r, self.sample(r)).ids)

    def _losses(self, w: Tensor, cohort: np.ndarray) -> Tensor:
        """What each client would report: the loss of w on all its training data."""
        split = self.engine.feed.data.train
        table = evaluation.shared(self.engine, w, split, cohort)
        return torch.from_numpy(table["loss"]).to(w)

    def _apply(self, name: str, rule: Rule, broadcast: Broadcast, **more: Any) -> Any:
        """A rule with its memory and its own random key."""
        if "key" in rule.asks:
            client = torch.zeros((), dtype=torch.long, device=broadcast.w.device)
            more["key"] = seeding.keys(self.seed, name, self.round, client)
        result, memory = rule(
            self.memories[name], broadcast=broadcast, round_=self.round, **more
        )
        self.memories[name] = memory
        return result

    def _attacked(self, broadcast: Broadcast, messages: Messages) -> Messages:
        if self.rules.attack is None or len(messages.client) == 0:
            return messages
        hostile = self.hostile[messages.client.cpu().numpy()]
        attacked: Messages = self._apply(
            "attack",
            self.rules.attack,
            broadcast,
            messages=messages,
            hostile=torch.from_numpy(hostile).to(messages.client.device),
        )
        return attacked

    def _filtered(
        self, broadcast: Broadcast, messages: Messages
    ) -> tuple[Messages, dict[str, list[int]]]:
        """Through all filters; says which clients each of them removed."""
        dropped: dict[str, list[int]] = {}
        for i, rule in enumerate(self.rules.filters):
            before = messages.client
            if len(before) == 0:
                break
            messages = self._apply(
                f"filter{i}", rule, broadcast, messages=messages, loss=messages.loss
            )
            if len(messages.client) < len(before):
                left = set(messages.client.tolist())
                gone = [c for c in before.tolist() if c not in left]
                dropped[rule.name] = dropped.get(rule.name, []) + gone
        return messages, dropped

    def _stepped(self, broadcast: Broadcast, messages: Messages) -> Broadcast:
        """The next shared model; without a message, the same."""
        if len(messages.client) == 0:
            return broadcast
        rule, loss = self.rules.aggregator, messages.loss
        step = self._apply("aggregator", rule, broadcast, messages=messages, loss=loss)
        w = self._apply("server", self.rules.server, broadcast, step=step)
        beside = broadcast.extra
        if beside.shape[0]:
            solver, layers = tails.apart(messages, self.tail)
            sent = [
                ("extra", rule, solver),
                ("statistics", self.rules.statistics, layers),
            ]
            parts = [
                self._apply(name, rule, broadcast, messages=part, loss=loss)
                for name, rule, part in sent
                if part.update.shape[1]
            ]
            beside = beside + torch.cat(parts)
        return broadcast._replace(w=w, extra=beside)

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """After the last round, once: fine-tuning and its kin, for all clients."""
        if self.engine.client.finish is None:
            return
        everyone = np.arange(self.population.n)
        groups = [everyone[k : k + chunk] for k in range(0, len(everyone), chunk)]
        for ids, rows in self.population.each(groups):
            _, rows = self.engine.run("finish", self.broadcast, rows, ids, self.rounds)
            self.population.write(ids, rows)
            yield len(ids)


def _norm(step: Tensor) -> float:
    """‖step‖, finite exactly where all of it is (hence in double precision)."""
    wide = torch.float64 if step.device.type != "mps" else torch.float32
    return float(torch.linalg.vector_norm(step, dtype=wide))
