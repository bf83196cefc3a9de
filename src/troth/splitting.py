"""Each client's examples into training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from troth import seeding
from troth.types import TEST, TRAIN, VALID, Arrays, Refusal, Shards

Fractions = tuple[float, float, float]


def split(
    arrays: Arrays,
    lists: Sequence[np.ndarray],
    seed: int,
    *,
    parts: Fractions | Literal["given"] = (0.72, 0.08, 0.20),
    valid: float = 0.0,
    min_examples: int = 0,
) -> tuple[Shards, dict[str, Any]]:
    """Split what each client holds into training, validation and test.

    A client's split depends on the seed, its number and its own examples, not on the
    other clients. The parts are as near the fractions as whole numbers can be, and each
    gets its share of every label (see `deal`). With fractions, 2 examples are enough:
    one to train and one to test on.

    Args:
        arrays: the data; NaN and infinity in it are refused.
        lists: the rows that each client holds, as a partition gives them.
        seed: the experiment's seed.
        parts: fractions for training, validation and test, or "given": as the data say.
        valid: with "given" and no validation examples marked, the share of each
            client's training examples that becomes validation; 0 takes none.
        min_examples: clients with fewer are dropped and the others numbered anew.

    Returns:
        The rows of each part of each client, and facts: `clients`, how many; `dropped`,
        numbers (as in lists) of those dropped; `repeated`, places filled with an
        example that another client holds too; `leaked`, examples that one client
        trains or validates on and another tests on (0 unless lists share examples).

    Raises:
        Refusal: bad fractions, bad data, or a client without training or test data.
    """
    _check_data(arrays)
    _check_options(arrays, parts, valid, min_examples)
    kept = _kept(arrays, lists, min_examples)
    shards = Shards([], [], [])
    for k, mine in kept.items():
        random = seeding.generator(seed, "split", k)
        labels = arrays.y[mine] if arrays.classes else np.zeros(len(mine), np.int64)
        if parts == "given":
            part = _given(arrays, mine, labels, valid, random)
        else:
            part = deal(labels, parts, random)
        for mark, shard in zip((TRAIN, VALID, TEST), shards, strict=True):
            shard.append(mine[part == mark])
    _check_shards(shards, kept, parts)
    return shards, _facts(arrays, shards, kept, len(lists))


def deal(
    labels: np.ndarray, parts: Fractions, random: np.random.Generator
) -> np.ndarray:
    """TRAIN, VALID or TEST for every label, at random, in these fractions.

    Systematic sampling: the examples stand in a row, label by label, shuffled within a
    label; test takes every so-many-th from a random start, then validation of what is
    left. Sizes are exact, every example has the same chance, and of every label test
    gets its share rounded down or up; validation and training are off by less than 2.
    """
    _, code = np.unique(labels, return_inverse=True)
    row = random.permutation(len(labels))
    row = row[np.argsort(random.permutation(len(labels))[code[row]], kind="stable")]
    part = np.full(len(labels), TRAIN, np.int8)
    sizes = _sizes(len(labels), parts)
    for mark in (TEST, VALID):
        count, start = sizes[mark], random.integers(max(len(row), 1))
        taken = (np.arange(count) * len(row) + start) // max(count, 1)
        part[row[taken]] = mark
        row = np.delete(row, taken)
    return part


def _sizes(m: int, parts: Fractions) -> list[int]:
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


def _given(
    arrays: Arrays,
    mine: np.ndarray,
    labels: np.ndarray,
    valid: float,
    random: np.random.Generator,
) -> np.ndarray:
    """The marks of the data, with a share of the training examples for validation."""
    assert arrays.split is not None
    part: np.ndarray = arrays.split[mine].astype(np.int8)
    if valid > 0:
        train = np.flatnonzero(part == TRAIN)
        part[train] = deal(labels[train], (1 - valid, valid, 0.0), random)
    return part


def _check_data(arrays: Arrays) -> None:
    if len(arrays.x) != len(arrays.y) or len(arrays.y) == 0:
        raise Refusal(
            f"the data have {len(arrays.x)} inputs x and {len(arrays.y)} targets y: "
            "give one target an input, and at least one"
        )
    for name, values in (("x", arrays.x), ("y", arrays.y)):
        if values.dtype.kind == "f" and not (fine := np.isfinite(values)).all():
            bad = ~fine.reshape(len(values), -1).all(axis=1)
            raise Refusal(
                f"{name} is NaN or infinite in {bad.sum()} of {len(values)} examples "
                f"(first in row {bad.argmax()}): drop these rows or fill them in"
            )


def _check_options(
    arrays: Arrays,
    parts: Fractions | Literal["given"],
    valid: float,
    min_examples: int,
) -> None:
    if not 0 <= valid < 1:
        raise Refusal(
            f"partition.valid = {valid} must be a share: at least 0 and less than 1"
        )
    if min_examples < 0:
        raise Refusal(f"partition.min_examples = {min_examples} must be at least 0")
    if parts == "given":
        _check_given(arrays, valid)
        return
    good = not isinstance(parts, str) and len(parts) == 3
    good = good and all(0 <= p <= 1 for p in parts)
    if not good or abs(sum(parts) - 1) > 1e-6 or parts[TRAIN] == 0 or parts[TEST] == 0:
        raise Refusal(
            f"partition.split = {parts!r} must be three fractions that sum to 1, "
            "for training, validation and test, of which only validation may be 0, or "
            "'given'"
        )
    if valid > 0:
        raise Refusal(
            f"partition.valid = {valid} goes only with partition.split = 'given': with "
            f"fractions the second is validation, now {parts[VALID]}"
        )


def _check_given(arrays: Arrays, valid: float) -> None:
    if arrays.split is None:
        raise Refusal(
            "partition.split = 'given' needs data marked as training and test and "
            "these are not: give fractions such as [0.72, 0.08, 0.2]"
        )
    if valid > 0 and (marked := int((arrays.split == VALID).sum())):
        raise Refusal(
            f"partition.valid = {valid} but the data mark {marked} examples as "
            "validation already: set partition.valid = 0 to use these"
        )


def _kept(
    arrays: Arrays, lists: Sequence[np.ndarray], min_examples: int
) -> dict[int, np.ndarray]:
    """The rows of every client that is not dropped, sorted; its number → rows."""
    m, most = len(arrays.y), max(map(len, lists), default=0)
    if most < max(min_examples, 1):
        raise Refusal(
            f"partition.min_examples = {min_examples} leaves no client, for the "
            f"largest of {len(lists)} holds {most} examples: set it to at most {most}"
            if most
            else "the partition gives no client any example: choose another partition"
        )
    kept = {
        k: np.sort(np.asarray(mine, np.int64))
        for k, mine in enumerate(lists)
        if len(mine) >= min_examples
    }
    for k, mine in kept.items():
        wrong = mine[(mine < 0) | (mine >= m)]
        twice = mine[1:][mine[1:] == mine[:-1]]
        if len(wrong) or len(twice):
            row = int([*wrong, *twice][0])
            raise Refusal(
                f"the partition gives row {row} to client {k}, "
                f"{'which is not one' if len(wrong) else 'twice'}: rows are 0 to "
                f"{m - 1}, each at most once a client"
            )
    return kept


def _check_shards(
    shards: Shards,
    kept: dict[int, np.ndarray],
    parts: Fractions | Literal["given"],
) -> None:
    """Refuse clients that cannot train or cannot be tested."""
    ids = list(kept)
    bad = {
        k: "test" if len(train) else "training"
        for k, train, test in zip(ids, shards.train, shards.test, strict=True)
        if not (len(train) and len(test))
    }
    if not bad:
        return
    enough = 1 + max(len(kept[k]) for k in bad)
    left = sum(len(mine) >= enough for mine in kept.values())
    if left:
        remedy = f"set partition.min_examples = {enough}, which keeps {left} clients"
    elif parts == "given":
        remedy = (
            "partition.min_examples cannot help, for no client holds more: give "
            "partition.split as fractions, such as [0.72, 0.08, 0.2]"
        )
    else:
        remedy = "partition.min_examples cannot help: use fewer clients"
    some = ", ".join(f"{k} (no {bad[k]} data)" for k in list(bad)[:4])
    more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
    raise Refusal(
        f"{len(bad)} of {len(kept)} clients lack training or test data: "
        f"{some}{more}; {remedy}"
    )


def _facts(
    arrays: Arrays, shards: Shards, kept: dict[int, np.ndarray], clients: int
) -> dict[str, Any]:
    slots = np.bincount(np.concatenate(list(kept.values())), minlength=len(arrays.y))
    learnt, tested = np.zeros((2, len(arrays.y)), bool)
    learnt[np.concatenate([*shards.train, *shards.valid])] = True
    tested[np.concatenate(shards.test)] = True
    return {
        "clients": len(kept),
        "dropped": [k for k in range(clients) if k not in kept],
        "repeated": int((slots - (slots > 0)).sum()),
        "leaked": int((learnt & tested).sum()),
    }
