"""The server's half of a round: what becomes of the messages, and of the shared model.

A simulation and a deployment go through the same steps: `serve` one round, `served` the
rounds of several servers at once. Nothing that clients send stops it:
where no message is left, a rule's condition is broken or the step is no number, w stays
as it is, and what is given back says why.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from troth import numerics, seeding
from troth.server.filters import drop_invalid
from troth.server.rules import Rule, no_memory
from troth.server.verdicts import Received, Served, Settled, Verdicts, behind
from troth.types import Broadcast, Messages, Refusal


def cut(messages: Messages, tail: int) -> Messages:
    """Updates without their tails; these stand at the end of `extra`."""
    if tail == 0:
        return messages
    update, end = messages.update[:, :-tail], messages.update[:, -tail:]
    return messages._replace(
        update=update, extra=torch.cat([messages.extra, end], dim=1)
    )


def cut_broadcast(broadcast: Broadcast, tail: int) -> Broadcast:
    """What the rules see of it: w without its tail, and an `extra` with it."""
    if tail == 0:
        return broadcast
    extra = torch.cat([broadcast.extra, broadcast.w[-tail:]])
    return broadcast._replace(w=broadcast.w[:-tail], extra=extra)


def join(broadcast: Broadcast, tail: int) -> Broadcast:
    """The tail back at the end of w, its variances at least 0."""
    if tail == 0:
        return broadcast
    means, variances = broadcast.extra[-tail:].chunk(2)
    w = torch.cat([broadcast.w, means, variances.clamp(min=0)])
    return broadcast._replace(w=w, extra=broadcast.extra[:-tail])


def apart(messages: Messages, tail: int) -> tuple[Messages, Messages]:
    """What solvers and what layers sent beside the update, each as an update."""
    width = messages.extra.shape[1] - tail
    solver, layers = messages.extra[:, :width], messages.extra[:, width:]
    return messages._replace(update=solver), messages._replace(update=layers)


def length(vector: Tensor) -> Tensor:
    """‖vector‖, finite exactly where all of it is (hence in double precision)."""
    return numerics.norms(vector[None])[0]


def step_lengths(before: Broadcast, after: Broadcast, tail: int) -> Tensor:
    """‖w⁺ − w‖ without running statistics; then of these, and of what is beside."""
    parts = (*(after.w - before.w).tensor_split([len(before.w) - tail]), after.extra)
    some = (parts[0], *filter(len, parts[1:]))
    return torch.stack([length(part) for part in some])


def between(messages: Messages, hostile: Tensor, all_finite: bool) -> Tensor:
    """Of the mean hostile and the mean benign update: [3] product and lengths.

    Of rows that are numbers; nan where there are none of either kind.

    Args:
        messages: of the round.
        hostile: [n] which rows an adversary controls.
        all_finite: all rows are known to be numbers; else a device is waited for.
    """
    rows = messages.update
    finite = None if all_finite else numerics.finite(rows)
    if finite is not None and not bool(finite.all()):
        rows, hostile = rows[finite], hostile[finite]
    weight = torch.stack([hostile, ~hostile]).to(rows)
    a, b = (weight / weight.sum(dim=1, keepdim=True)) @ rows
    inner = a.to(numerics.widest(a)) @ b.to(numerics.widest(b))
    return torch.stack([inner, length(a), length(b)])


def cosine(angle: list[float]) -> float:
    """Of what `between` gave; nan where it gave nothing."""
    product, *lengths = angle or [math.nan]
    both = math.prod(lengths)
    return float(product / both) if both else math.nan


class Rules(NamedTuple):
    """What happens to messages in a round, in this order."""

    attack: Rule | None
    filters: tuple[Rule, ...]
    aggregator: Rule
    server: Rule
    statistics: Rule  # aggregates what batch normalisation keeps running
    strength: float = 1.0  # of the attack: 0 leaves hostile rows as they were

    def named(self) -> dict[str, Rule]:
        """Every rule under the name that its memory is kept by."""
        named = {f"filter{i}": rule for i, rule in enumerate(self.filters)}
        named |= {"aggregator": self.aggregator, "server": self.server}
        named |= {"extra": self.aggregator, "statistics": self.statistics}
        return named | ({"attack": self.attack} if self.attack else {})


NOBODY, INFINITE = "no message was left", "the step is not finite"


class Serving:
    """Rules with their memories; `tail` numbers of w are running statistics.

    What solvers send beside their updates are changes whose mean over all `clients` is
    wanted, and those who are not heard have changed nothing. (0: all are heard.)
    """

    def __init__(
        self,
        rules: Rules,
        tail: int,
        seed: int,
        device: torch.device,
        clients: int = 0,
    ) -> None:
        self.rules, self.tail, self.seed, self.clients = rules, tail, seed, clients
        self.memories = {name: no_memory(device) for name in rules.named()}
        self.aggregated: Tensor | None = None  # the last step, as the server got it

    @property
    def _drops_invalid(self) -> bool:
        """Whether rows that are no numbers are dropped first, as they are in a run."""
        return any(rule.name == "drop_invalid" for rule in self.rules.filters[:1])

    @property
    def asks_loss(self) -> bool:
        """Whether some rule reads the clients' losses."""
        return any("loss" in rule.asks for rule in self.rules.named().values())

    def serve(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        hostile: Tensor | None = None,
    ) -> Served:
        """Filter, aggregate and step; what is not taken is not remembered either.

        Args:
            broadcast: what was sent to the clients.
            messages: their replies.
            round_: which one it is.
            hostile: [n] rows that an adversary controls; None: nobody knows.
        """
        return served([(self, self.receive(broadcast, messages, round_, hostile))])[0]

    def receive(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        hostile: Tensor | None,
    ) -> Received:
        """The first third of `serve`: the attack, and whether all rows are numbers."""
        seen = cut_broadcast(broadcast, self.tail)
        sent = cut(messages, self.tail)
        if hostile is not None and len(sent.client):
            with contextlib.suppress(Refusal):  # who cannot attack sends what it has
                sent = self.attacked(seen, sent, hostile, round_)
        finite = broadcast.w.new_zeros(0, dtype=torch.bool)
        whole = drop_invalid.matrices(sent, seen)
        if self._drops_invalid and len(sent.client) and whole:
            finite = drop_invalid.finite(sent).all()[None]
        return Received(broadcast, sent, round_, hostile, finite)

    def settle(self, received: Received, finite: bool) -> Settled:
        """The second: filters, aggregator and server.

        A device is waited for only where one of these does.

        Args:
            received: what `receive` gave.
            finite: all of its rows are known to be numbers.
        """
        broadcast, sent, round_, hostile, _ = received
        seen = cut_broadcast(broadcast, self.tail)
        verdicts, memories = Verdicts(), dict(self.memories)
        self.aggregated = None
        left, dropped = sent, dict[str, list[int]]()
        why, after, lengths = NOBODY, broadcast, broadcast.w.new_zeros(0)
        try:
            left, dropped = self._filtered(seen, sent, round_, verdicts, int(finite))
            if len(left.client):
                stepped = self._stepped(seen, left, round_, verdicts)
                after, why = join(stepped, self.tail), ""
                lengths = step_lengths(broadcast, after, self.tail)
        except Refusal as refusal:
            why, after = str(refusal), broadcast
        angle = broadcast.w.new_zeros(0)
        if hostile is not None and len(sent.client):
            angle = between(sent, hostile, finite)
        return Settled(
            broadcast, after, left, dropped, verdicts, memories, why, lengths, angle
        )

    def close(
        self, settled: Settled, lengths: list[float], angle: list[float]
    ) -> Served:
        """The last: whether the step is taken; with what lay on the device."""
        before, after, left, dropped, verdicts, memories, why, *_ = settled
        moved = lengths[0] if lengths else 0.0
        if not why and not math.isfinite(sum(lengths)):
            why = INFINITE
        if why:
            moved, self.memories, after = 0.0, memories, before
        said = {name: sorted(who) for name, who in verdicts.clients().items()}
        return Served(after, left, dropped, said, moved, cosine(angle), why)

    def attacked(
        self, broadcast: Broadcast, messages: Messages, hostile: Tensor, round_: int
    ) -> Messages:
        """What hostile clients send in place of what they computed.

        The adversary may rehearse the defence, with all that the server remembers.
        """
        rule, strength = self.rules.attack, self.rules.strength
        if rule is None or strength == 0:
            return messages
        sent: Messages = self._apply(
            "attack",
            rule,
            broadcast,
            round_,
            messages=messages,
            hostile=hostile,
            defence=lambda tried: self._rehearsed(broadcast, tried, round_),
        )
        if strength == 1:
            return sent
        partly = messages.update + strength * (sent.update - messages.update)
        update = torch.where(hostile[:, None], partly, sent.update)
        return sent._replace(update=update)

    def _rehearsed(
        self, broadcast: Broadcast, messages: Messages, round_: int
    ) -> Tensor:
        """What the aggregator would make of messages; 0 where w would stay."""
        before, nothing = dict(self.memories), torch.zeros_like(broadcast.w)
        try:
            messages, _ = self._filtered(broadcast, messages, round_, Verdicts())
            if len(messages.client) == 0:
                return nothing
            step = self._aggregated("aggregator", broadcast, messages, round_)
            return step if math.isfinite(float(length(step))) else nothing
        except Refusal:
            return nothing
        finally:
            self.memories = before

    def _apply(
        self, name: str, rule: Rule, broadcast: Broadcast, round_: int, **more: Any
    ) -> Any:
        """A rule with its memory and its own random key."""
        if "key" in rule.asks:
            where = broadcast.w.device
            more["key"] = seeding.key(self.seed, name, round_, device=where)
        result, self.memories[name] = rule(
            self.memories[name], broadcast=broadcast, round_=round_, **more
        )
        return result

    def _filtered(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        verdicts: Verdicts,
        skip: int = 0,
    ) -> tuple[Messages, dict[str, list[int]]]:
        """Through all filters but the first few; says whom each of them removed."""
        dropped: dict[str, list[int]] = {}
        for i, rule in [*enumerate(self.rules.filters)][skip:]:
            before, within = messages.client, verdicts.within
            if len(before) == 0:
                break
            more = {"loss": messages.loss, "note": verdicts.of(before)}
            messages = self._apply(
                f"filter{i}", rule, broadcast, round_, messages=messages, **more
            )
            if len(messages.client) < len(before):
                left = verdicts.behind(messages.client.tolist())
                gone = sorted(behind(before.tolist(), within) - left)
                if gone:
                    dropped[rule.name] = dropped.get(rule.name, []) + gone
        return messages, dropped

    def _aggregated(
        self,
        name: str,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        **more: Any,
    ) -> Tensor:
        rule = self.rules.statistics if name == "statistics" else self.rules.aggregator
        step: Tensor = self._apply(
            name, rule, broadcast, round_, messages=messages, loss=messages.loss, **more
        )
        return step

    def _stepped(
        self, broadcast: Broadcast, messages: Messages, round_: int, verdicts: Verdicts
    ) -> Broadcast:
        """The next shared model, and what travels beside it."""
        note = verdicts.of(messages.client)
        step = self._aggregated("aggregator", broadcast, messages, round_, note=note)
        self.aggregated = step
        w = self._apply("server", self.rules.server, broadcast, round_, step=step)
        extra = broadcast.extra
        if extra.shape[0]:
            parts = zip(
                ("extra", "statistics"), apart(messages, self.tail), strict=True
            )
            heard = len(verdicts.behind(messages.client.tolist()))
            counts = {"extra": heard / (self.clients or heard), "statistics": 1.0}
            steps = [
                counts[name] * self._aggregated(name, broadcast, part, round_)
                for name, part in parts
                if part.update.shape[1]
            ]
            extra = extra + torch.cat(steps)
        return broadcast._replace(w=w, extra=extra)


def served(every: Sequence[tuple[Serving, Received]]) -> list[Served]:
    """The rounds of several servers end, and wait for a device together.

    Once for whether rows are numbers, once for how the rounds ended; beside these wait
    only rules that have to, and who asks what rules noted.
    """
    known = _read([received.finite for _, received in every])
    settled = [
        serving.settle(received, any(finite))
        for (serving, received), finite in zip(every, known, strict=True)
    ]
    ends = _read([part for one in settled for part in (one.lengths, one.angle)])
    return [
        serving.close(settled[k], ends[2 * k], ends[2 * k + 1])
        for k, (serving, _) in enumerate(every)
    ]


def _read(every: Sequence[Tensor]) -> list[list[Any]]:
    """The numbers of several short tensors, at once."""
    ends = [0, *accumulate(map(len, every))]
    values = torch.cat([*every]).tolist() if every else []
    return [values[a:b] for a, b in pairwise(ends)]
