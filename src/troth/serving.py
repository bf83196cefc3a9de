"""The server's half of a round: what becomes of the messages, and of the shared model.

A simulation and a deployment call the same `serve`. Nothing that clients send stops it:
where no message is left, a rule's condition is broken or the step is no number, w stays
as it is, and what is given back says why.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from troth import numerics, seeding, tails
from troth.rules import Rule, no_memory
from troth.types import Broadcast, Messages, Refusal
from troth.verdicts import Verdicts, behind


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


class Served(NamedTuple):
    """What the server made of a round's messages."""

    broadcast: Broadcast  # what the next round starts from
    messages: Messages  # what reached the aggregator
    dropped: dict[str, list[int]]  # filter → clients it removed
    verdicts: dict[str, list[int]]  # clipped, chosen, downweighted → clients
    moved: float  # ‖w⁺ − w‖
    cosine: float  # of the mean hostile to the mean benign update; nan: not known
    why: str  # w stayed for this reason; empty: it did not stay


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
        seen = tails.cut_broadcast(broadcast, self.tail)
        sent = tails.cut(messages, self.tail)
        if hostile is not None and len(sent.client):
            with contextlib.suppress(Refusal):  # who cannot attack sends what it has
                sent = self.attacked(seen, sent, hostile, round_)
        verdicts, memories = Verdicts(), dict(self.memories)
        self.aggregated = None
        left, dropped, finite = sent, dict[str, list[int]](), False
        moved, why, after = 0.0, NOBODY, broadcast
        try:
            left, dropped = self._filtered(seen, sent, round_, verdicts)
            finite = self._drops_invalid and len(left.client) == len(sent.client)
            if len(left.client):
                stepped = self._stepped(seen, left, round_, verdicts)
                after = tails.join(stepped, self.tail)
                moved, why = self._moved(broadcast, after)
        except Refusal as refusal:
            why = str(refusal)
        if why:
            moved, self.memories, after = 0.0, memories, broadcast
        angle = math.nan
        if hostile is not None and len(sent.client):
            angle = cosine(sent, hostile, finite)
        said = {name: sorted(who) for name, who in verdicts.clients.items()}
        return Served(after, left, dropped, said, moved, angle, why)

    def _moved(self, before: Broadcast, after: Broadcast) -> tuple[float, str]:
        """‖w⁺ − w‖ without running statistics; and why it may not be taken."""
        head = before.w.shape[0] - self.tail
        parts = (*(after.w - before.w).tensor_split([head]), after.extra)
        every = [_length(part) for part in (parts[0], *filter(len, parts[1:]))]
        moved, *rest = torch.stack(every).tolist()  # at once: a device is waited for
        return moved, "" if math.isfinite(moved + sum(rest)) else INFINITE

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
            return step if math.isfinite(length(step)) else nothing
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
        self, broadcast: Broadcast, messages: Messages, round_: int, verdicts: Verdicts
    ) -> tuple[Messages, dict[str, list[int]]]:
        """Through all filters; says which clients each of them removed."""
        dropped: dict[str, list[int]] = {}
        for i, rule in enumerate(self.rules.filters):
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
                ("extra", "statistics"), tails.apart(messages, self.tail), strict=True
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


def cosine(messages: Messages, hostile: Tensor, all_finite: bool = False) -> float:
    """Of the angle between the mean hostile and the mean benign update.

    Of rows that are numbers; nan where there are none of either kind.

    Args:
        messages: of the round.
        hostile: [n] which rows an adversary controls.
        all_finite: all rows are known to be numbers.
    """
    rows = messages.update
    finite = None if all_finite else numerics.finite(rows)
    if finite is not None and not bool(finite.all()):
        rows, hostile = rows[finite], hostile[finite]
    weight = torch.stack([hostile, ~hostile]).to(rows)
    a, b = (weight / weight.sum(dim=1, keepdim=True)) @ rows  # nan: of none
    inner = a.to(numerics.widest(a)) @ b.to(numerics.widest(b))
    product, *lengths = torch.stack([inner, _length(a), _length(b)]).tolist()
    both = math.prod(lengths)
    return float(product / both) if both else math.nan


def length(vector: Tensor) -> float:
    """‖vector‖, finite exactly where all of it is (hence in double precision)."""
    return float(_length(vector))


def _length(vector: Tensor) -> Tensor:
    return numerics.norms(vector[None])[0]
