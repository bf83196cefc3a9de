"""COIL-20: photographs of twenty objects on a turntable.

References: nene1996columbia.
"""

from pathlib import Path

import numpy as np

from troth.data.datasets._files import Remote, Source, locate
from troth.data.datasets._pictures import picture
from troth.types import Arrays, Refusal

_OBJECTS, _VIEWS, _SIDE = 20, 72, 128
_NAMES = tuple(
    f"obj{k}__{view}.png" for k in range(1, _OBJECTS + 1) for view in range(_VIEWS)
)
_PAGE = "https://www.cs.columbia.edu/CAVE/software/softlib/coil-20.php"

SOURCE = Source(
    name="coil20",
    folder="coil-20-proc",
    files=(_NAMES[0], _NAMES[-1]),
    page=_PAGE,
    licence="for research; no license stated",
    remotes=(
        Remote(
            "http://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-20/"
            "coil-20-proc.zip",
            makes=_NAMES,
        ),
    ),
    how="put the 1,440 pictures obj1__0.png … obj20__71.png of coil-20-proc.zip",
)


def coil20(data_dir: str | None = None, *, side: int = 128) -> Arrays:
    """COIL-20: 1,440 gray pictures of 128×128, 20 objects seen from 72 sides.

    The function reads the publisher's `coil-20-proc/obj1__0.png … obj20__71.png`.
    Pictures are sorted by object, and by view within an object. `y` is the object.
    `group` is the view, which is the angle in steps of 5°. There is no published split.

    Args:
        data_dir: Folder to search first for the files.
        side: Side of a picture in pixels: 128 divided by a power of 2. Each pixel is
            the rounded mean of the original pixels that it replaces.
    """
    if side < 1 or _SIDE % side:
        raise Refusal(
            f"data.side = {side} must be 128 or a whole fraction of it: 64, 32, 16, 8, "
            "4, 2 or 1"
        )
    place = locate(SOURCE, data_dir)
    x = np.empty((len(_NAMES), 1, side, side), np.uint8)
    for i, name in enumerate(_NAMES):
        x[i, 0] = _read(place / name, side)
    y = np.repeat(np.arange(_OBJECTS), _VIEWS)
    view = np.tile(np.arange(_VIEWS), _OBJECTS)
    return Arrays(x, y, classes=_OBJECTS, scale=255.0, group=view)


def _read(path: Path, side: int) -> np.ndarray:
    """Read a picture, and average squares of pixels into one pixel each."""
    remedy = f"unpack coil-20-proc.zip from {_PAGE} again"
    opened = picture(path, "PNG", (_SIDE, _SIDE), remedy)
    if opened.mode != "L":
        raise Refusal(
            f"{path} is a picture of kind {opened.mode} where it must be grey in bytes "
            f"(L): {remedy}"
        )
    f = _SIDE // side
    squares = np.asarray(opened).reshape(side, f, side, f)
    return np.asarray(np.rint(squares.mean(axis=(1, 3))))
