"""Plain functions of a round (attacks, filters, aggregators, servers) as rules.

A member takes what it needs by name: `broadcast`, `messages`, `hostile`, `step`,
`key`, `memory`, `loss`, `round_` … One that takes `memory` returns (result, memory);
the others return the result, and their memory stays a zero-width tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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
