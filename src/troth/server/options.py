"""Refusals of options of rules; attacks use them too, and know no defence."""

from typing import Literal

from troth.types import Refusal


def expect(fits: bool, option: str, value: object, must: str) -> None:
    """Refuse an option whose value does not fit; say what it must be."""
    if not fits:
        raise Refusal(f"{option} = {value} must be {must}")


def coupled(option: str, value: float | Literal["auto"]) -> float:
    """Return an option that only an experiment with personalizer `coupled` fills in."""
    if value == "auto":
        remedy = "is known only with personalizer 'coupled'; set it to a number"
        raise Refusal(f"{option} = 'auto' {remedy}")
    return value
