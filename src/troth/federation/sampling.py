"""Who is asked in a round."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch

from troth import seeding

There = Callable[[int, np.ndarray], np.ndarray]
"""Round, ids → which of them are there: a mask."""


def named(
    how: str, seed: int, cohort: int, size: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """`train.sampling`; arguments as of `sampler`."""
    if how == "ditto":
        return published(cohort, size, there)
    return sampler(seed, len(size), cohort, size if how == "size" else None, there)


def sampler(
    seed: int, n: int, cohort: int, size: np.ndarray | None, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """`cohort` of the clients that are there, without replacement, ascending.

    Clients are drawn from all, and those that are not there are passed over, which is
    the law of drawing among those that are. Only clients that were drawn are looked at;
    all of them only where too few are there to fill the cohort, which is then smaller.

    Args:
        seed: the experiment's.
        n: clients.
        cohort: how many are asked; n asks all that are there.
        size: None draws uniformly; else clients are drawn one after another in
            proportion to their sizes among those not yet drawn, as numpy's `choice`.
        there: who is there in a round; None: everybody, always.
    """
    if cohort >= n:
        return lambda r: _present(there, r, np.arange(n))
    if size is None:
        return lambda r: np.sort(_uniformly(seed, r, n, cohort, there))
    edges = np.cumsum(size.astype(np.float64))

    def by_size(r: int) -> np.ndarray:
        found: list[int] = []
        for i in range(0 if 2 * cohort > n else 8):
            count = 2 * cohort << (i if there else 0)  # more, where few may be there
            u = _uniform(seed, r, i, count)
            drawn = np.searchsorted(edges, u * edges[-1], side="right")
            found += _present(there, r, drawn).tolist()
            found = list(dict.fromkeys(found))[:cohort]  # drawn twice counts once
            if len(found) == cohort:
                return np.sort(np.array(found))
            if count > n:
                break
        return np.sort(_race(seed, r, size, cohort, np.array(found, int), there))

    return by_size


def published(
    cohort: int, size: np.ndarray, there: There | None = None
) -> Callable[[int], np.ndarray]:
    """The very clients that the Ditto authors' code asks in a round, in its order.

    It seeds numpy with the round + 4, whatever the seed of the run. What a model is
    worth after the last round of an attack hangs in part on who was asked in the last
    few. Those who are not there leave a smaller cohort.
    """
    share, cohort = size / size.sum(), min(cohort, int((size > 0).sum()))
    exactly = share.tobytes()
    return lambda r: _present(there, r, _chosen(r, cohort, exactly).copy())


@lru_cache(maxsize=64)
def _chosen(r: int, cohort: int, share: bytes) -> np.ndarray:
    """As `published`, once for all runs that are trained together."""
    p, random = np.frombuffer(share), np.random.RandomState(r + 4)
    return random.choice(len(p), cohort, replace=False, p=p)


@lru_cache(maxsize=64)
def _uniform(seed: int, r: int, i: int, count: int) -> np.ndarray:
    """Numbers in [0, 1]; once for all runs of one seed that are trained together."""
    key = seeding.key(seed, "cohort", r, i)
    found: np.ndarray = seeding.uniform(key, count, torch.float64).numpy()
    return found


def _present(there: There | None, r: int, ids: np.ndarray) -> np.ndarray:
    return ids if there is None else ids[there(r, ids)]


def _uniformly(
    seed: int, r: int, n: int, cohort: int, there: There | None
) -> np.ndarray:
    """The first of a random order of all clients, of which no more is made than used.

    The order is that of `seeding.choose`.
    """
    key = seeding.key(seed, "cohort", r).numpy()[None]
    found, last = np.zeros(0, np.int64), 0
    while len(found) < cohort and last < n:
        first, last = last, min(n, 2 * last or cohort)
        drawn = seeding.permute(key, np.arange(first, last), np.array([n]))
        found = np.append(found, _present(there, r, drawn))
    return found[:cohort]


def _race(
    seed: int,
    r: int,
    size: np.ndarray,
    cohort: int,
    found: np.ndarray,
    there: There | None,
) -> np.ndarray:
    """Where many come twice: the rest by a race of exponentials, the same law."""
    ids = _present(there, r, np.arange(len(size)))
    key = seeding.keys(seed, "race", r, torch.from_numpy(ids))
    u = seeding.uniform(key, 1, torch.float64)[:, 0].numpy()
    with np.errstate(divide="ignore"):
        times = -np.log(u) / size[ids]
    times[np.isin(ids, found)] = -1.0
    return ids[np.argsort(times, kind="stable")[:cohort]]
