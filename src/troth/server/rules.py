"""A server's rules: attacks, filters, aggregators and steps, as plain functions.

A member takes what it needs by name: `broadcast`, `messages`, `hostile`, `step`,
`key`, `memory`, `loss`, `round_`, `note` … One that takes `memory` returns
(result, memory); the others return the result, and their memory stays a zero-width
tensor. By `note` a rule says what it did with the rows that it got. `of` makes the
rules of an experiment; `tried` calls each once before the first round.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from troth import lookup
from troth.config.schema import Experiment, Part
from troth.types import Broadcast, Messages, Options, Refusal


class Rule(NamedTuple):
    """A member with its options, ready to be called in a round."""

    name: str
    function: Callable[..., Any]
    options: Options
    asks: frozenset[str]

    def __call__(self, memory: Tensor, **context: Any) -> tuple[Any, Tensor]:
        """Apply it; return its result and its memory."""
        if "memory" not in self.asks:
            return lookup.call(self.function, self.options, **context), memory
        found = lookup.call(self.function, self.options, memory=memory, **context)
        if type(found) is tuple and len(found) == 2 and isinstance(found[1], Tensor):
            return found
        raise Refusal(
            f"'{self.name}' asks for memory and gives a {type(found).__name__} that is "
            "no pair; it must give its result and one tensor to remember: return "
            "result, memory"
        )


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


def lift(kind: str, name: str, options: Options) -> Rule:
    """The rule behind a name."""
    function = lookup.find(kind, name)
    return Rule(name, function, options, frozenset(lookup.asks(function)))


def no_memory(device: torch.device | str = "cpu") -> Tensor:
    """What a rule without memory remembers."""
    return torch.zeros(0, device=device)


Count = int | Literal["auto"]
"""The option `f`: a number, or, within an experiment, as many as the adversary's share
of a cohort comes to, rounded down (as in the Ditto authors' code)."""


def count(
    rule: str,
    f: Count,
    n: int,
    law: tuple[int, int],
    strict: bool,
    otherwise: int | None = None,
) -> int:
    """The option `f` of a rule as a number; refuse fewer rows than its promise needs.

    Args:
        rule: its name.
        f: as given; an experiment has replaced "auto" already.
        n: how many rows there are.
        law: (a, b) of the condition n ≥ a·f + b, which is asked for f > 0 only.
        strict: false lets everything pass, and then nothing is promised.
        otherwise: what "auto" means outside an experiment, for rules that compute the
            same whatever f is; None refuses.
    """
    if f == "auto" and otherwise is not None:
        f = otherwise
    if f == "auto":
        raise Refusal(
            f"{rule}'s f = 'auto' is known within an experiment alone; say how many of "
            "the rows may be hostile, such as f = 2"
        )
    if f < 0:
        raise Refusal(f"{rule}'s f = {f} must be at least 0, or 'auto'")
    times, more = law
    least = times * f + more
    if strict and f > 0 and n < least:
        condition = f"n ≥ {times if times > 1 else ''}f + {more}"
        raise Refusal(
            f"{rule} with f = {f} holds for {condition} = {least}, and n is {n}; lower "
            "f, raise train.cohort, or set strict = false and do without its guarantee"
        )
    return f


def share(cohort: int, hostile: int, clients: int) -> int:
    """What `f = "auto"` comes to: hostile of all clients, of a cohort, rounded down."""
    return cohort * hostile // max(1, clients)


Note = Callable[..., None]
"""A rule that asks for `note` calls it with what it did, one value per row it got:

    clipped: [n] mask of rows that it scaled down.
    chosen: [n] mask of rows that its result is made of; the others count for nothing.
    weight: [n] share of each row in its result; they sum to 1.
    into: [n] client that bears the row which each one's went into, often its own (for
        filters that merge rows); what later rules say of that row then falls on all
        whose rows it holds.
"""
_NAMES = ("clipped", "chosen", "weight", "into")

Within = dict[int, set[int]]
"""Client → whose rows its row holds; who is not in it bears its own."""


def silent(**said: Tensor) -> None:
    """Ignore what a rule notes."""


def broadcast(w: Any, extra: int = 0) -> Broadcast:
    """Make what the server sends: a shared model [d], beside it so many zeros."""
    w = torch.as_tensor(w)
    return Broadcast(w, w.new_zeros(extra), w.new_ones(()))


def messages(update: Any, *, loss: Any = None, size: Any = None) -> Messages:
    """Make messages of clients 0, 1, … from a matrix of updates [n, d].

    Args:
        update: one update per client, as a tensor or in lists.
        loss: [n] what the clients report; None: not known (NaN).
        size: [n] how many examples each has; None: one each.
    """
    update = torch.as_tensor(update)
    n, client = len(update), torch.arange(len(update), device=update.device)
    losses = torch.as_tensor([torch.nan] * n if loss is None else loss).to(update)
    sizes = torch.as_tensor([1] * n if size is None else size, device=update.device)
    return Messages(update, update.new_zeros(n, 0), losses, sizes, client)


class Verdicts:
    """What rules say of clients; who they are is looked up when it is asked for."""

    def __init__(self) -> None:
        self.within: Within = {}
        self._said: list[tuple[str, Tensor, Tensor, Within]] = []  # on the device yet

    def of(self, client: Tensor) -> Note:
        """A `note` for a rule that is given the rows of these clients."""

        def note(**said: Tensor) -> None:
            for name, rows in said.items():
                _check(name, rows, len(client))
                if name == "into":
                    self._merge(client.tolist(), rows.tolist())
                elif name == "weight":
                    equal = (1 - 1e-6) / max(1, len(rows))
                    mask = rows < equal  # count for less than an equal share
                    self._said.append(("downweighted", client, mask, self.within))
                else:  # A copy: it is read when the rule may have gone on with its own.
                    self._said.append((name, client, rows.clone(), self.within))

        return note

    def clients(self) -> dict[str, set[int]]:
        """Verdict → the clients that it fell on; a device is waited for."""
        found: dict[str, set[int]] = {}
        for name, client, mask, within in self._said:
            pairs = zip(client.tolist(), mask.tolist(), strict=True)
            rows = [one for one, fell in pairs if fell]
            found.setdefault(name, set()).update(behind(rows, within))
        return found

    def _merge(self, client: list[int], into: list[int]) -> None:
        """From now on some rows hold those of several clients."""
        within: Within = {}
        for one, other in zip(client, into, strict=True):
            within.setdefault(other, set()).update(self.within.get(one, {one}))
        self.within = within


def behind(clients: list[int], within: Within) -> set[int]:
    """Everyone whose row is in the rows that these clients bear."""
    return {other for one in clients for other in within.get(one, {one})}


def _check(name: str, rows: Tensor, n: int) -> None:
    """Refuse what is no verdict: rules may be anyone's."""
    if name not in _NAMES or not isinstance(rows, Tensor) or rows.shape != (n,):
        shape = list(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise Refusal(
            f"a rule notes '{name}' of shape {shape} for {n} rows; it may note "
            f"{', '.join(_NAMES)}, each a tensor with one value per row"
        )
    if name in ("clipped", "chosen") and rows.dtype != torch.bool:
        raise Refusal(
            f"a rule notes '{name}' as {rows.dtype}; it is a mask, torch.bool: true in "
            "the rows that it is about"
        )


def expected(e: Experiment, clients: int, hostile: int) -> int:
    """What `f = "auto"` comes to in an experiment.

    Args:
        e: the experiment.
        clients: how many there are.
        hostile: how many of them an adversary controls.
    """
    return share(e.train.cohort or clients, hostile, clients)


def of(e: Experiment, f: int) -> Rules:
    """The rules of an experiment; where they ask for f = "auto", it is this.

    Filters that can say whether all rows are finite stand first in every run.
    """
    known = {"f": f, **_known(e)}

    def rule(kind: str, part: Part) -> Rule:
        options = {
            key: known[key] if value == "auto" and key in known else value
            for key, value in part.options.items()
        }
        return lift(kind, part.name, options)

    first = [
        lift("filter", name, {})
        for name in lookup.names("filter")
        if lookup.beside(lookup.find("filter", name), "all_finite")
    ]
    return Rules(
        None if e.attack.name == "none" else rule("attack", e.attack),
        (*first, *(rule("filter", part) for part in e.filter)),
        rule("aggregator", e.aggregator),
        rule("server", e.server),
        lift("aggregator", _of_statistics(e), {}),
        e.attack.strength,
    )


def _known(e: Experiment) -> dict[str, Any]:
    """What an experiment says of options that are "auto", beside f.

    A member says what follows from its options by a function `known` beside it, which
    may ask for the `reach` of the regularizer's gradient. That the shared model tells
    what was sent in all (`infers`), both the aggregator and the server have to say.
    """

    def reach() -> float:
        regularizer = lookup.find("regularizer", e.regularizer.name)
        made = lookup.call(regularizer, e.regularizer.options, task=None)
        return float(made.reach)

    known: dict[str, Any] = {"over": "mean", "regularizer": e.regularizer.name}
    if "lr" in e.server.options:
        known["eta"] = e.server.options["lr"]
    infers = []
    for kind in ("aggregator", "server", "personalizer"):
        part: Part = getattr(e, kind)
        says = lookup.beside(lookup.find(kind, part.name), "known")
        if says is not None:
            known |= lookup.call(says, {}, options=part.options, reach=reach)
        infers.append(known.pop("infers", kind == "personalizer"))
    return known | {"infers": all(infers)}


def facts(e: Experiment, f: int) -> dict[str, Any]:
    """For the record: what "auto" came to, where some rule asked for it."""
    asked = [part.options.get("f") for part in (e.aggregator, *e.filter)]
    return {"f": f} if "auto" in asked else {}


def _of_statistics(e: Experiment) -> str:
    """How running statistics are put together: robustly where the rest is.

    A rule that is to withstand malicious rows has an option that says how many.
    """
    if e.train.statistics != "auto":
        return e.train.statistics
    robust = "f" in lookup.options(lookup.find("aggregator", e.aggregator.name))
    return "median" if robust else "mean"


def tried(every: Rules, w0: Tensor, cohort: int) -> None:
    """Put messages of zeros through the rules of a round, as many as a cohort sends.

    So they refuse before anything is written, and on as many rows as will reach them.
    """
    zero = w0.new_zeros
    broadcast = Broadcast(zero(2), zero(0), w0.new_ones(()))
    client = torch.arange(cohort, device=w0.device)
    update, extra = zero(cohort, 2), zero(cohort, 0)
    messages = Messages(update, extra, zero(cohort), client + 1, client)
    key = torch.zeros((), dtype=torch.long, device=w0.device)

    def call(rule: Rule, **more: Any) -> Any:
        given: dict[str, Any] = {"broadcast": broadcast, "key": key, "round_": 0}
        return rule(no_memory(w0.device), **given | more)[0]

    def heard(rule: Rule) -> Any:
        note = Verdicts().of(messages.client)
        return call(rule, messages=messages, loss=messages.loss, note=note)

    if every.attack is not None:
        given: dict[str, Any] = {"defence": lambda sent: sent.update[0] * 0}
        sent = messages
        if "target" in every.attack.options:  # it must fit the model
            given["broadcast"] = broadcast._replace(w=torch.zeros_like(w0))
            sent = messages._replace(update=zero(cohort, len(w0)))
        for hostile in (client < 0, client < 1):
            found = call(every.attack, messages=sent, hostile=hostile, **given)
            if len(_messages(every.attack, found).client) != cohort:
                raise Refusal(
                    f"'{every.attack.name}' gives {len(found.client)} rows for "
                    f"{cohort}; an attack must leave as many as there are: return "
                    "messages._replace(update=…)"
                )
    for rule in every.filters:
        found = heard(rule)
        if len(_messages(rule, found).client):
            messages = found  # where it takes zeros for nothing, the next tries them
    _vector(every.aggregator, heard(every.aggregator))
    _vector(every.server, call(every.server, step=zero(2)))


def _messages(rule: Rule, found: Any) -> Messages:
    """What an attack or a filter gives, which may be anyone's."""
    if isinstance(found, Messages) and len({len(field) for field in found}) == 1:
        return found
    raise Refusal(
        f"'{rule.name}' gives a {type(found).__name__} that does not hold one value "
        "per row in every field; it must give messages: return "
        "messages._replace(update=…)"
    )


def _vector(rule: Rule, found: Any) -> None:
    """What an aggregator or a server gives, which may be anyone's."""
    shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != [2]:
        raise Refusal(
            f"'{rule.name}' gives {shape} where the model has 2 numbers, of shape [2]; "
            "it must give one vector, as long as the model"
        )
