"""Plain functions of a round (attacks, filters, aggregators, steps) as rules.

A member takes what it needs by name: `broadcast`, `messages`, `hostile`, `step`,
`key`, `memory`, `loss`, `round_`, `note` … One that takes `memory` returns
(result, memory); the others return the result, and their memory stays a zero-width
tensor. By `note` a rule says what it did with the rows that it got.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from troth import lookup
from troth.types import Options, Refusal


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
    """Nobody listens."""


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
