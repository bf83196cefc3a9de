"""A user's own data in the JSON files of LEAF.

References: caldas2018leaf.
"""

import math
from pathlib import Path

import numpy as np

from troth.data.datasets import _leaf
from troth.data.datasets._arrays import assembled
from troth.types import TEST, TRAIN, Arrays, Refusal

_PARTS = {"train": TRAIN, "test": TEST}


def leaf(
    *,
    path: str,
    shape: list[int] = [],  # noqa: B006
    classes: int | list[str] = 0,
    scale: float = 0.0,
) -> Arrays:
    """Your own data in LEAF's format: JSON files of users and their examples.

    Each user is an owner. If the folder has the folders `train` and `test`, which
    LEAF's preprocess.sh makes, they are the split of the data for
    partition.split = 'given'. Inputs must be numbers, and labels whole numbers. Texts
    must be encoded as numbers before.

    Args:
        path: Path of a .json file, or of a folder of such files.
        shape: Shape of one example, such as [1, 28, 28]; []: a vector.
        classes: Number of classes, or their names in order; some may have no example.
            0: the classes that occur.
        scale: Value of x that is scaled to 1; 0: inputs are not scaled.
    """
    place = Path(path).expanduser()
    parts = {name: sorted((place / name).glob("*.json")) for name in _PARTS}
    split = all(parts.values())
    if not split:
        parts = {"train": [place] if place.is_file() else sorted(place.glob("*.json"))}
    if not any(parts.values()):
        raise Refusal(
            f"there is no .json file in '{path}', nor in its folders train and test: "
            "set data.path to the files that LEAF's preprocess.sh wrote"
        )
    width = math.prod(shape) if shape else None
    held = [
        (user, _PARTS[part])
        for part, files in parts.items()
        for file in files
        for user in _leaf.users(file, width, "write it as LEAF's preprocess.sh does")
    ]
    if not held:
        raise Refusal(f"the files of '{path}' hold no examples")
    widths = {user.x.shape[1] for user, _ in held}
    if len(widths) > 1:
        raise Refusal(
            f"the users of '{path}' have inputs of {sorted(widths)[:4]} numbers; all "
            "examples must have the same number"
        )
    counts = [len(user.y) for user, _ in held]
    x = np.concatenate([user.x for user, _ in held]).astype(np.float32)
    content = {
        "x": x.reshape(len(x), *shape) if shape else x,
        "y": np.concatenate([user.y for user, _ in held]),
        "owner": np.repeat([user.name for user, _ in held], counts),
    }
    if split:
        content["split"] = np.repeat([part for _, part in held], counts)
    return assembled(path, content, scale, classes)
