"""Split each client's examples into training, validation and test data.

A slot is one example of one client. If two clients have the same example, there are two
slots.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from troth import seeding
from troth.config.schema import PartitionPart
from troth.data import leakage
from troth.types import CONFLICTING, TEST, TRAIN, VALID, Arrays, Refusal, Shards

Fractions = tuple[float, float, float]  # of training, validation and test


def deal(
    label: np.ndarray,
    client: np.ndarray,
    number: np.ndarray,
    parts: Fractions,
    seed: int,
) -> np.ndarray:
    """Assign TRAIN, VALID or TEST to every slot at random, with given fractions.

    This is systematic sampling. A client's slots are ordered by label, and at random
    within a label. Beginning with a random slot, slots at equal distances become test
    data. Validation data are chosen from the remaining slots in the same way.

    The sizes of a client's parts are those of `sizes_of`, and every slot has the same
    probability. For each label, the number of test slots is its exact share, rounded
    down or up. The numbers of validation and training slots differ from their exact
    share by less than 2. All clients are treated at once, but each has separate random
    numbers.

    Args:
        label: [slots] label of each slot.
        client: [slots] client of each slot, 0 … n-1, ascending.
        number: [n] number of each client, which determines its random numbers.
        parts: fractions of training, validation and test.
        seed: the experiment's seed.
    """
    size = np.bincount(client, minlength=len(number))
    some, which = np.unique(size, return_inverse=True)
    sizes = np.array([sizes_of(int(m), parts) for m in some])[which]
    start = np.cumsum(size) - size
    shuffle, turn = np.empty((2, len(client)), np.int64)
    begin = np.zeros((len(number), 3), np.int64)
    each = np.stack([number, start, size, size - sizes[:, TEST]], axis=1)
    for k, (own, at, m, rest) in enumerate(each.tolist()):
        random = seeding.generator(seed, "split", own)
        shuffle[at : at + m] = random.permutation(m)
        turn[at : at + m] = random.permutation(m)
        begin[k, TEST] = random.integers(max(m, 1))
        begin[k, VALID] = random.integers(max(rest, 1))
    first, code = pairs(client, label)
    code -= np.searchsorted(client[first], np.arange(len(number)))[client]
    slot = shuffle + start[client]
    turns = turn[code[slot] + start[client]]  # random rank of the slot's label
    slot = slot[np.argsort(client * size.max(initial=1) + turns, kind="stable")]
    part = np.full(len(client), TRAIN, np.int8)
    for mark in (TEST, VALID):
        taken = _every(size, sizes[:, mark], begin[:, mark])
        part[slot[taken]] = mark
        slot, size = np.delete(slot, taken), size - sizes[:, mark]
    return part


def pairs(client: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first slot of each pair (client, value), and the pair of each slot."""
    _, value = np.unique(value, return_inverse=True)
    _, first, code = np.unique(
        client * (value.max(initial=0) + 1) + value,
        return_index=True,
        return_inverse=True,
    )
    return first, code


def _every(size: np.ndarray, count: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """Choose equally spaced places of each client.

    Places are numbered client by client. For a client with m places, the places
    ⌊(i·m + begin) / count⌋ with i = 0 … count-1 are chosen.

    Args:
        size: [n] number of places m of each client.
        count: [n] number of places to choose.
        begin: [n] random start.

    Returns:
        Indices among the places of all clients.
    """
    i = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    m, offset = np.repeat(size, count), np.repeat(np.cumsum(size) - size, count)
    i = (i * m + np.repeat(begin, count)) // np.repeat(count, count)
    places: np.ndarray = offset + i
    return places


def sizes_of(m: int, parts: Fractions) -> list[int]:
    """Return the sizes of the parts of m examples, by the method of largest remainders.

    If their fractions are above 0, training gets at least 1 example, and test too if
    there are 2 or more.
    """
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


class Held(NamedTuple):
    """The slots of all clients, client by client, ordered by row within a client."""

    row: np.ndarray  # [slots] int64: row of the data set
    client: np.ndarray  # [slots] int64: index of the client, 0 … n-1, ascending
    number: np.ndarray  # [n] int64: number of each client before some were left out


def split(
    arrays: Arrays,
    lists: Sequence[np.ndarray],
    seed: int,
    how: PartitionPart,
    missing: bool = False,
) -> tuple[Shards, dict[str, Any]]:
    """Split the examples of each client into training, validation and test.

    A client's split depends on the seed, its number and its examples, but not on other
    clients. The sizes are as close to the fractions as possible. Each part gets its
    share of every label (see `deal`), unless an example may have several labels. With
    fractions, a client needs only 2 examples: one for training and one for test.

    Args:
        arrays: the data set. NaN and infinity in it raise Refusal.
        lists: the rows of each client, as a partition returns them.
        seed: the experiment's seed.
        how: the experiment's section `partition`.
        missing: whether x may have NaN, which is filled in later.

    Returns:
        The rows of each client for training, validation and test; and facts. `clients`
        is the number of clients. `dropped` are the numbers (indices in `lists`) of
        clients with too few examples, which are left out. `repeated` is the number of
        slots minus the number of different examples in them. `unused` is the number of
        examples that no client has.
    """
    _check_data(arrays, missing)
    if how.split == "given":
        _check_given(arrays, how.valid)
    held = _hold(len(arrays.y), lists, how.min_examples)
    part = _parts(arrays, held, seed, how)
    slots = [np.flatnonzero(part == mark) for mark in (TRAIN, VALID, TEST)]
    sizes = [np.bincount(held.client[at], minlength=len(held.number)) for at in slots]
    _check_sizes(held, sizes[TRAIN], sizes[TEST], how.split == "given")
    cuts = [_cut(held.row[at], size) for at, size in zip(slots, sizes, strict=True)]
    shards = Shards(cuts[TRAIN], cuts[VALID], cuts[TEST])
    used = np.bincount(held.row, minlength=len(arrays.y))
    return shards, {
        "clients": len(held.number),
        "dropped": np.setdiff1d(np.arange(len(lists)), held.number).tolist(),
        "repeated": int((used - (used > 0)).sum()),
        "unused": int((used == 0).sum()),
    }


def _cut(rows: np.ndarray, size: np.ndarray) -> list[np.ndarray]:
    """Return one array of rows per client.

    The arrays are views, to save memory: a million of them take 0.1 GB.
    """
    ends = np.cumsum(size)
    starts = (ends - size).tolist()
    return [rows[i:j] for i, j in zip(starts, ends.tolist(), strict=True)]


def _hold(m: int, lists: Sequence[np.ndarray], min_examples: int) -> Held:
    """Return the slots of all clients with at least `min_examples` examples.

    Raise Refusal if there are none, or if rows are not valid.
    """
    size = np.fromiter(map(len, lists), np.int64, len(lists))
    if (most := int(size.max(initial=0))) < max(min_examples, 1):
        raise Refusal(
            f"partition.min_examples = {min_examples} leaves no client: the "
            f"largest of {len(lists)} holds {most} examples: set it to at most {most}"
            if most
            else "the partition gives no client any example: choose another partition"
        )
    number = np.flatnonzero(size >= min_examples)
    row = np.concatenate([np.asarray(lists[k], np.int64) for k in number.tolist()])
    client = np.repeat(np.arange(len(number)), size[number])
    wrong = (row < 0) | (row >= m)
    if not wrong.any():
        row = np.sort(client * m + row) - client * m  # sorted within each client
        wrong[1:] = (row[1:] == row[:-1]) & (client[1:] == client[:-1])
    if wrong.any():
        at = wrong.argmax()
        what = "twice" if 0 <= row[at] < m else "which is not one"
        raise Refusal(
            f"the partition gives row {row[at]} to client {number[client[at]]}, "
            f"{what}: rows are 0 to {m - 1}, each at most once per client"
        )
    return Held(row, client, number)


def _parts(arrays: Arrays, held: Held, seed: int, how: PartitionPart) -> np.ndarray:
    """Return TRAIN, VALID or TEST for every slot."""
    given = how.split == "given"
    owner = leakage.owners(arrays, *held, given) if how.split_by == "owner" else None
    part = np.full(len(held.row), TRAIN, np.int8)
    if given:
        assert arrays.split is not None
        part[:] = arrays.split[held.row]
        if how.valid == 0:
            return part
        parts = (1 - how.valid, how.valid, 0.0)
    else:
        parts = (float(how.split[0]), float(how.split[1]), float(how.split[2]))
    at = np.flatnonzero(part == TRAIN)  # all slots, if the parts are fractions
    client = held.client[at]
    if owner is None:
        plain = arrays.classes > 0 and arrays.y.ndim == 1
        label = arrays.y[held.row[at]] if plain else np.zeros_like(client)
        part[at] = deal(label, client, held.number, parts, seed)
    else:
        first, code = pairs(client, owner[at])
        whose = client[first]
        units = deal(np.zeros_like(whose), whose, held.number, parts, seed)
        part[at] = units[code]
    return part


def _check_data(arrays: Arrays, missing: bool) -> None:
    if len(arrays.x) != len(arrays.y) or len(arrays.y) == 0:
        raise Refusal(
            f"the data have {len(arrays.x)} inputs x and {len(arrays.y)} targets y: "
            "give one target per input, and at least one example"
        )
    _check_labels(arrays)
    for name, values in (("x", arrays.x), ("y", arrays.y)):
        if values.dtype.kind != "f":
            continue
        lacking = missing and name == "x"
        fine = ~np.isinf(values) if lacking else np.isfinite(values)
        if not fine.all():
            bad = ~fine.reshape(len(values), -1).all(axis=1)
            fill = name == "x" and not np.isinf(values).any()
            how = ", or set features.name = 'own' or 'federated'" if fill else ""
            raise Refusal(
                f"{name} is NaN or infinite in {bad.sum()} of {len(values)} examples "
                f"(first in row {bad.argmax()}): drop these rows or fill them in{how}"
            )


def _check_labels(arrays: Arrays) -> None:
    y, classes, m = arrays.y, arrays.classes, len(arrays.y)
    several = classes > 0 and y.shape == (m, classes)
    if y.ndim != 1 and not several:
        raise Refusal(
            f"y has shape {y.shape}: it must be ({m},), or ({m}, labels) of 0 and 1 "
            "if an example may have several"
        )
    low, high, below = y.min(), y.max(), 2 if several else classes
    if classes and not (y.dtype.kind in "iu" and low >= 0 and high < below):
        why = (
            "an example has a label or not"
            if several
            else f"there are {classes} classes"
        )
        raise Refusal(
            f"the labels are {y.dtype} from {low} to {high}: they must be whole "
            f"numbers 0 to {below - 1}, because {why}"
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


def _check_sizes(held: Held, train: np.ndarray, test: np.ndarray, given: bool) -> None:
    """Raise Refusal if a client has no training or no test data."""
    size = np.bincount(held.client, minlength=len(held.number))
    bad = np.flatnonzero((train == 0) | (test == 0))
    if not len(bad):
        return
    enough = 1 + int(size[bad].max())
    remedy = "partition.min_examples cannot help: use fewer clients"
    if left := int((size >= enough).sum()):
        remedy = f"set partition.min_examples = {enough}, which keeps {left} clients"
    elif given:
        remedy = (
            "partition.min_examples cannot help, because no client holds more: give "
            "partition.split as fractions, such as [0.72, 0.08, 0.2]"
        )
    some = ", ".join(
        f"{held.number[k]} ({size[k]} example{'s' if size[k] != 1 else ''}, none to "
        f"{'test' if train[k] else 'train'} on)"
        for k in bad[:4]
    )
    more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
    raise Refusal(
        f"{len(bad)} of {len(size)} clients lack training or test data: "
        f"{some}{more}; {remedy}"
    )


def set_apart(
    arrays: Arrays,
    shards: Shards,
    seed: int,
    how: Literal["none", "copied", "held_out"],
    correlation: float,
) -> Shards:
    """Return the shards with an additional test set of conflicting examples (group 1).

    Both variants are from Wang et al. 2021, Appendix A:

    - "copied": the conflicting examples of a client's test data are also its second
      test set (CelebA_R).
    - "held_out": conflicting examples are removed from a client's training, validation
      and test data, until the share of aligned examples in each is at least
      `correlation` (1 removes all). The removed examples are the client's second test
      set (CelebA_S).
    """
    if how == "none":
        return shards
    group = _checked(arrays.group, how)
    if how == "copied":
        tests = [test[group[test] == 1] for test in shards.test]
        made = shards._replace(tests={**shards.tests, CONFLICTING: tests})
    else:
        made = _held_out(group, shards, seed, correlation)
    if not sum(map(len, made.tests[CONFLICTING])):
        raise Refusal(
            f"partition.conflicting = '{how}' finds no conflicting example (group 1) "
            "to test any client on; take another group, seed or split, or set "
            "partition.conflicting = 'none'"
        )
    return made


def _checked(group: np.ndarray | None, how: str) -> np.ndarray:
    """Return the group of every example; raise Refusal if they are not 0 and 1."""
    asked = f"partition.conflicting = '{how}' needs"
    if group is None:
        raise Refusal(
            f"{asked} data with a group, 0 for examples that are aligned with the "
            "shortcut and 1 for conflicting ones: name one (data.group, for celeba "
            "data.shortcut), or set partition.conflicting = 'none' (colored makes such "
            "a test set by itself)"
        )
    if len(strange := np.setdiff1d(group, (0, 1))):
        raise Refusal(
            f"{asked} groups 0 (aligned) and 1 (conflicting), and the data have "
            f"{strange[0]} too: mark them so, or set partition.conflicting = 'none'"
        )
    return group


def _held_out(
    group: np.ndarray, shards: Shards, seed: int, correlation: float
) -> Shards:
    kept: list[list[np.ndarray]] = [[], [], []]
    out: list[np.ndarray] = []
    for k, parts in enumerate(zip(*shards[:3], strict=True)):
        random, mine = seeding.generator(seed, "held out", k), []
        for rows, part in zip(parts, kept, strict=True):
            against = rows[group[rows] == 1]
            aligned = len(rows) - len(against)
            stay = int(aligned * (1 - correlation) / correlation + 1e-9)
            gone = random.permutation(against)[stay:]
            part.append(rows[~np.isin(rows, gone)])
            mine.append(gone)
        out.append(np.sort(np.concatenate(mine)))
    train, valid, test = kept
    short = [k for k, rows in enumerate(train) if not (len(rows) and len(test[k]))]
    if short:
        raise Refusal(
            f"partition.conflicting = 'held_out' leaves {len(short)} of {len(train)} "
            f"clients without training or test data (the first is {short[0]}), "
            "because nearly all their examples are conflicting; use 'copied', or more "
            "data for each client"
        )
    return Shards(train, valid, test, {**shards.tests, CONFLICTING: out})
