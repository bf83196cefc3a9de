"""A server's rules: attacks, filters, aggregators and steps, as plain functions.

The names of a rule's parameters determine which values it gets: `broadcast`,
`messages`, `hostile` (mask of malicious clients), `step` (result of the aggregator),
`key` (for random numbers), `memory` (what the rule returned in the previous round),
`loss`, `round_`, `note` and others. A rule with a parameter `memory` returns a pair
(result, memory); all others return only the result. A rule calls `note` to record what
it did with each update. `of` makes the rules of an experiment. `tried` calls each rule
once before the first round.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from troth import lookup
from troth.config.checks import expect
from troth.config.schema import Experiment, Part
from troth.types import Broadcast, Messages, Options, Refusal

_TRIED = 2**20  # largest number of numbers in all updates of `tried`


class Rule(NamedTuple):
    """An attack, filter, aggregator or server step, with its options."""

    name: str
    function: Callable[..., Any]
    options: Options
    asks: frozenset[str]

    def __call__(self, memory: Tensor, **context: Any) -> tuple[Any, Tensor]:
        """Call the rule; return its result and its new memory."""
        if "memory" not in self.asks:
            return lookup.call(self.function, self.options, **context), memory
        pair = lookup.call(self.function, self.options, memory=memory, **context)
        if type(pair) is tuple and len(pair) == 2 and isinstance(pair[1], Tensor):
            return pair
        raise Refusal(
            f"'{self.name}' has a parameter memory and returned a "
            f"{type(pair).__name__}; it must return a pair of its result and a tensor "
            "to remember; write: return result, memory"
        )


class Rules(NamedTuple):
    """The rules that are applied to the messages of a round, in this order."""

    attack: Rule | None
    filters: tuple[Rule, ...]
    aggregator: Rule
    server: Rule
    statistics: Rule  # aggregates the running statistics of batch normalization
    strength: float = 1.0  # of the attack; 0 means no attack

    def named(self) -> dict[str, Rule]:
        """Return all rules by name; each name has a memory of its own."""
        named = {f"filter{i}": rule for i, rule in enumerate(self.filters)}
        named |= {"aggregator": self.aggregator, "server": self.server}
        named |= {"extra": self.aggregator, "statistics": self.statistics}
        return named | ({"attack": self.attack} if self.attack else {})


def lift(kind: str, name: str, options: Options) -> Rule:
    """Find a function by its kind and name, and return it as a rule."""
    function = lookup.find(kind, name)
    return Rule(name, function, options, frozenset(lookup.asks(function)))


def no_memory(device: torch.device | str = "cpu") -> Tensor:
    """Return an empty tensor: the memory of rules that keep nothing."""
    return torch.zeros(0, device=device)


Count = int | Literal["auto"]
"""The option `f` of a rule: a number of malicious clients, or "auto" in an experiment.
"auto" means the expected number in a cohort, rounded down (as in the code of Ditto's
authors)."""


def count(
    rule: str,
    f: Count,
    n: int,
    law: tuple[int, int],
    strict: bool,
    otherwise: int | None = None,
) -> int:
    """Return `f` as a number; raise Refusal if the guarantee needs more updates.

    Args:
        rule: Name of the rule.
        f: Value of the option. An experiment has already replaced "auto" by a number.
        n: Number of updates.
        law: Numbers (a, b) of the condition n ≥ a·f + b, which is checked only if f >
            0.
        strict: Whether to check the condition.
        otherwise: Value of "auto" outside an experiment, for rules whose result does
            not depend on f. With `None`, "auto" raises Refusal there.
    """
    if f == "auto" and otherwise is not None:
        f = otherwise
    if f == "auto":
        raise Refusal(
            f"{rule}'s f = 'auto' is known within an experiment only; give the number "
            "of updates that may be malicious, such as f = 2"
        )
    expect(f >= 0, f"{rule}'s f", f, "at least 0, or 'auto'")
    times, more = law
    least = times * f + more
    if strict and f > 0 and n < least:
        condition = f"n ≥ {times if times > 1 else ''}f + {more}"
        raise Refusal(
            f"{rule} with f = {f} holds for {condition} = {least}, and n is {n}; lower "
            "f, raise train.cohort, or set strict = false to go on without a guarantee"
        )
    return f


Note = Callable[..., None]
"""Function by which a rule records what it did with each of its n updates.

It takes any of these keywords:

    clipped: [n] mask of the updates that the rule scaled down.
    chosen: [n] mask of the updates from which the result is computed.
    weight: [n] weight of each update in the result; the weights sum to 1.
    into: [n] for each update, the id of the client into whose update it was merged (the
        client's id itself if not merged). Later records about a merged update hold for
        all clients whose updates it contains.
"""
_NAMES = ("clipped", "chosen", "weight", "into")

Within = dict[int, set[int]]
"""Client → all clients whose updates were merged into its update. Updates of clients
that are not listed were not merged."""


def silent(**notes: Tensor) -> None:
    """Do nothing; the default for `note`."""


def broadcast(w: Any, extra: int = 0) -> Broadcast:
    """Make a `Broadcast` with the shared model w [d] and `extra` zeros."""
    w = torch.as_tensor(w)
    return Broadcast(w, w.new_zeros(extra), w.new_ones(()))


def messages(update: Any, *, loss: Any = None, size: Any = None) -> Messages:
    """Make `Messages` of clients 0, 1, … with the given updates [n, d].

    Args:
        update: One update per client, as a tensor or as nested lists.
        loss: [n] losses that the clients send; None means unknown (NaN).
        size: [n] number of examples of each client; None means one each.
    """
    update = torch.as_tensor(update)
    n, client = len(update), torch.arange(len(update), device=update.device)
    losses = torch.as_tensor([torch.nan] * n if loss is None else loss).to(update)
    sizes = torch.as_tensor([1] * n if size is None else size, device=update.device)
    return Messages(update, update.new_zeros(n, 0), losses, sizes, client)


class Verdicts:
    """What the rules of a round recorded about each client.

    Ids are copied from the device only when `clients` is called.
    """

    def __init__(self) -> None:
        self.within: Within = {}
        self._noted: list[tuple[str, Tensor, Tensor, Within]] = []  # on the device

    def of(self, client: Tensor) -> Note:
        """Return the `note` function of a rule that gets updates of these clients."""

        def note(**notes: Tensor) -> None:
            for name, rows in notes.items():
                _check(name, rows, len(client))
                if name == "into":  # some updates now combine those of several clients
                    within: Within = {}
                    for one, other in zip(client.tolist(), rows.tolist(), strict=True):
                        merged = self.within.get(one, {one})
                        within.setdefault(other, set()).update(merged)
                    self.within = within
                elif name == "weight":
                    equal = (1 - 1e-6) / max(1, len(rows))
                    mask = rows < equal  # their weights are below 1/n
                    self._noted.append(("downweighted", client, mask, self.within))
                else:  # a copy, because the rule may overwrite the tensor later
                    self._noted.append((name, client, rows.clone(), self.within))

        return note

    def clients(self) -> dict[str, set[int]]:
        """Return "clipped", "chosen", "downweighted" → ids; wait for the device."""
        clients: dict[str, set[int]] = {}
        for name, client, mask, within in self._noted:
            rows = client[mask].tolist()
            clients.setdefault(name, set()).update(behind(rows, within))
        return clients


def behind(clients: list[int], within: Within) -> set[int]:
    """Return the clients whose updates were merged into those of the given clients."""
    return {other for one in clients for other in within.get(one, {one})}


def _check(name: str, rows: Tensor, n: int) -> None:
    """Raise Refusal for an invalid record; users can write rules."""
    if name not in _NAMES or _shape(rows) != [n]:
        raise Refusal(
            f"a rule notes '{name}' of shape {_shape(rows)} for {n} updates; it may "
            f"note {', '.join(_NAMES)}, each a tensor with one value per update"
        )
    if name in ("clipped", "chosen") and rows.dtype != torch.bool:
        raise Refusal(f"a rule notes '{name}' as {rows.dtype}; it must be torch.bool")


def _shape(value: Any) -> list[int] | str:
    """Return the shape of a tensor, or the name of any other type."""
    return list(value.shape) if isinstance(value, Tensor) else type(value).__name__


def expected(e: Experiment, clients: int, hostile: int) -> int:
    """Return f = "auto": the expected number of malicious clients in a cohort.

    The number is rounded down.
    """
    return (e.train.cohort or clients) * hostile // max(1, clients)


def of(e: Experiment, f: int) -> Rules:
    """Return the rules of an experiment; `f` is the value of f = "auto".

    Filters whose modules have a function `all_finite` are added in front.
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
        if lookup.companion(lookup.find("filter", name), "all_finite")
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
    """Return the values that replace "auto" in options of rules, except for f.

    The module of an aggregator, server step or personalizer may have a function
    `known`. It receives the method's options and `reach`, the largest norm of the
    regularizer's gradient, and returns such values. The value `infers` (the shared
    models reveal the sum of all updates) is true only if both the aggregator and the
    server step return it.
    """

    def reach() -> float:
        regularizer = lookup.find("regularizer", e.regularizer.name)
        made = lookup.call(regularizer, e.regularizer.options, task=None)
        return float(made.reach)

    known: dict[str, Any] = {"over": "mean", "regularizer": e.regularizer.name}
    if "lr" in e.server.options:
        known["eta"] = e.server.options["lr"]
    if "delta" in e.regularizer.options:
        known["delta"] = e.regularizer.options["delta"]
    infers = []
    for kind in ("aggregator", "server", "personalizer"):
        part: Part = getattr(e, kind)
        says = lookup.companion(lookup.find(kind, part.name), "known")
        if says is not None:
            known |= lookup.call(says, {}, options=part.options, reach=reach)
        infers.append(known.pop("infers", kind == "personalizer"))
    return known | {"infers": all(infers)}


def facts(e: Experiment, f: int) -> dict[str, Any]:
    """Return {"f": f} for the run's record if an option f is "auto", else {}."""
    asked = [part.options.get("f") for part in (e.aggregator, *e.filter)]
    return {"f": f} if "auto" in asked else {}


def _of_statistics(e: Experiment) -> str:
    """Return the name of the aggregator for running statistics of batch normalization.

    With `train.statistics = "auto"`, it is the median if the experiment's aggregator
    has an option `f` (is robust), and otherwise the mean.
    """
    if e.train.statistics != "auto":
        return e.train.statistics
    robust = "f" in lookup.options(lookup.find("aggregator", e.aggregator.name))
    return "median" if robust else "mean"


def tried(every: Rules, w0: Tensor, cohort: int) -> None:
    """Call every rule once with messages of zeros, one per client of a cohort.

    So a rule that cannot work raises Refusal before the run writes any file. The number
    of updates is that of a round. Updates have the length of the model, or a smaller
    one, so that together they have at most about `_TRIED` numbers.
    """
    zero, short = w0.new_zeros, max(2, min(len(w0), _TRIED // cohort))
    left = messages(zero(cohort, short), loss=zero(cohort))
    key = torch.zeros((), dtype=torch.long, device=w0.device)

    def call(rule: Rule, d: int = short, **more: Any) -> Any:
        context = {"broadcast": broadcast(zero(d)), "key": key, "round_": 0}
        return rule(no_memory(w0.device), **context, **more)[0]

    def reading(rule: Rule) -> Any:
        note = Verdicts().of(left.client)
        return call(rule, messages=left, loss=left.loss, note=note)

    if every.attack is not None:
        # An attack with a target needs updates of the target's length.
        d = len(w0) if "target" in every.attack.options else short
        given = {"messages": messages(zero(cohort, d)), "defence": lambda _: zero(d)}
        for hostile in (left.client < 0, left.client < 1):
            attacked = call(every.attack, d, hostile=hostile, **given)
            _rows(every.attack, attacked, cohort)
    for rule in every.filters:
        filtered = reading(rule)
        _rows(rule, filtered)
        if len(filtered.client):
            left = filtered  # otherwise the next rule gets the previous messages
    steps = reading(every.aggregator), call(every.server, step=zero(short))
    for rule, step in zip((every.aggregator, every.server), steps, strict=True):
        if _shape(step) != [short]:
            raise Refusal(
                f"'{rule.name}' gives {_shape(step)} in a trial with updates of shape "
                f"[{cohort}, {short}]; it must give one vector as long as an update, "
                f"of shape [{short}]"
            )


def _rows(rule: Rule, result: Any, count: int | None = None) -> None:
    """Raise Refusal if the result of an attack or filter is not valid `Messages`.

    `count`, if given, is the required number of messages.
    """
    if not isinstance(result, Messages) or len({*map(len, result)}) != 1:
        problem = f"a {type(result).__name__} that does not hold one value per client"
    elif count not in (None, len(result.client)):
        problem = f"{len(result.client)} messages for {count} clients"
    else:
        return
    raise Refusal(
        f"'{rule.name}' gives {problem}; it must give messages, and an attack must "
        "give as many as it got; write: return messages._replace(update=…)"
    )
