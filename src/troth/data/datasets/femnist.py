r"""FEMNIST: handwritten digits and letters, with their writers.

References: caldas2018leaf, cohen2017emnist.
"""

import re
from pathlib import Path

import numpy as np

from troth import seeding
from troth.data.datasets import _leaf
from troth.data.datasets._files import Source, locate
from troth.types import TEST, TRAIN, Arrays, Refusal

_SIDE, _CLASSES = 28, 62

SOURCE = Source(
    name="femnist",
    folder="femnist",
    files=("train/*.json",),
    page="https://github.com/TalwalkarLab/leaf/tree/master/data/femnist",
    licence="EMNIST's pictures: public domain (NIST); LEAF: BSD 2-clause",
    how=(
        "LEAF makes it: run its preprocess.sh (such as -s niid --sf 0.05 -k 0 -t "
        "sample --tf 0.8) and put the folders train and test that it leaves in "
        "data/femnist/data, or the files of all_data as train"
    ),
)


def femnist(data_dir: str | None = None, seed: int = 0, *, writers: int = 0) -> Arrays:
    """FEMNIST: 805,263 digits and letters of 28×28 by 3,550 writers, 62 classes.

    The function reads every JSON file in `femnist/train/` and, if it exists,
    `femnist/test/`, in the format of LEAF's preprocess.sh. Classes are 0 … 9, A … Z, a
    … z. Paper is 1 and ink is 0, as published. `owner` is the writer, in sorted order
    of the names. The folder determines `split`; without `test/`, there is no split.
    LEAF stores a pixel as k/255, which becomes the byte k here. This is exact, and
    takes an eighth of the memory of float64. If any value is not of this form, all
    values become float32.

    Files are read one after the other. The whole set takes two minutes and 0.6 GB.

    Args:
        data_dir: Folder to search first for the files.
        seed: Seed of the experiment; it determines which writers are drawn.
        writers: Number of writers, drawn at random from those in the files; 0: all.
            Ditto uses 205.
    """
    place = locate(SOURCE, data_dir)
    train, test = (_folder(place / part) for part in ("train", "test"))
    if writers:
        drawn = _drawn({one.name for one in train + test}, writers, seed, place)
        train, test = ([u for u in part if u.name in drawn] for part in (train, test))
    held = train + test
    x = _joined([one.x for one in held])
    counts = [len(one.y) for one in held]
    code = np.unique([one.name for one in held], return_inverse=True)[1]
    part = np.repeat(np.array([TRAIN, TEST], np.int8), [len(train), len(test)])
    return Arrays(
        x.reshape(-1, 1, _SIDE, _SIDE),
        np.concatenate([one.y for one in held]),
        classes=_CLASSES,
        scale=255.0 if x.dtype == np.uint8 else 1.0,
        owner=np.repeat(code, counts),
        split=np.repeat(part, counts) if test else None,
    )


def _drawn(names: set[str], writers: int, seed: int, place: Path) -> set[str]:
    """Draw some of the writers."""
    if not 0 < writers <= len(names):
        raise Refusal(
            f"data.writers = {writers} must be 1 to {len(names)}, the number of "
            f"writers in {place}, or 0 for all of them; LEAF's preprocess.sh makes "
            "more writers with a larger --sf"
        )
    random = seeding.generator(seed, "femnist")
    return {*random.choice(sorted(names), writers, replace=False).tolist()}


def _folder(folder: Path) -> list[_leaf.User]:
    """Return the examples of all writers in a folder, as bytes if nothing is lost."""
    remedy = "make train and test anew with LEAF's preprocess.sh"
    held: dict[str, _leaf.User] = {}
    for path in sorted(folder.glob("*.json"), key=_natural):
        for user in _leaf.users(path, _SIDE * _SIDE, remedy):
            if user.name in held:
                raise Refusal(
                    f"{path} holds the writer {user.name[:40]!r}, whom another file in "
                    f"{folder} holds too: {remedy}"
                )
            if not 0 <= user.y.min() <= user.y.max() < _CLASSES:
                strange = next(int(y) for y in user.y if not 0 <= y < _CLASSES)
                raise Refusal(
                    f"{path} holds the label {strange} for the writer "
                    f"{user.name[:40]!r} where labels are 0 to 61: {remedy}"
                )
            held[user.name] = user._replace(x=_small(user.x))
    if folder.name == "train" and not held:
        raise Refusal(f"{folder} holds no examples: {remedy}")
    return list(held.values())


def _natural(path: Path) -> list[str | int]:
    """Return a sort key by which all_data_2 comes before all_data_10."""
    pieces = re.split(r"([0-9]+)", path.name)
    return [int(p) if i % 2 else p for i, p in enumerate(pieces)]


def _small(x: np.ndarray) -> np.ndarray:
    """Return pixels as the bytes k if all are k/255, otherwise as float32."""
    near: np.ndarray = np.rint(x * 255)
    if ((near / 255 == x) & (near >= 0) & (near <= 255)).all():
        return near.astype(np.uint8)
    return x.astype(np.float32)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays of bytes, or convert all to float32 if any is not bytes."""
    if any(part.dtype != np.uint8 for part in parts):
        wide = (x / 255 if x.dtype == np.uint8 else x for x in parts)
        parts = [x.astype(np.float32) for x in wide]
    return np.concatenate(parts)
