"""Plain functions of a round (attacks, filters, aggregators, servers) as rules.

A member takes what it needs by name: `broadcast`, `messages`, `hostile`, `step`,
`key`, `memory`, `loss`, `round_` … One that takes `memory` returns (result, memory);
the others return the result, and their memory stays a zero-width tensor.
"""

from __future__ import annotations

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
        """Apply it; gives its result and its memory."""
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


def number(rule: str, f: Count, otherwise: int | None = None) -> int:
    """The option `f` of a rule as a number.

    Args:
        rule: its name.
        f: as given; an experiment has replaced "auto" already.
        otherwise: what "auto" means outside an experiment, for rules that compute the
            same whatever f is; None refuses.
    """
    if f == "auto":
        if otherwise is not None:
            return otherwise
        raise Refusal(
            f"{rule}'s f = 'auto' is known within an experiment alone; say how many of "
            "the rows may be hostile, such as f = 2"
        )
    if f < 0:
        raise Refusal(f"{rule}'s f = {f} must be at least 0, or 'auto'")
    return f


def enough(rule: str, n: int, f: int, least: int, law: str, strict: bool) -> None:
    """Refuse too few rows for what a rule promises; without hostile ones, nothing.

    Args:
        rule: its name.
        n: rows there are.
        f: rows that may be hostile.
        least: rows there must be.
        law: that condition in letters, such as "n ≥ 2f + 3".
        strict: false lets everything pass, and then nothing is promised.
    """
    if strict and f > 0 and n < least:
        raise Refusal(
            f"{rule} with f = {f} holds for {law} = {least}, and n is {n}; lower f, "
            "raise train.cohort, or set strict = false and do without its guarantee"
        )


def share(cohort: int, hostile: int, clients: int) -> int:
    """What `f = "auto"` comes to: hostile of all clients, of a cohort, rounded down."""
    return cohort * hostile // max(1, clients)
