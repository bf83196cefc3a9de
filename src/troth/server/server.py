"""The server's part of a round: filter and aggregate messages, update the shared model.

Simulation and deployment use the same functions. `Serving.serve` computes a round of
one server, and `served` a round of several servers at once. No message from a client
can stop the server. If no message is left, if a rule raises Refusal, or if the step is
not finite, then the shared model w is not changed, and the result contains the reason.
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

    broadcast: Broadcast  # shared model and extra values of the next round
    messages: Messages  # messages that the aggregator received
    dropped: dict[str, list[int]]  # name of a filter → clients that it removed
    verdicts: dict[str, list[int]]  # clipped, chosen, downweighted → clients
    moved: float  # length of the change of w
    cosine: float  # of the mean malicious and mean benign update; NaN if unknown
    why: str  # why w was not changed; "" if it was changed


class Received(NamedTuple):
    """The messages of a round, after the attack.

    The device may still be computing `finite`.
    """

    broadcast: Broadcast  # message that the clients received
    messages: Messages  # updates, with running statistics moved to `extra`
    round: int
    hostile: Tensor | None  # [n] mask of malicious clients, or None if unknown
    finite: Tensor  # [1] whether all messages are finite, or [0] if unknown


class Settled(NamedTuple):
    """A round whose numbers are still to be copied from the device."""

    lengths: Tensor  # result of `step_lengths`; [0] if there is no step
    angle: Tensor  # [3] result of `between`; [0] if unknown
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
    """Move the running statistics back to the end of w; clamp variances to ≥ 0."""
    if tail == 0:
        return broadcast
    means, variances = broadcast.extra[-tail:].chunk(2)
    w = torch.cat([broadcast.w, means, variances.clamp(min=0)])
    return broadcast._replace(w=w, extra=broadcast.extra[:-tail])


def apart(messages: Messages, tail: int) -> tuple[Messages, Messages]:
    """Split `extra` into solver's values and running statistics, each as updates."""
    width = messages.extra.shape[1] - tail
    solver, layers = messages.extra[:, :width], messages.extra[:, width:]
    return messages._replace(update=solver), messages._replace(update=layers)


def length(vector: Tensor) -> Tensor:
    """Return ‖vector‖ in double precision; finite if and only if all entries are."""
    return numerics.norms(vector[None])[0]


def step_lengths(before: Broadcast, after: Broadcast, tail: int) -> Tensor:
    """Return the length of the change of w, that of running statistics, and ‖extra‖."""
    parts = (*(after.w - before.w).tensor_split([len(before.w) - tail]), after.extra)
    some = (parts[0], *filter(len, parts[1:]))
    return torch.stack([length(part) for part in some])


def between(messages: Messages, hostile: Tensor, all_finite: bool) -> Tensor:
    """Return ⟨a, b⟩, ‖a‖ and ‖b‖ of the mean malicious update a and mean benign one b.

    The means are over finite updates, and NaN if there are none. Unless `all_finite`,
    the function waits for the device.
    """
    rows = messages.update
    if not all_finite and not bool((finite := numerics.finite(rows)).all()):
        rows, hostile = rows[finite], hostile[finite]
    weight = torch.stack([hostile, ~hostile]).to(rows)
    a, b = (weight / weight.sum(dim=1, keepdim=True)) @ rows
    inner = a.to(numerics.widest(a)) @ b.to(numerics.widest(b))
    return torch.stack([inner, length(a), length(b)])


def cosine(angle: list[float]) -> float:
    """Return the cosine similarity from the result of `between`; NaN if it is empty."""
    product, *lengths = angle or [math.nan]
    both = math.prod(lengths)
    return float(product / both) if both else math.nan


NOBODY, INFINITE = "no message was left", "the step is not finite"


class Serving:
    """A server: its rules and their memories.

    The last `tail` numbers of w are running statistics of batch normalization. Extra
    vectors of a solver (such as control variates) are averaged over all `clients`,
    where absent clients count as 0. If `clients` is 0, they are averaged over the
    clients in the round. If the module of the first filter has a function `all_finite`,
    the filter is skipped in rounds in which this function returns true.
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
        self.aggregated: Tensor | None = None  # last result of the aggregator
        first = [lookup.companion(f.function, "all_finite") for f in rules.filters[:1]]
        self._all_finite = first[0] if first else None

    @property
    def asks_loss(self) -> bool:
        """Whether a rule needs the clients' losses."""
        return any("loss" in rule.asks for rule in self._named.values())

    def serve(
        self,
        broadcast: Broadcast,
        messages: Messages,
        round_: int,
        hostile: Tensor | None = None,
    ) -> Served:
        """Filter and aggregate the messages, and update the shared model.

        If the shared model is not changed, neither are the memories of the rules.

        Args:
            broadcast: Message that the clients received.
            messages: Messages of the clients.
            round_: Number of the round.
            hostile: [n] mask of malicious clients, or None if unknown.
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
                with contextlib.suppress(Refusal):  # if it fails, there is no attack
                    sent = self.attacked(seen, sent, hostile, round_)
            if self._all_finite is not None:
                finite = self._all_finite(seen, sent)
        return Received(broadcast, sent, round_, hostile, finite)

    def settle(self, received: Received, finite: bool) -> Settled:
        """Filter, aggregate and update w; wait for the device only if a rule does."""
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
            """Return the new model if the step is finite, otherwise the old one."""
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

        The attack may call `defence`, which applies the filters and the aggregator to
        messages without changing their memories.
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
        """Return the aggregated update for trial messages; 0 if w would not change."""
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
        """Apply a filter or an aggregator to the messages."""
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
        """Apply filters from number `skip` on; return the clients that each drops."""
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
        """Return the next broadcast: shared model and extra values."""
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
    """Finish a round of several servers, with only two transfers from the device.

    The first transfer tells for which servers all messages are finite. The second one
    contains the numbers of all results.
    """
    known = _read([received.finite for _, received in every])
    pairs = zip(every, known, strict=True)
    settled = [server.settle(got, any(finite)) for (server, got), finite in pairs]
    ends = _read([part for one in settled for part in one[:2]])
    closing = zip(settled, ends[::2], ends[1::2], strict=True)
    return [one.close(lengths, angle) for one, lengths, angle in closing]


def _read(every: Sequence[Tensor]) -> list[list[Any]]:
    """Return the numbers of several short tensors with one transfer from the device."""
    ends = [0, *accumulate(map(len, every))]
    values = torch.cat([*every]).tolist() if every else []
    return [values[a:b] for a, b in pairwise(ends)]
