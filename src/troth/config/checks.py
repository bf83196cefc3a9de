"""Checks of settings: out of range, without effect, or mutually exclusive."""

import math
from dataclasses import fields
from typing import Any, Literal

from troth.types import Refusal


def in_range(owner: Any, section: str, interval: str, *keys: str) -> None:
    """Refuse numbers outside an interval such as "[0, 1)"; NaN is always outside."""
    low, high = interval[1:-1].split(", ")
    for key in keys:
        value = getattr(owner, key)
        if value is None or (
            float(low) <= value <= float(high)
            and (value != float(low) or interval[0] == "[")
            and (value != float(high) or interval[-1] == "]")
        ):
            continue
        bounds = f"{'at least' if interval[0] == '[' else 'above'} {low}"
        if high != "inf":
            bounds += f" and {'at most' if interval[-1] == ']' else 'below'} {high}"
        elif value == math.inf:
            bounds += " and finite"
        name = f"{section}.{key}".lstrip(".")
        raise Refusal(f"{name} = {value} is out of range; it must be {bounds}")


def idle(owner: Any, section: str, missing: str, *keys: str) -> None:
    """Refuse keys that are set but have no effect without the missing setting."""
    for f in fields(owner):
        value = getattr(owner, f.name)
        if f.name in keys and value and value != f.default:
            raise Refusal(
                f"{section}.{f.name} = {value!r} does nothing without {missing}, or "
                f"leave {f.name} out"
            )


def alone(section: str, **values: Any) -> None:
    """Refuse keys that are set together although at most one of them may be set."""
    given = [key for key, value in values.items() if value is not None]
    if len(given) > 1:
        both = " and ".join(f"{section}.{key} = {values[key]}" for key in given)
        raise Refusal(
            f"{both} exclude each other; keep one of {', '.join(given)} "
            "and leave the others out"
        )


def expect(fits: bool, option: str, value: object, must: str) -> None:
    """Refuse an option whose value does not fit, and say what it must be."""
    if not fits:
        raise Refusal(f"{option} = {value} must be {must}")


def coupled(option: str, value: float | Literal["auto"]) -> float:
    """Return the number in an option; refuse "auto".

    With the personalizer `coupled`, "auto" was replaced by a number before.
    """
    if value == "auto":
        remedy = "is known only with personalizer 'coupled'; set it to a number"
        raise Refusal(f"{option} = 'auto' {remedy}")
    return value
