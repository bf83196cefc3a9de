"""Vehicle: sound and vibration of passing vehicles at 23 sensors along a road.

References: duarte2004vehicle, li2021ditto.
"""

import os
from pathlib import Path

import numpy as np

from troth.data.datasets import _leaf
from troth.data.datasets._files import Remote, Source, again, locate
from troth.types import TEST, TRAIN, Arrays, Refusal

_WIDTH = 100
_TRAIN, _TEST = "mytrain.json", "mytest.json"

SOURCE = Source(
    name="vehicle",
    folder="vehicle",
    files=(_TRAIN,),
    page="https://github.com/litian96/ditto/tree/master/data/vehicle",
    licence="none stated for the data; the repository is MIT",
    remotes=(
        Remote(
            "https://raw.githubusercontent.com/litian96/ditto/"
            "602f571de561f7796104860108dfa91182bfbcd8/data/vehicle/data/train/"
            "mytrain.json",
            "sha256:a8c8b22a89ea64e5a563cffe94352b48c1f44a02100fd3256adfc09dc43d9ddc",
            3_879_378,
        ),
    ),
    how="put mytrain.json and, if you have it, mytest.json",
)


def vehicle(data_dir: str | None = None) -> Arrays:
    """Vehicle: 23 road sensors, 50 sound and 50 vibration features, two vehicle types.

    The function reads the JSON files of Ditto's authors. The file `mytrain.json` has
    1,860 examples, 7 to 534 per sensor, which the authors standardized for each sensor.
    If `mytest.json` is in the same folder, its examples come last, and `split` marks
    the two parts. `owner` is the sensor, in the order of the file. The labels −1 and 1
    become 0 and 1.

    Only the training file can be downloaded. Without the test file, give
    partition.split as fractions. Results are then not comparable with the paper's.

    Args:
        data_dir: Folder to search first for the files.
    """
    place = locate(SOURCE, data_dir)
    parts = [_read(place / _TRAIN)]
    sensors = {user.name: k for k, user in enumerate(parts[0])}
    if tested := os.path.lexists(place / _TEST):
        parts.append(_read(place / _TEST))
        if strange := [user.name for user in parts[1] if user.name not in sensors]:
            raise Refusal(
                f"{place / _TEST} has the sensor {strange[0][:40]!r}, which "
                f"{place / _TRAIN} has not: put both files of one download there, or "
                f"take {_TEST} away"
            )
    users = [user for part in parts for user in part]
    counts = [sum(len(user.y) for user in part) for part in parts]
    split = np.repeat(np.array([TRAIN, TEST], np.int8)[: len(parts)], counts)
    owner = [np.full(len(user.y), sensors[user.name]) for user in users]
    return Arrays(
        np.concatenate([user.x for user in users]).astype(np.float32),
        (np.concatenate([user.y for user in users]) > 0).astype(np.int64),
        classes=2,
        owner=np.concatenate(owner),
        split=split if tested else None,
    )


def _read(path: Path) -> list[_leaf.User]:
    remedy = again(SOURCE)
    users = list(_leaf.users(path, _WIDTH, remedy))
    labels = {int(label) for user in users for label in np.unique(user.y)}
    if not labels or labels - {-1, 1}:
        some = ", ".join(map(str, sorted(labels)[:8])) or "none"
        raise Refusal(
            f"{path} holds the labels {some} where they are -1 and 1: {remedy}"
        )
    return users
