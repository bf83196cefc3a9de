"""The server's part of a round: filter the messages, aggregate them, step the model.

A simulation and a deployment use the same functions. `Serving.serve` runs one round,
and `served` runs the rounds of several servers at once. No message from a client can
stop the server. If no message is left, if a rule's condition is broken, or if the step
is not finite, w is not changed, and the result says why.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from troth import lookup, numerics, seeding
from troth.server.rules import Rules, Verdicts, behind, no_memory
from troth.types import Broadcast, Messages, Refusal


class Served(NamedTuple):
    """The result of a round at the server."""

    broadcast: Broadcast  # shared model and extra of the next round
    messages: Messages  # those that reached the aggregator
    dropped: dict[str, list[int]]  # filter → clients that it removed
    verdicts: dict[str, list[int]]  # clipped, chosen, downweighted → clients
    moved: float  # ‖w⁺ − w‖
    cosine: float  # cosine of mean malicious and mean benign update; NaN: not known
    why: str  # why w was not changed; empty if the step was taken


class Received(NamedTuple):
    """The messages of a round, after the attack.

    The device may still be computing whether all of them are finite.
    """

    broadcast: Broadcast  # what was sent to the clients
    messages: Messages  # updates, with running statistics moved to `extra`
    round: int
    hostile: Tensor | None  # [n] mask of malicious clients; None: not known
    finite: Tensor  # [1] whether all messages are finite; [0]: the filters check


class Settled(NamedTuple):
    """A round that has ended, except for numbers to be read from the device."""

    lengths: Tensor  # output of `step_lengths`; [0] if there is no step
    angle: Tensor  # [3] output of `between`; [0] if not known
    close: Callable[[list[float], list[float]], Served]  # (lengths, angle) → result


def cut(messages: Messages, tail: int) -> Messages:
    """Move the running statistics at the end of each update to the end of `extra`."""
    if tail == 0:
        return messages
    update, end = messages.update[:, :-tail], messages.update[:, -tail:]
    return messages._replace(
        update=update, extra=torch.cat([messages.extra, end], dim=1)
    )


def cut_broadcast(broadcast: Broadcast, tail: int) -> Broadcast:
    """Move the running statistics at the end of w to the end of `extra`."""
    if tail == 0:
        return broadcast
    extra = torch.cat([broadcast.extra, broadcast.w[-tail:]])
    return broadcast._replace(w=broadcast.w[:-tail], extra=extra)


def join(broadcast: Broadcast, tail: int) -> Broadcast:
    """Move the running statistics back to the end of w; clamp variances at 0."""
    if tail == 0:
        return broadcast
    means, variances = broadcast.extra[-tail:].chunk(2)
    w = torch.cat([broadcast.w, means, variances.clamp(min=0)])
    return broadcast._replace(w=w, extra=broadcast.extra[:-tail])


def apart(messages: Messages, tail: int) -> tuple[Messages, Messages]:
    """Split `extra` into the solvers' part and the running statistics, as updates."""
    width = messages.extra.shape[1] - tail
    solver, layers = messages.extra[:, :width], messages.extra[:, width:]
    return messages._replace(update=solver), messages._replace(update=layers)


def length(vector: Tensor) -> Tensor:
    """Return ‖vector‖ in double precision; it is finite iff all entries are."""
    return numerics.norms(vector[None])[0]


def step_lengths(before: Broadcast, after: Broadcast, tail: int) -> Tensor:
    """Return ‖w⁺ − w‖, the same for the running statistics, and ‖extra‖."""
    parts = (*(after.w - before.w).tensor_split([len(before.w) - tail]), after.extra)
    some = (parts[0], *filter(len, parts[1:]))
    return torch.stack([length(part) for part in some])


def between(messages: Messages, hostile: Tensor, all_finite: bool) -> Tensor:
    """Return ⟨a, b⟩, ‖a‖ and ‖b‖ for the mean malicious update a and benign update b.

    The means are over finite updates; they are NaN if there are no such updates. This
    waits for the device unless all updates are known to be finite.
    """
    rows = messages.update
    if not all_finite and not bool((finite := numerics.finite(rows)).all()):
        rows, hostile = rows[finite], hostile[finite]
    weight = torch.stack([hostile, ~hostile]).to(rows)
    a, b = (weight / weight.sum(dim=1, keepdim=True)) @ rows
    inner = a.to(numerics.widest(a)) @ b.to(numerics.widest(b))
    return torch.stack([inner, length(a), length(b)])


def cosine(angle: list[float]) -> float:
    """Return the cosine similarity from the output of `between`; NaN if it is empty."""
    product, *lengths = angle or [math.nan]
    both = math.prod(lengths)
    return float(product / both) if both else math.nan


NOBODY, INFINITE = "no message was left", "the step is not finite"


class Serving:
    """A server: its rules and their memories.

    The last `tail` numbers of w are running statistics. The solvers' extra vectors
    (such as control variates) are averaged over all `clients`, and absent clients count
    as 0. If `clients` is 0, they are averaged over the clients present. If the first
    filter has a function `all_finite` in its module, the filter is skipped whenever
    that function returns true.
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
        self._named = rules.named()
        self.memories = {name: no_memory(device) for name in self._named}
        self.aggregated: Tensor | None = None  # the aggregator's last result
        first = [lookup.companion(f.function, "all_finite") for f in rules.filters[:1]]
        self._all_finite = first[0] if first else None

    @property
    def asks_loss(self) -> bool:
        """Whether a rule reads the clients' losses."""
        return any("loss" in rule.asks for rule in self._named.values())

    def serve(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        hostile: Tensor | None = None,
    ) -> Served:
        """Filter and aggregate the messages and step the model.

        If the step is not taken, the rules keep the memories that they had before.

        Args:
            broadcast: What was sent to the clients.
            messages: The clients' messages.
            round_: Number of the round.
            hostile: [n] mask of malicious clients; None: not known.
        """
        return served([(self, self.receive(broadcast, messages, round_, hostile))])[0]

    def receive(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        hostile: Tensor | None = None,
    ) -> Received:
        """Apply the attack, and start to compute whether all messages are finite."""
        seen = cut_broadcast(broadcast, self.tail)
        sent = cut(messages, self.tail)
        finite = broadcast.w.new_zeros(0, dtype=torch.bool)
        if len(sent.client):
            if hostile is not None:
                with contextlib.suppress(Refusal):  # refused: updates stay honest
                    sent = self.attacked(seen, sent, hostile, round_)
            if self._all_finite is not None:
                finite = self._all_finite(seen, sent)
        return Received(broadcast, sent, round_, hostile, finite)

    def settle(self, received: Received, finite: bool) -> Settled:
        """Filter, aggregate and step; wait for the device only if a rule needs it."""
        broadcast, sent, round_, hostile, _ = received
        seen = cut_broadcast(broadcast, self.tail)
        verdicts, memories = Verdicts(), self.memories
        self.memories, self.aggregated = dict(memories), None
        left, dropped = sent, dict[str, list[int]]()
        why, after, lengths = NOBODY, broadcast, broadcast.w.new_zeros(0)
        try:
            left, dropped = self._filtered(seen, sent, round_, verdicts, int(finite))
            if len(left.client):
                stepped = self._stepped(seen, left, round_, verdicts)
                after, why = join(stepped, self.tail), ""
                lengths = step_lengths(broadcast, after, self.tail)
        except Refusal as refusal:
            why = str(refusal)
        angle = broadcast.w.new_zeros(0)
        if hostile is not None and len(sent.client):
            angle = between(sent, hostile, finite)

        def close(lengths: list[float], angle: list[float]) -> Served:
            """Take the step if it is finite; otherwise keep the previous model."""
            finite = math.isfinite(sum(lengths))
            stays = why or ("" if finite else INFINITE)
            if stays:
                self.memories = memories
            clients = {name: sorted(who) for name, who in verdicts.clients().items()}
            new, moved = (broadcast, 0.0) if stays else (after, lengths[0])
            return Served(new, left, dropped, clients, moved, cosine(angle), stays)

        return Settled(lengths, angle, close)

    def attacked(
        self, broadcast: Broadcast, messages: Messages, hostile: Tensor, round_: int
    ) -> Messages:
        """Replace the updates of malicious clients by those of the attack.

        The attack may call `defence`, which applies the filters and the aggregator with
        their memories to trial messages.
        """
        strength = self.rules.strength
        if self.rules.attack is None or strength == 0:
            return messages
        defence = lambda tried: self._rehearsed(broadcast, tried, round_)  # noqa: E731
        given = {"messages": messages, "hostile": hostile, "defence": defence}
        sent: Messages = self._apply("attack", broadcast, round_, **given)
        if strength == 1:
            return sent
        partly = messages.update + strength * (sent.update - messages.update)
        update = torch.where(hostile[:, None], partly, sent.update)
        return sent._replace(update=update)

    def _rehearsed(
        self, broadcast: Broadcast, messages: Messages, round_: int
    ) -> Tensor:
        """Return how trial messages would change w; 0 if they would be refused."""
        before, nothing = dict(self.memories), torch.zeros_like(broadcast.w)
        try:
            messages, _ = self._filtered(broadcast, messages, round_, Verdicts())
            if len(messages.client) == 0:
                return nothing
            step = self._reading("aggregator", broadcast, messages, round_)
            return step if math.isfinite(float(length(step))) else nothing
        except Refusal:
            return nothing
        finally:
            self.memories = before

    def _apply(self, name: str, broadcast: Broadcast, round_: int, **more: Any) -> Any:
        """Apply a rule with its memory and its random key."""
        rule = self._named[name]
        if "key" in rule.asks:
            where = broadcast.w.device
            more["key"] = seeding.key(self.seed, name, round_, device=where)
        result, self.memories[name] = rule(
            self.memories[name], broadcast=broadcast, round_=round_, **more
        )
        return result

    def _reading(
        self, name: str, broadcast: Broadcast, sent: Messages, round_: int, **more: Any
    ) -> Any:
        """Apply a filter or an aggregator, which may read messages and losses."""
        return self._apply(
            name, broadcast, round_, messages=sent, loss=sent.loss, **more
        )

    def _filtered(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        verdicts: Verdicts,
        skip: int = 0,
    ) -> tuple[Messages, dict[str, list[int]]]:
        """Apply filters from number `skip` on; list the clients that each one drops."""
        dropped: dict[str, list[int]] = {}
        for i, rule in [*enumerate(self.rules.filters)][skip:]:
            before, within = messages.client, verdicts.within
            if len(before) == 0:
                break
            more = {"note": verdicts.of(before)}
            messages = self._reading(f"filter{i}", broadcast, messages, round_, **more)
            if len(messages.client) < len(before):
                left = behind(messages.client.tolist(), verdicts.within)
                gone = sorted(behind(before.tolist(), within) - left)
                if gone:
                    dropped[rule.name] = dropped.get(rule.name, []) + gone
        return messages, dropped

    def _stepped(
        self, broadcast: Broadcast, messages: Messages, round_: int, verdicts: Verdicts
    ) -> Broadcast:
        """Return the next shared model and the next extra."""
        note = verdicts.of(messages.client)
        step = self._reading("aggregator", broadcast, messages, round_, note=note)
        self.aggregated = step
        w = self._apply("server", broadcast, round_, step=step)
        extra = broadcast.extra
        if extra.shape[0]:
            present = len(behind(messages.client.tolist(), verdicts.within))
            counts = {"extra": present / (self.clients or present), "statistics": 1.0}
            steps = [
                counts[name] * self._reading(name, broadcast, part, round_)
                for name, part in zip(counts, apart(messages, self.tail), strict=True)
                if part.update.shape[1]
            ]
            extra = extra + torch.cat(steps)
        return broadcast._replace(w=w, extra=extra)


def served(every: Sequence[tuple[Serving, Received]]) -> list[Served]:
    """End the rounds of several servers, with two transfers from the device in all.

    The first transfer says which servers' messages are all finite; the second one
    brings the numbers of all results.
    """
    known = _read([received.finite for _, received in every])
    pairs = zip(every, known, strict=True)
    settled = [server.settle(got, any(finite)) for (server, got), finite in pairs]
    ends = _read([part for one in settled for part in one[:2]])
    closing = zip(settled, ends[::2], ends[1::2], strict=True)
    return [one.close(lengths, angle) for one, lengths, angle in closing]


def _read(every: Sequence[Tensor]) -> list[list[Any]]:
    """Return the numbers of several short tensors, with a single transfer."""
    ends = [0, *accumulate(map(len, every))]
    values = torch.cat([*every]).tolist() if every else []
    return [values[a:b] for a, b in pairwise(ends)]
