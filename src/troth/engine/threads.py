"""Work that is spread over threads, each with one core of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch


def spread(one: Callable[[int, int], Any], n: int, workers: int) -> list[Any]:
    """`one(worker, k)` for k < n, in order; each worker does every so-many-th.

    Args:
        one: a piece of work; what belongs to a worker is used by its thread alone.
        n: how many pieces.
        workers: threads; torch has one core in each while they run.
    """
    workers = min(workers, n)
    if workers <= 1:
        return [one(0, k) for k in range(n)]

    def share(worker: int) -> list[Any]:
        with torch.no_grad():
            return [one(worker, k) for k in range(worker, n, workers)]

    with _one_core_each(), ThreadPoolExecutor(workers) as pool:
        shares = list(pool.map(share, range(workers)))
    return [shares[k % workers][k // workers] for k in range(n)]


@contextmanager
def _one_core_each() -> Iterator[None]:
    """Inside, torch has one core in every thread, and starts none of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
