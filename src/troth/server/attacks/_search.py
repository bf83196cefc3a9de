"""The strength at which an attack does most harm to a known defence."""

from collections.abc import Callable

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.attacks import _crowd
from troth.types import Messages

Defence = Callable[[Messages], Tensor]
"""Messages → the step [d] that the server would take, rehearsed; zeros: w stays."""

_GOLDEN = (5**0.5 - 1) / 2
_CLOSE = 1e-6  # of the strength: no use in looking closer
_POWERS = 20  # of two, around 1: from about 10⁻³ to 10³
_CEILING = 2.0**60


def worst(
    attack: str,
    messages: Messages,
    hostile: Tensor,
    defence: Defence,
    evaluations: int,
    plain: float,
    row: Callable[[Tensor, Tensor, float], Tensor],
) -> Messages:
    """Replace all malicious rows by what does most harm, ‖defence(attacked) − mean‖.

    `row` makes it of mean, deviation and strength, from the strength `plain` on.
    """
    must = "at least 1 (the plain attack alone); 20 find a strength up to 32 to 2 %"
    expect(evaluations > 0, f"{attack}'s evaluations", evaluations, must)

    def strongest_row(mean: Tensor, std: Tensor) -> Tensor:
        def harm(strength: float) -> float:
            sent = _crowd.sent(messages, hostile, row(mean, std, strength))
            step = defence(sent).double()
            step = torch.where(step.isfinite().all(), step, 0.0)  # else w stays
            return float(numerics.norms((step - mean)[None])[0])

        return row(mean, std, strongest(harm, plain, evaluations))

    return _crowd.replaced(messages, hostile, strongest_row)


def strongest(harm: Callable[[float], float], plain: float, evaluations: int) -> float:
    """Return the strength that does most harm of those tried; of equal ones the first.

    First the plain one, then powers of two around 1 with half of the evaluations (20 at
    most); if the largest is the best, it is doubled while the harm grows; the rest
    narrows the interval between the neighbors of the best by golden section, which
    finds the maximum if there is one (harm that grows and then breaks off, when a
    defence sees through it, included). Strengths have the sign of the plain one.
    """
    side = -1.0 if plain < 0 else 1.0
    tried: dict[float, float] = {}

    def look(size: float) -> None:
        if size not in tried and len(tried) < evaluations:
            tried[size] = harm(side * size)

    def best() -> float:
        return max(tried, key=tried.__getitem__)

    look(abs(plain))
    for i in range(min(evaluations // 2, _POWERS)):
        look(2.0 ** ((i + 1) // 2 * (1 if i % 2 else -1)))
    while best() == max(tried) < _CEILING and len(tried) < evaluations:
        look(2 * best())
    low = max((size for size in tried if size < best()), default=0.0)
    high = min((size for size in tried if size > best()), default=best())
    _narrow(look, tried, low, high)
    return side * best()


def _narrow(
    look: Callable[[float], None], tried: dict[float, float], low: float, high: float
) -> None:
    """Search from low to high by golden section, until `look` tries nothing more."""
    left, right = (high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
    while high - low > _CLOSE * high:
        look(left)
        look(right)
        if left not in tried or right not in tried:
            return
        if tried[left] >= tried[right]:  # equal: both may be where the defence sees it
            high, right = right, left
            left = high - _GOLDEN * (high - low)
        else:
            low, left = left, right
            right = low + _GOLDEN * (high - low)
