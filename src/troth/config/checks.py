"""Checks of settings, which raise Refusal.

A setting may be out of range, without effect, or exclude another setting.
"""

import math
from dataclasses import fields
from typing import Any, Literal

from troth.types import Refusal


def in_range(owner: Any, section: str, interval: str, *keys: str) -> None:
    """Raise Refusal if a number is outside an interval such as "[0, 1)".

    NaN is always outside, and None is allowed.

    Args:
        owner: the object with the numbers as attributes.
        section: section of the experiment, for the error message.
        interval: the interval.
        *keys: names of the attributes.
    """
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
    """Raise Refusal if a key is set that has no effect without another setting.

    Args:
        owner: the object with the keys as attributes.
        section: section of the experiment, for the error message.
        missing: the other setting, which is missing, and how to set it.
        *keys: names of the attributes.
    """
    for f in fields(owner):
        value = getattr(owner, f.name)
        if f.name in keys and value and value != f.default:
            raise Refusal(
                f"{section}.{f.name} = {value!r} does nothing without {missing}, or "
                f"leave {f.name} out"
            )


def alone(section: str, **values: Any) -> None:
    """Raise Refusal if more than one of these keys is set, that is, not None."""
    given = [key for key, value in values.items() if value is not None]
    if len(given) > 1:
        both = " and ".join(f"{section}.{key} = {values[key]}" for key in given)
        raise Refusal(
            f"{both} exclude each other; keep one of {', '.join(given)} "
            "and leave the others out"
        )


def expect(fits: bool, option: str, value: object, must: str) -> None:
    """Raise Refusal unless an option's value fits.

    Args:
        fits: whether the value fits.
        option: name of the option.
        value: its value.
        must: what the value must be, for the error message.
    """
    if not fits:
        raise Refusal(f"{option} = {value} must be {must}")


def coupled(option: str, value: float | Literal["auto"]) -> float:
    """Return the value of an option; raise Refusal if it is "auto".

    With the personalizer `coupled`, "auto" is replaced by a number before this call.
    """
    if value == "auto":
        remedy = "is known only with personalizer 'coupled'; set it to a number"
        raise Refusal(f"{option} = 'auto' {remedy}")
    return value
