"""Find leaks from training to test data: shared examples, copies and owners.

Test classes without training data are found too. Nothing is changed: leaks are counted,
and raise Refusal if the user wants this.
"""

import hashlib
from typing import Any, Literal

import numpy as np

from troth.types import Arrays, Refusal, Shards

_PARTS = ("training", "validation", "test")


def examine(
    arrays: Arrays, shards: Shards, wish: Literal["allow", "record", "refuse"]
) -> dict[str, Any]:
    """Check for classes without training data, and for leaks from training to test.

    Args:
        arrays: the data set.
        shards: the rows of each client for training, validation and test.
        wish: "allow": do not search for copies. "record": count leaks. "refuse": raise
            Refusal if there are any.

    Returns:
        Two facts. `leaked` is the number of examples that one client uses for training
        or validation, and another for test. `duplicates` (missing with "allow") is the
        number of test examples that have a copy, with equal x and y, in training or
        validation data.

    Raises:
        Refusal: A class is in test data only, or with "refuse" there are leaks.
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
            f"partition.leakage = 'refuse', and of {tested.sum()} test examples, "
            f"{facts['leaked']} are also trained on by another client and {len(twins)} "
            f"have a copy that is trained on (the first is row {first}): remove the "
            "copies and give no example to two clients, or set partition.leakage = "
            "'record'"
        )
    return facts


def check_classes(arrays: Arrays, shards: Shards) -> None:
    """Raise Refusal if a class is in test data, but in no client's training data."""
    if not arrays.classes:
        return
    parts = np.concatenate(shards.train), np.unique(np.concatenate(shards.test))
    learnt, tested = (
        np.bincount(arrays.y[rows], minlength=arrays.classes)
        if arrays.y.ndim == 1
        else arrays.y[rows].sum(axis=0)
        for rows in parts
    )
    unseen = np.flatnonzero((tested > 0) & (learnt == 0))
    if len(unseen):
        some = ", ".join(
            f"{repr(arrays.labels[c]) if arrays.labels else c} "
            f"({tested[c]} example{'s' if tested[c] != 1 else ''})"
            for c in unseen[:4]
        )
        more = f" and {len(unseen) - 4} more" if len(unseen) > 4 else ""
        raise Refusal(
            "found only in the test data, so that no client can learn it: class "
            f"{some}{more}; leave these examples out, merge the class with another, or "
            "move some to training (by another split or seed)"
        )


def copies(arrays: Arrays, learnt: np.ndarray, tested: np.ndarray) -> np.ndarray:
    """Return the test rows whose x and y are equal to those of another training row.

    Args:
        arrays: the data set.
        learnt: [m] mask of rows for training or validation.
        tested: [m] mask of rows for test.
    """
    key, rows = keys(arrays), np.flatnonzero(tested)
    known = np.sort(key[learnt])
    first = np.searchsorted(known, key[rows], "left")
    last = np.searchsorted(known, key[rows], "right")
    return rows[last - first > learnt[rows]]  # not counting the row itself


def keys(arrays: Arrays) -> np.ndarray:
    """Return a 64-bit hash of every example, equal if x and y are equal: [m] int64.

    Zeros of either sign are equal, and NaN equals NaN.
    """
    digests = (  # adding 0 turns −0 into 0
        hashlib.blake2b((x + 0).tobytes() + (y + 0).tobytes(), digest_size=8).digest()
        for x, y in zip(arrays.x, arrays.y, strict=True)
    )
    return np.frombuffer(b"".join(digests), np.int64)


def owners(
    arrays: Arrays,
    row: np.ndarray,
    client: np.ndarray,
    number: np.ndarray,
    given: bool,
) -> np.ndarray:
    """Return the owner of each slot, which is one example of one client.

    Args:
        arrays: the data set.
        row: [slots] row of the data set (see `split.Held`).
        client: [slots] index of the client.
        number: [n] number of each client, for error messages.
        given: whether the data's own split is used.

    Raises:
        Refusal: An owner belongs to two clients, or to two parts of the data's split.
            If the split is drawn: a client has fewer than two owners.
    """
    asked = "partition.split_by = 'owner' needs"
    if arrays.owner is None:
        raise Refusal(
            f"{asked} data with an owner for each example, and these have none: add "
            "owners to the data, or set split_by to 'example'"
        )
    owner: np.ndarray = arrays.owner[row]
    if divided := _divided(owner, client):
        who, *both = divided
        raise Refusal(
            f"{asked} each owner on one client, and owner {who} is on clients "
            f"{number[both[0]]} and {number[both[1]]}: use the partition 'identities', "
            "or set split_by to 'example'"
        )
    if given and arrays.split is not None:
        if divided := _divided(owner, arrays.split[row]):
            who, one, other = divided
            raise Refusal(
                f"partition.split_by = 'owner' and the data mark examples of owner "
                f"{who} both for {_PARTS[one]} and for {_PARTS[other]}: give "
                "partition.split as fractions, or set split_by to 'example'"
            )
        return owner
    _, first = np.unique(owner, return_index=True)
    few = np.flatnonzero(np.bincount(client[first], minlength=len(number)) < 2)
    if len(few):
        raise Refusal(
            f"{asked} 2 owners on every client, one to train and one to test on, and "
            f"{len(few)} of {len(number)} clients have fewer, the first client "
            f"{number[few[0]]}: use the partition 'identities' with per_client = 2 or "
            "more, or set split_by to 'example'"
        )
    return owner


def _divided(owner: np.ndarray, by: np.ndarray) -> tuple[int, int, int] | None:
    """Return the first owner with two values of `by`, and both values, or None."""
    order = np.lexsort((by, owner))
    owner, by = owner[order], by[order]
    cut = (owner[1:] == owner[:-1]) & (by[1:] != by[:-1])
    if not cut.any():
        return None
    at = int(cut.argmax())
    return int(owner[at]), int(by[at]), int(by[at + 1])
