"""Samplers by name: who is asked in a round."""

from collections.abc import Callable

import numpy as np

from troth import lookup
from troth.federation.samplers import There

Sampler = Callable[[int], np.ndarray]
"""Round → ids of the clients that are asked."""


def named(
    how: str, seed: int, cohort: int, size: np.ndarray, there: There | None = None
) -> Sampler:
    """`train.sampling` of clients of these sizes, as `federation.samplers` has it."""
    given = {"seed": seed, "n": len(size), "cohort": cohort, "size": size}
    options = lookup.check("sampler", how, {})
    function = lookup.find("sampler", how)
    found: Sampler = lookup.call(function, options, **given, there=there)
    return found


def by_size(how: str) -> bool:
    """Whether a sampler needs to know how many examples clients have."""
    return "size" in lookup.asks(lookup.find("sampler", how))


def sampler(
    seed: int, n: int, cohort: int, size: np.ndarray | None, there: There | None = None
) -> Sampler:
    """By size; uniformly where there are none."""
    if size is None:
        return named("uniform", seed, cohort, np.broadcast_to(1, n), there)
    return named("size", seed, cohort, size, there)


def published(cohort: int, size: np.ndarray, there: There | None = None) -> Sampler:
    """Of the Ditto authors' code."""
    return named("ditto", 0, cohort, size, there)
