"""What stands on both sides: examples, their copies and owners, in training and test.

Nothing is changed here: it is counted, written down, or refused.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from troth import seeding
from troth.types import Arrays, Refusal, Shards

_PARTS = ("training", "validation", "test")
_BLOCK = 1 << 22  # bytes that are read at once


def examine(
    arrays: Arrays, shards: Shards, wish: Literal["allow", "record", "refuse"]
) -> dict[str, Any]:
    """Look for classes that nobody trains on, and for leaks from training to test.

    Args:
        arrays: the data.
        shards: who trains, validates and tests on what.
        wish: what to do about leaks: "allow" does not look for copies, "record" counts
            them, "refuse" refuses them.

    Returns:
        Facts: `leaked`, examples that one client trains or validates on and another
        tests on; `duplicates` (unless allowed), examples that are tested on while
        another example, the same in x and y, is trained or validated on.

    Raises:
        Refusal: a class that is tested on and that no client trains on; or a leak,
            where leaks are refused.
    """
    check_classes(arrays, shards)
    learnt, tested = np.zeros((2, len(arrays.y)), bool)
    learnt[np.concatenate([*shards.train, *shards.valid])] = True
    tested[np.concatenate(shards.test)] = True
    facts = {"leaked": int((learnt & tested).sum())}
    if wish == "allow":
        return facts
    twins = copies(arrays, learnt, tested)
    facts["duplicates"] = len(twins)
    if wish == "refuse" and (facts["leaked"] or len(twins)):
        first = twins[0] if len(twins) else (learnt & tested).argmax()
        raise Refusal(
            f"partition.leakage = 'refuse' and of {tested.sum()} examples tested on, "
            f"{facts['leaked']} are also trained on by another client and {len(twins)} "
            f"have a copy that is trained on (the first is row {first}): remove the "
            "copies and give no example to two clients, or set partition.leakage = "
            "'record'"
        )
    return facts


def check_classes(arrays: Arrays, shards: Shards) -> None:
    """Refuse a class that some client is tested on and none trains on."""
    if not arrays.classes:
        return
    train, test = np.concatenate(shards.train), np.unique(np.concatenate(shards.test))
    if arrays.y.ndim == 1:
        learnt, tested = (
            np.bincount(arrays.y[rows], minlength=arrays.classes)
            for rows in (train, test)
        )
    else:
        learnt, tested = (arrays.y[rows].sum(axis=0) for rows in (train, test))
    unseen = np.flatnonzero((tested > 0) & (learnt == 0))
    if len(unseen):
        some = ", ".join(
            f"{repr(arrays.labels[c]) if arrays.labels else c} "
            f"({tested[c]} example{'s' if tested[c] != 1 else ''})"
            for c in unseen[:4]
        )
        more = f" and {len(unseen) - 4} more" if len(unseen) > 4 else ""
        raise Refusal(
            f"{'classes' if len(unseen) > 1 else 'class'} {some}{more} "
            f"{'are' if len(unseen) > 1 else 'is'} seen only in test, so that nobody "
            "can learn to tell: leave these examples out, join the class to another, "
            "or have some in training (by other marks, shares or seed)"
        )


def copies(arrays: Arrays, learnt: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """The rows tested on that have a copy, in another row, among those learnt.

    Args:
        arrays: the data; a copy is the same in x and in y.
        learnt: [m] whether some client trains or validates on it.
        tested: [m] whether some client tests on it.
    """
    key, rows = keys(arrays), np.flatnonzero(tested)
    known = np.sort(key[learnt])
    first = np.searchsorted(known, key[rows], "left")
    last = np.searchsorted(known, key[rows], "right")
    return rows[last - first > learnt[rows]]  # beside the row itself


def keys(arrays: Arrays) -> np.ndarray:
    """64 bits for every example, equal where x and y are: [m] int64.

    Two sums of 32-bit words times random odd 64-bit numbers (multiply-shift hashing,
    Dietzfelbinger et al. 1997), mixed: examples that differ are taken for equal with
    probability below 2⁻⁶³ a pair. Zeros of either sign are equal, and NaN is itself.
    """
    m = len(arrays.y)
    key = torch.zeros(m, dtype=torch.long)
    for values in (arrays.x, arrays.y):
        flat = values.reshape(m, -1)
        words = -(-flat.shape[1] * flat.itemsize // 4)
        random = seeding.generator(0, "leakage", words)
        factor = random.integers(0, 2**63, (words, 2), np.uint64) * 2 + 1
        step = max(1, _BLOCK // (8 * words))
        for i in range(0, m, step):
            sums = torch.from_numpy(
                (_words(flat[i : i + step]) @ factor).view(np.int64)
            )
            for j in range(2):
                key[i : i + step] = seeding.fold(key[i : i + step], sums[:, j])
    return key.numpy()


def _words(values: np.ndarray) -> np.ndarray:
    """The bytes of each row as 32-bit words, in 64 bits; the last is filled with 0."""
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)  # −0 becomes 0
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    if lack := -raw.shape[1] % 4:
        raw = np.pad(raw, ((0, 0), (0, lack)))
    return raw.view(np.uint32).astype(np.uint64)


def owners(
    arrays: Arrays,
    row: np.ndarray,
    client: np.ndarray,
    number: np.ndarray,
    given: bool,
) -> np.ndarray:
    """Whose each slot is, where every owner is to stand in one part.

    Args:
        arrays: the data.
        row: [slots] which example it is.
        client: [slots] whose slot it is, 0 … n-1.
        number: [n] how refusals call the client.
        given: whether parts are as the data are marked; else they are dealt, which
            takes two owners a client.

    Raises:
        Refusal: the data do not say whose an example is, two clients have examples of
            one owner, a client has too few owners, or the marks divide one.
    """
    if arrays.owner is None:
        raise Refusal(
            "partition.split_by = 'owner' needs data that say whose each example is "
            "and these do not: add an owner to the data, or set it to 'example'"
        )
    owner: np.ndarray = arrays.owner[row]
    if found := _divided(owner, client):
        who, *both = found
        raise Refusal(
            f"partition.split_by = 'owner' needs each owner with one client and owner "
            f"{who} is with clients {number[both[0]]} and {number[both[1]]}: use the "
            "partition 'identities', or set it to 'example'"
        )
    if given:
        _check_marks(arrays, row, owner)
    else:
        _check_enough(owner, client, number)
    return owner


def _divided(owner: np.ndarray, by: np.ndarray) -> tuple[int, int, int] | None:
    """The first owner that stands at two values, and these; None: there is none."""
    order = np.lexsort((by, owner))
    owner, by = owner[order], by[order]
    cut = (owner[1:] == owner[:-1]) & (by[1:] != by[:-1])
    if not cut.any():
        return None
    at = int(cut.argmax())
    return int(owner[at]), int(by[at]), int(by[at + 1])


def _check_marks(arrays: Arrays, row: np.ndarray, owner: np.ndarray) -> None:
    assert arrays.split is not None
    if found := _divided(owner, arrays.split[row]):
        who, one, other = found
        raise Refusal(
            f"partition.split_by = 'owner' and the data mark examples of owner {who} "
            f"both for {_PARTS[one]} and for {_PARTS[other]}: give partition.split as "
            "fractions, or set split_by to 'example'"
        )


def _check_enough(owner: np.ndarray, client: np.ndarray, number: np.ndarray) -> None:
    _, first = np.unique(owner, return_index=True)
    few = np.flatnonzero(np.bincount(client[first], minlength=len(number)) < 2)
    if len(few):
        raise Refusal(
            f"partition.split_by = 'owner' needs 2 owners a client, one to train and "
            f"one to test on, and {len(few)} of {len(number)} clients have fewer, the "
            f"first client {number[few[0]]}: use the partition 'identities' with "
            "per_client = 2 or more, or set it to 'example'"
        )
