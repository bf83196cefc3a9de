"""Search for the strength with which an attack does most harm to a known defense."""

from collections.abc import Callable

import torch
from torch import Tensor

from troth import numerics
from troth.config.checks import expect
from troth.server.attacks import _crowd
from troth.types import Messages

Defence = Callable[[Messages], Tensor]
"""Messages → the aggregated update [d]; zeros if the shared model would not change."""

_GOLDEN = (5**0.5 - 1) / 2
_CLOSE = 1e-6  # the search ends at this relative width of the interval
_POWERS = 20  # number of powers of two around 1: from about 10⁻³ to 10³
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
    """Replace all malicious updates by the vector that does most harm to the defense.

    The harm is ‖defence(attacked messages) − mean of the benign updates‖. The function
    `row` maps the mean and standard deviation of the benign updates and a strength to
    an update. The strength `plain` is tried first.
    """
    must = "at least 1 (the plain attack alone); 20 find a strength up to 32 to 2 %"
    expect(evaluations > 0, f"{attack}'s evaluations", evaluations, must)

    def strongest_row(mean: Tensor, std: Tensor) -> Tensor:
        def harm(strength: float) -> float:
            sent = _crowd.sent(messages, hostile, row(mean, std, strength))
            step = defence(sent).double()
            # If the step is not finite, the server does not change w.
            step = torch.where(step.isfinite().all(), step, 0.0)
            return float(numerics.norms((step - mean)[None])[0])

        return row(mean, std, strongest(harm, plain, evaluations))

    return _crowd.replaced(messages, hostile, strongest_row)


def strongest(harm: Callable[[float], float], plain: float, evaluations: int) -> float:
    """Return the most harmful strength that was tried; the first one wins a tie.

    1. Try the strength `plain`.
    2. Use half of the evaluations to try powers of two around 1, at most 20.
    3. If the largest strength is the best so far, double it as long as the harm grows.
    4. Use the remaining evaluations for a golden-section search between the strengths
       next to the best one.

    The golden-section search finds the maximum if there is only one, for example if the
    harm grows with the strength until the defense detects the attack. All strengths
    have the sign of `plain`.
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
    """Search between low and high by golden section while evaluations are left."""
    left, right = (high - _GOLDEN * (high - low), low + _GOLDEN * (high - low))
    while high - low > _CLOSE * high:
        look(left)
        look(right)
        if left not in tried or right not in tried:
            return
        if tried[left] >= tried[right]:  # equal: the defense may detect both
            high, right = right, left
            left = high - _GOLDEN * (high - low)
        else:
            low, left = left, right
            right = low + _GOLDEN * (high - low)
