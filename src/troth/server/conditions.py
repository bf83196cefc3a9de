"""How many hostile rows a rule is to withstand, and whether it can.

Every rule that promises something states its condition by `enough`. An experiment
checks it before the first round; where lost rows break it later, w stays for the round.
"""

from __future__ import annotations

from typing import Literal

from troth.types import Refusal

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
