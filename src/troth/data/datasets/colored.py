"""Gray pictures with colors that are correlated with their labels, as a shortcut.

References: wang2021robust, nam2020learning.
"""

from typing import Any, Literal

import numpy as np

from troth import lookup, seeding
from troth.data.datasets import _room
from troth.types import CONFLICTING, TRAIN, Arrays, Refusal, Shards

_HEX = (
    *("fb502b", "fde95a", "ac7694", "c8d499", "16c6fa"),
    *("52f572", "063cc1", "8e1ac2", "356405", "d53444"),
    *("ffffff", "808080", "ff96c8", "964b00", "008080"),
    *("f032e6", "aa8cff", "808000", "ffa500", "003c5a"),
)
PALETTE = tuple(tuple(bytes.fromhex(color)) for color in _HEX)
"""Red, green and blue of every color. The first ten colors are those of Nam et al."""

_BLOCK = 4096  # number of pictures that are colored at once


def colored(
    data_dir: str | None = None,
    seed: int = 0,
    *,
    base: str = "mnist",
    base_options: dict[str, Any] = {},  # noqa: B006
    pool: Literal["train", "all"] = "train",
    maps: Literal["client", "fixed"] = "client",
    correlation: float = 0.98,
    spread: float = 0.005,
) -> Arrays:
    """Gray pictures colored by their labels, with different colors at every client.

    The data set follows Wang et al. 2021, Sections 2.1 and 4.1. Each client has a color
    for each of its classes. In the client's training, validation and test data, each
    picture has the color of its class with probability `correlation`. Such a picture is
    aligned (`group` 0). Otherwise it has one of the client's other colors, all equally
    likely, and is conflicting (`group` 1).

    A second test set, "conflicting", has the same test pictures in the same order, but
    every aligned picture is recolored with one of the client's other colors. If a
    client has a single class, its other colors are all other colors in use.

    The color of a picture is a color of the palette plus normal noise, which is the
    same for all its pixels. Each pixel is this color times the gray value. There are as
    many colors as classes, at most 20. Ten of them, and the noise, are those of Nam et
    al. (2020).

    Pictures are colored after they are divided among clients, because clients have
    different colors.

    Args:
        data_dir: Folder to search first for the files.
        seed: Seed of the experiment; with the client's number it determines the
            client's colors.
        base: Data set of gray pictures: mnist, coil20, digits, fashion_mnist …
        base_options: Options of the base data set, such as {side = 64} for coil20.
        pool: Part of the base data that is used: "train" (60,000 of MNIST), as in
            experiments/shortcuts, or "all". If the base data have no split, all are
            used.
        maps: Map from classes to colors. "client": every client has a different random
            map. "fixed": class c has color c at all clients, for comparisons with
            central training.
        correlation: Probability that a picture has its class's color. In the paper, it
            is 0.98 for MNIST and 1 for COIL-20. With 1, only the second test set has
            conflicting examples. With 0, no example is aligned.
        spread: Standard deviation of the color noise, where 1 is full brightness; 0:
            none.

    Departs: the paper does not define the colors, the noise, or how maps are drawn.
    Here, a client's classes get different random colors, out of as many colors as there
    are classes. Each picture is conflicting independently of other pictures, so the
    share of aligned pictures is `correlation` only on average. Nam et al. use exact
    counts.
    """
    if not 0 <= correlation <= 1:
        raise Refusal(
            f"data.correlation = {correlation} must be a share: at least 0 and at most "
            "1, such as 0.98"
        )
    if not 0 <= spread < np.inf:
        raise Refusal(f"data.spread = {spread} must be at least 0, such as 0.005")
    if base == "colored":
        raise Refusal("data.base = 'colored' is colored already; name a gray data set")
    given = lookup.check("data", base, base_options)
    arrays: Arrays = lookup.call(
        lookup.find("data", base), given, data_dir=data_dir, seed=seed
    )
    arrays = _grey(base, arrays)
    if pool == "train" and arrays.split is not None:
        rows = np.flatnonzero(arrays.split == TRAIN)
        arrays = _some(arrays, rows)._replace(x=arrays.x[rows], split=None)
    return arrays


def _grey(base: str, arrays: Arrays) -> Arrays:
    """Return the pictures as [m, 1, height, width], without groups.

    Raise Refusal if they are not gray or have too many classes.
    """
    x, classes = arrays.x, arrays.classes
    x = x[:, None] if x.ndim == 3 else x
    if x.ndim != 4 or x.shape[1] != 1:
        what = f"{x.shape[1]} channels" if x.ndim == 4 else f"shape {x.shape[1:]}"
        raise Refusal(
            f"data.base = '{base}' has examples of {what}, and only gray pictures can "
            "be colored, of one channel: take mnist, coil20, digits, fashion_mnist or "
            "your own"
        )
    if arrays.y.ndim != 1 or not 2 <= classes <= len(PALETTE):
        what = f"{classes} classes" if arrays.y.ndim == 1 else "several labels each"
        raise Refusal(
            f"data.base = '{base}' has {what}, and colors go with one label out of 2 "
            f"to {len(PALETTE)}: use another data set, or merge classes"
        )
    if not (x.min() >= 0 and x.max() <= arrays.scale):
        raise Refusal(
            f"data.base = '{base}' has pixels from {x.min()} to {x.max()}, and they "
            f"must be 0 (black) to {arrays.scale:g} (white) to be colored"
        )
    return arrays._replace(x=x, group=None)


def _some(arrays: Arrays, rows: np.ndarray) -> Arrays:
    """Return labels, owners and split of some rows, with all inputs."""
    whose = None if arrays.owner is None else arrays.owner[rows]
    split = None if arrays.split is None else arrays.split[rows]
    return arrays._replace(y=arrays.y[rows], owner=whose, split=split)


def dealt(
    arrays: Arrays,
    shards: Shards,
    seed: int,
    *,
    maps: Literal["client", "fixed"],
    correlation: float,
    spread: float,
) -> tuple[Arrays, Shards]:
    """Color the clients' pictures, and make the conflicting test set.

    Args:
        arrays: the gray pictures.
        shards: the rows of each client.
        seed: seed of the experiment.
        maps: option of `colored`.
        correlation: option of `colored`.
        spread: option of `colored`.

    Returns:
        The colored pictures in bytes, and the new rows of each client. There is one row
        for each picture of a client, and one for each recolored picture.
    """
    source, colors, groups = [], [], []
    held = Shards([], [], [], {CONFLICTING: []})
    lists = [*held[:3], held.tests[CONFLICTING]]
    at = 0
    for k, parts in enumerate(zip(*shards[:3], strict=True)):
        rows, sizes = np.concatenate(parts), [len(part) for part in parts]
        bounds = sum(sizes[:2]), sum(sizes)
        label, test = arrays.y[rows], bounds[0]
        random = seeding.generator(seed, "color map", k) if maps == "client" else None
        of, among = _map(label, arrays.classes, random)
        random = seeding.generator(seed, "colors", k)
        conflicts = random.random(len(label)) >= correlation
        first, second = _colors(of[label], among, conflicts, spread, random)
        aligned = ~conflicts[test:]
        more = np.arange(at + bounds[1], at + bounds[1] + int(aligned.sum()))
        own = np.split(np.arange(at, at + bounds[1]), np.cumsum(sizes[:2]))
        other = own[2].copy()
        other[aligned] = more
        for part, mine in zip(lists, (*own, other), strict=True):
            part.append(mine)
        source += [rows, rows[test:][aligned]]
        colors += [first, second[test:][aligned]]
        groups += [conflicts, np.ones(len(more), bool)]
        at += bounds[1] + len(more)
    whole = np.concatenate(source)
    x = _painted(arrays, whole, np.concatenate(colors))
    made = _some(arrays, whole)._replace(x=x, scale=255.0)
    made = made._replace(group=np.concatenate(groups).astype(np.int64))
    return made, held


def _map(
    label: np.ndarray, classes: int, random: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return each class's color, and the colors from which conflicting ones are drawn.

    If `random` is None, class c has color c.
    """
    own, of = np.unique(label), np.full(classes, -1)  # −1: not a class of this client
    of[own] = own if random is None else random.permutation(classes)[: len(own)]
    return of, of[own] if len(own) > 1 else np.arange(classes)


def _colors(
    aligned: np.ndarray,
    among: np.ndarray,
    conflicts: np.ndarray,
    spread: float,
    random: np.random.Generator,
) -> np.ndarray:
    """Return the color of every picture before and after recoloring: [2, m, 3]."""
    m = len(aligned)
    other = _other(aligned, among, random.random((2, m)))
    noise = spread * random.standard_normal((2, m, 3))
    other[0] = np.where(conflicts, other[0], aligned)
    colors: np.ndarray = (np.array(PALETTE) / 255)[other] + noise
    return colors.clip(0, 1)


def _other(aligned: np.ndarray, among: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return colors out of `among` that differ from the aligned ones.

    `u` are uniform random numbers.
    """
    place = np.zeros(len(PALETTE), np.int64)
    place[among] = np.arange(len(among))
    step = 1 + np.floor(u * (len(among) - 1)).astype(np.int64)
    return np.asarray(among[(place[aligned] + step) % len(among)])


def _painted(arrays: Arrays, rows: np.ndarray, color: np.ndarray) -> np.ndarray:
    """Return gray pictures times their colors, in bytes: [rows, 3, height, width]."""
    shape = (len(rows), 3, *arrays.x.shape[2:])
    less = "take fewer or smaller pictures"
    _room.check(f"{len(rows):,} colored pictures", shape, 1, less)
    x = np.empty(shape, np.uint8)
    factor = (255 / arrays.scale * color).astype(np.float32)[:, :, None, None]
    for i in range(0, len(rows), _BLOCK):
        some = slice(i, i + _BLOCK)
        x[some] = np.rint(arrays.x[rows[some]] * factor[some])
    return x
