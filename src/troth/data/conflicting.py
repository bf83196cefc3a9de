"""Examples that go against a shortcut, as a test set of their own."""

from typing import Literal

import numpy as np

from troth import seeding
from troth.types import CONFLICTING, Arrays, Refusal, Shards


def set_apart(
    arrays: Arrays,
    shards: Shards,
    seed: int,
    how: Literal["none", "copied", "held_out"],
    correlation: float,
) -> Shards:
    """Make a test set of the conflicting examples, those of `group` 1.

    Wang et al. 2021, Appendix A.

    Args:
        arrays: the data; `group` is 0 (aligned with the shortcut) or 1 (conflicting).
        shards: who holds what.
        seed: the experiment's seed.
        how: "copied": those of a client's test data are its second test set too
            (CelebA_R). "held_out": of a client's training, validation and test data
            each, only so many stay that the share of aligned ones is at least
            `correlation`; all others are its second test set (CelebA_S). "none": there
            is no second test set.
        correlation: with "held_out"; 1: none stays.

    Raises:
        Refusal: the data are not marked so, nobody has a conflicting example to be
            tested on, or somebody is left without training or test data.
    """
    if how == "none":
        return shards
    group = _checked(arrays.group, how)
    if how == "copied":
        found = [test[group[test] == 1] for test in shards.test]
        made = shards._replace(tests={**shards.tests, CONFLICTING: found})
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
    """The group of every example, 0 or 1."""
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
            f"clients without training or test data (the first is {short[0]}), for "
            "nearly all that they have is conflicting; use 'copied', or more data for "
            "each client"
        )
    return Shards(train, valid, test, {**shards.tests, CONFLICTING: out})
