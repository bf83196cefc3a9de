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

from troth import evaluation, seeding
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
        """
        self.engine, self.population, self.rules = engine, population, rules
        self.rounds, self.sample, self.scale = rounds, sample, scale
        self.hostile, self.seed, self.round = hostile, seed, 0
        extra = w0.new_zeros(engine.client.extra)
        self.broadcast = Broadcast(w0, extra, w0.new_ones(()))
        self.memories = {name: no_memory(w0.device) for name in self._named()}

    def _named(self) -> dict[str, Rule]:
        """Every rule under the name that its memory is kept by."""
        named = {f"filter{i}": rule for i, rule in enumerate(self.rules.filters)}
        named |= {"aggregator": self.rules.aggregator, "server": self.rules.server}
        named |= {"extra": self.rules.aggregator}
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
        before = self.broadcast
        before = before._replace(scale=torch.full_like(before.scale, self.scale(r)))
        rows = self.population.read(cohort)
        messages, rows = self.engine.run("local", before, rows, cohort, r)
        self.population.write(cohort, rows)
        if self.asks_loss:
            messages = messages._replace(loss=self._losses(before.w, cohort))
        messages, dropped = self._filtered(before, self._attacked(before, messages))
        memories = dict(self.memories)
        after = self._stepped(before, messages)
        moved = _norm(after.w - before.w)
        stayed = len(messages.client) == 0 or not math.isfinite(moved)
        self.broadcast, self.round = before if stayed else after, r + 1
        if stayed:  # what was not taken is not remembered either
            moved, self.memories = 0.0, memories
        return Record(r, self.broadcast, cohort, messages, dropped, moved, stayed)

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
        if self.rules.attack is None:
            return messages
        hostile = torch.from_numpy(self.hostile).to(messages.client.device)
        attacked: Messages = self._apply(
            "attack",
            self.rules.attack,
            broadcast,
            messages=messages,
            hostile=hostile[messages.client],
        )
        return attacked

    def _filtered(
        self, broadcast: Broadcast, messages: Messages
    ) -> tuple[Messages, dict[str, list[int]]]:
        """Through all filters; says which clients each of them removed."""
        dropped: dict[str, list[int]] = {}
        for i, rule in enumerate(self.rules.filters):
            before = messages.client
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
        extra = broadcast.extra
        if extra.shape[0]:
            apart = messages._replace(update=messages.extra)
            extra = extra + self._apply(
                "extra", rule, broadcast, messages=apart, loss=loss
            )
        return broadcast._replace(w=w, extra=extra)

    @torch.no_grad()
    def finish(self, chunk: int) -> Iterator[int]:
        """After the last round, once: fine-tuning and its kin, for all clients."""
        if self.engine.client.finish is None:
            return
        for first in range(0, self.population.n, chunk):
            ids = np.arange(first, min(self.population.n, first + chunk))
            rows = self.population.read(ids)
            _, rows = self.engine.run("finish", self.broadcast, rows, ids, self.rounds)
            self.population.write(ids, rows)
            yield len(ids)


def _norm(step: Tensor) -> float:
    """‖step‖, finite exactly where all of it is (hence in double precision)."""
    wide = torch.float64 if step.device.type != "mps" else torch.float32
    return float(torch.linalg.vector_norm(step, dtype=wide))


def sampler(
    seed: int, n: int, cohort: int, size: np.ndarray | None
) -> Callable[[int], np.ndarray]:
    """Who is asked in a round: `cohort` of n clients, without replacement.

    Args:
        seed: the experiment's.
        n: clients.
        cohort: how many are asked; n asks all.
        size: None draws uniformly; else clients are drawn one after another in
            proportion to their sizes among those not yet drawn, as numpy's `choice`.
    """
    if cohort >= n:
        return lambda r: np.arange(n)
    if size is None:
        return lambda r: np.sort(seeding.choose(seed, "cohort", r, n, cohort))
    edges = np.cumsum(size.astype(np.float64))

    def by_size(r: int) -> np.ndarray:
        found: list[int] = []
        for i in range(0 if 2 * cohort > n else 8):
            key = seeding.keys(seed, "cohort", r, torch.tensor(i))
            u = seeding.uniform(key, 2 * cohort, torch.float64).numpy()
            found += np.searchsorted(edges, u * edges[-1], side="right").tolist()
            found = list(dict.fromkeys(found))[:cohort]  # drawn twice counts once
            if len(found) == cohort:
                return np.sort(np.array(found))
        # Many come twice: the rest by a race of exponentials, which is the same law.
        key = seeding.keys(seed, "cohort", r, torch.arange(n))
        u = seeding.uniform(key, 1, torch.float64)[:, 0].numpy()
        with np.errstate(divide="ignore"):
            times = -np.log(u) / size
        times[found] = -1.0
        return np.sort(np.argsort(times, kind="stable")[:cohort])

    return by_size
