"""What options of attacks must be."""

from __future__ import annotations

import math

from troth.types import Refusal


def finite(
    attack: str, option: str, value: float, least: float = -math.inf, means: str = ""
) -> None:
    """Refuse a value that is no finite number, or one below `least`.

    Args:
        attack: its name.
        option: the option's name.
        value: as given.
        least: the smallest that is allowed.
        means: what helps to choose one, such as "0 means …".
    """
    if math.isfinite(value) and value >= least:
        return
    bound = "" if least == -math.inf else f" of at least {least:g}"
    hint = f"; {means}" if means else ""
    raise Refusal(f"{attack}'s {option} = {value} must be a finite number{bound}{hint}")
