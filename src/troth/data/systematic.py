"""Systematic sampling: slots into training, validation and test, for all clients."""

from __future__ import annotations

import numpy as np

from troth import seeding
from troth.types import TEST, TRAIN, VALID

Fractions = tuple[float, float, float]
"""Shares of training, validation and test."""


def deal(
    label: np.ndarray,
    client: np.ndarray,
    number: np.ndarray,
    parts: Fractions,
    seed: int,
) -> np.ndarray:
    """TRAIN, VALID or TEST for every slot, at random, in these fractions.

    Systematic sampling: a client's slots stand in a row, label by label, shuffled
    within a label; test takes every so-many-th from a random start, then validation of
    what is left. Sizes are exact, every slot has the same chance, and of every label
    test gets its share rounded down or up; validation and training are off by less
    than 2. All clients are dealt at once; only their draws are made one by one.

    Args:
        label: [slots] what each part gets its share of.
        client: [slots] whose, 0 … n-1, ascending.
        number: [n] the number under which each client draws.
        parts: fractions for training, validation and test.
        seed: the experiment's seed.
    """
    size = np.bincount(client, minlength=len(number))
    some, which = np.unique(size, return_inverse=True)
    sizes = np.array([sizes_of(int(m), parts) for m in some])[which]
    start = np.cumsum(size) - size
    shuffle, turn = np.empty((2, len(client)), np.int64)
    begin = np.zeros((len(number), 3), np.int64)
    each = (number, start, size, size - sizes[:, TEST])
    for k, (own, at, m, rest) in enumerate(
        zip(*(v.tolist() for v in each), strict=True)
    ):
        random = seeding.generator(seed, "split", own)
        shuffle[at : at + m] = random.permutation(m)
        turn[at : at + m] = random.permutation(m)
        begin[k, TEST] = random.integers(max(m, 1))
        begin[k, VALID] = random.integers(max(rest, 1))
    first, code = pairs(client, label)
    code -= np.searchsorted(client[first], np.arange(len(number)))[client]
    slot = shuffle + start[client]
    turns = turn[code[slot] + start[client]]  # of the slot's label
    slot = slot[np.argsort(client * size.max(initial=1) + turns, kind="stable")]
    part = np.full(len(client), TRAIN, np.int8)
    for mark in (TEST, VALID):
        taken = _every(size, sizes[:, mark], begin[:, mark])
        part[slot[taken]] = mark
        slot, size = np.delete(slot, taken), size - sizes[:, mark]
    return part


def pairs(client: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each (client, value) first stands, and which of these every slot is."""
    _, value = np.unique(value, return_inverse=True)
    _, first, code = np.unique(
        client * (value.max(initial=0) + 1) + value,
        return_index=True,
        return_inverse=True,
    )
    return first, code


def _every(size: np.ndarray, count: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Of the clients' places, one client after the other, `count` at equal distances.

    A client of m places gives ⌊(i·m + begin) / count⌋ for i = 0 … count-1.
    """
    i = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    m, offset = np.repeat(size, count), np.repeat(np.cumsum(size) - size, count)
    i = (i * m + np.repeat(begin, count)) // np.repeat(count, count)
    places: np.ndarray = offset + i
    return places


def sizes_of(m: int, parts: Fractions) -> list[int]:
    """Sizes of the parts by largest remainder; training, then test, at least 1."""
    exact = [fraction * m / sum(parts) for fraction in parts]
    sizes = [int(value + 1e-9) for value in exact]
    rest = sorted((TRAIN, TEST, VALID), key=lambda i: sizes[i] - exact[i])
    for i in rest[: m - sum(sizes)]:
        sizes[i] += 1
    for part, other, least in ((TRAIN, TEST, 1), (TEST, TRAIN, 2)):
        if parts[part] > 0 and sizes[part] == 0 and m >= least:
            giver = max((VALID, other), key=sizes.__getitem__)
            sizes[giver], sizes[part] = sizes[giver] - 1, 1
    return sizes
