"""A server's rules: attacks, filters, aggregators and steps, as plain functions.

A rule takes the parameters that it needs, by name: `broadcast`, `messages`, `hostile`,
`step`, `key`, `memory`, `loss`, `round_`, `note` and others. A rule that takes `memory`
returns (result, memory). The others return the result, and their memory stays an empty
tensor. A rule calls `note` to record what it did with each update. `of` makes the rules
of an experiment. `tried` calls each rule once before the first round.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from troth import lookup
from troth.config.checks import expect
from troth.config.schema import Experiment, Part
from troth.types import Broadcast, Messages, Options, Refusal

_TRIED = 2**20  # numbers in the updates of a trial before the first round


class Rule(NamedTuple):
    """A member with its options, ready to be called in a round."""

    name: str
    function: Callable[..., Any]
    options: Options
    asks: frozenset[str]

    def __call__(self, memory: Tensor, **context: Any) -> tuple[Any, Tensor]:
        """Call the rule; return its result and its memory."""
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
    strength: float = 1.0  # of the attack; 0 leaves malicious updates as they were

    def named(self) -> dict[str, Rule]:
        """Return every rule under the name of its memory."""
        named = {f"filter{i}": rule for i, rule in enumerate(self.filters)}
        named |= {"aggregator": self.aggregator, "server": self.server}
        named |= {"extra": self.aggregator, "statistics": self.statistics}
        return named | ({"attack": self.attack} if self.attack else {})


def lift(kind: str, name: str, options: Options) -> Rule:
    """Return the rule of this kind and name, with its options."""
    function = lookup.find(kind, name)
    return Rule(name, function, options, frozenset(lookup.asks(function)))


def no_memory(device: torch.device | str = "cpu") -> Tensor:
    """Return the empty tensor that is the memory of a rule without one."""
    return torch.zeros(0, device=device)


Count = int | Literal["auto"]
"""The option `f`: a number, or "auto" within an experiment. Then f is the number of
malicious clients expected in a cohort, rounded down (as in the Ditto authors' code)."""


def count(
    rule: str,
    f: Count,
    n: int,
    law: tuple[int, int],
    strict: bool,
    otherwise: int | None = None,
) -> int:
    """Return the option `f` of a rule; refuse if its guarantee needs more updates.

    Args:
        rule: Name of the rule.
        f: Option as given; an experiment has already replaced "auto" by a number.
        n: Number of updates.
        law: (a, b) of the condition n ≥ a·f + b, which is checked for f > 0 only.
        strict: Whether to check the condition.
        otherwise: Value of "auto" outside an experiment, for rules whose result does
            not depend on f. If `None`, "auto" is refused there.
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
"""Function that a rule calls to record what it did with each of its n updates.

It takes any of these keywords:

    clipped: [n] mask of the updates that the rule scaled down.
    chosen: [n] mask of the updates that the result consists of. The others do not
        affect the result.
    weight: [n] weight of each update in the result; the weights sum to 1.
    into: [n] for each update, the id of the client whose update it was merged into
        (its own id if it was not merged). A later record about a merged update holds
        for all clients in it.
"""
_NAMES = ("clipped", "chosen", "weight", "into")

Within = dict[int, set[int]]
"""Client → all clients merged into its update. A client that is not listed has an
update that contains only its own."""


def silent(**notes: Tensor) -> None:
    """Ignore what a rule records; the default for `note`."""


def broadcast(w: Any, extra: int = 0) -> Broadcast:
    """Make a broadcast of a shared model w [d] and `extra` zeros."""
    w = torch.as_tensor(w)
    return Broadcast(w, w.new_zeros(extra), w.new_ones(()))


def messages(update: Any, *, loss: Any = None, size: Any = None) -> Messages:
    """Make messages of clients 0, 1, … from a matrix of updates [n, d].

    Args:
        update: One update per client, as a tensor or as nested lists.
        loss: [n] losses that the clients send; None: not known (NaN).
        size: [n] number of examples of each client; None: one each.
    """
    update = torch.as_tensor(update)
    n, client = len(update), torch.arange(len(update), device=update.device)
    losses = torch.as_tensor([torch.nan] * n if loss is None else loss).to(update)
    sizes = torch.as_tensor([1] * n if size is None else size, device=update.device)
    return Messages(update, update.new_zeros(n, 0), losses, sizes, client)


class Verdicts:
    """What the rules of a round recorded, per client.

    Client ids are read from the device only when `clients` is called.
    """

    def __init__(self) -> None:
        self.within: Within = {}
        self._noted: list[tuple[str, Tensor, Tensor, Within]] = []  # on the device

    def of(self, client: Tensor) -> Note:
        """Return the `note` function for a rule that gets these clients' updates."""

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
                    mask = rows < equal  # weigh less than an equal share
                    self._noted.append(("downweighted", client, mask, self.within))
                else:  # a copy, because the rule may overwrite the tensor later
                    self._noted.append((name, client, rows.clone(), self.within))

        return note

    def clients(self) -> dict[str, set[int]]:
        """Return verdict → clients; wait for the device."""
        clients: dict[str, set[int]] = {}
        for name, client, mask, within in self._noted:
            rows = client[mask].tolist()
            clients.setdefault(name, set()).update(behind(rows, within))
        return clients


def behind(clients: list[int], within: Within) -> set[int]:
    """Return all clients whose updates were merged into those of the given clients."""
    return {other for one in clients for other in within.get(one, {one})}


def _check(name: str, rows: Tensor, n: int) -> None:
    """Refuse an invalid record, because users may bring their own rules."""
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
    """Return the value of `f = "auto"`: malicious clients per cohort, rounded down."""
    return (e.train.cohort or clients) * hostile // max(1, clients)


def of(e: Experiment, f: int) -> Rules:
    """Return the rules of an experiment, with this value for f = "auto".

    Filters that have a function `all_finite` in their module come first in every run.
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
    """Return the values that replace the option value "auto", except for f.

    A member's module may have a function `known`, which derives such values from the
    member's options. It may take `reach`, the length of the regularizer's longest
    gradient. The value `infers` (the shared model reveals the sum of all updates) is
    true only if both the aggregator and the server step declare it.
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
    """Return the value of f = "auto" for the run's record, if a rule used it."""
    asked = [part.options.get("f") for part in (e.aggregator, *e.filter)]
    return {"f": f} if "auto" in asked else {}


def _of_statistics(e: Experiment) -> str:
    """Return the aggregator of running statistics.

    With `train.statistics = "auto"` this is the median if the main aggregator has an
    option `f` (is robust), and otherwise the mean.
    """
    if e.train.statistics != "auto":
        return e.train.statistics
    robust = "f" in lookup.options(lookup.find("aggregator", e.aggregator.name))
    return "median" if robust else "mean"


def tried(every: Rules, w0: Tensor, cohort: int) -> None:
    """Call every rule once with messages of zeros, one per client of a cohort.

    So a rule that must refuse does so before anything is written. The number of updates
    is that of a round. They are as long as the model, but have at most about `_TRIED`
    numbers together.
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
        d = (
            len(w0) if "target" in every.attack.options else short
        )  # the target's length
        given = {"messages": messages(zero(cohort, d)), "defence": lambda _: zero(d)}
        for hostile in (left.client < 0, left.client < 1):
            attacked = call(every.attack, d, hostile=hostile, **given)
            _rows(every.attack, attacked, cohort)
    for rule in every.filters:
        filtered = reading(rule)
        _rows(rule, filtered)
        if len(filtered.client):
            left = filtered  # if it drops them all, the next rule still gets zeros
    steps = reading(every.aggregator), call(every.server, step=zero(short))
    for rule, step in zip((every.aggregator, every.server), steps, strict=True):
        if _shape(step) != [short]:
            raise Refusal(
                f"'{rule.name}' gives {_shape(step)} in a trial with updates of shape "
                f"[{cohort}, {short}]; it must give one vector as long as an update, "
                f"of shape [{short}]"
            )


def _rows(rule: Rule, result: Any, count: int | None = None) -> None:
    """Refuse a result of an attack or filter that is not (`count`) messages."""
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
