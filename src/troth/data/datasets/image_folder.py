"""A user's own images, in folders with the names of owners and classes."""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from troth.data.datasets import _pictures
from troth.data.datasets._arrays import assembled
from troth.types import Arrays, Refusal

_KINDS: dict[str, Literal["PNG", "JPEG"]] = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
}
_MODES = {"gray": "L", "rgb": "RGB"}


def image_folder(
    *,
    path: str,
    levels: list[Literal["owner", "class", "group", "split"]] = ["owner", "class"],  # noqa: B006
    colors: Literal["rgb", "gray"] = "rgb",
    size: int = 0,
    classes: list[str] = [],  # noqa: B006
) -> Arrays:
    """Your own images: .png and .jpg files in folders such as OWNER/CLASS/.

    The names of the folders are the owner and the class of an image. Classes and owners
    are numbered in the sorted order of their names. Hidden files, and files with other
    endings, are ignored.

    Args:
        path: Path of the outermost folder.
        levels: Meaning of the folders' names, from the outermost to the innermost
            folder: "owner", "class", "group" or "split" (train, valid, test). For
            example, ["split", "class"] is the layout of ImageNet.
        colors: "rgb": three channels; "gray": one channel.
        size: Height and width to which images are resized (bilinear); 0: images are not
            resized, and must have the same size.
        classes: Names of the classes in order; some may have no example. []: those of
            the folders.
    """
    if "class" not in levels or len({*levels}) < len(levels) or size < 0:
        raise Refusal(
            f"data.levels = {levels} and data.size = {size}: levels must name 'class' "
            "and each level once, and size must be at least 0"
        )
    place = Path(path).expanduser()
    pattern = "/".join(["*"] * (len(levels) + 1))
    files = sorted(p for p in place.glob(pattern) if p.suffix.lower() in _KINDS)
    files = [p for p in files if not _hidden(p.relative_to(place))]
    if not files:
        raise Refusal(
            f"there is no image {'/'.join([*map(str.upper, levels), 'NAME.png'])} in "
            f"'{path}': set data.path to the folder, or data.levels to its layout"
        )
    images = [_read(file, colors, size) for file in files]
    odd = next((k for k, im in enumerate(images) if im.shape != images[0].shape), None)
    if odd is not None:
        raise Refusal(
            f"{files[odd]} has {_sides(images[odd])} pixels and {files[0]} has "
            f"{_sides(images[0])}: set data.size to resize all images"
        )
    content: dict[str, Any] = {"x": np.stack(images)}
    names = zip(*(p.relative_to(place).parts[:-1] for p in files), strict=True)
    content |= {k: np.array(v) for k, v in zip(levels, names, strict=True)}
    content["y"] = content.pop("class")
    return assembled(path, content, classes=classes or 0)


def _hidden(place: Path) -> bool:
    return any(part.startswith(".") for part in place.parts)


def _sides(image: np.ndarray) -> str:
    return f"{image.shape[2]}×{image.shape[1]}"


def _read(file: Path, colors: str, size: int) -> np.ndarray:
    """Read an image as bytes [channels, height, width]."""
    remedy = "save it again, or remove it"
    picture = _pictures.picture(file, _KINDS[file.suffix.lower()], None, remedy)
    picture = picture.convert(_MODES[colors])
    if size:
        picture = picture.resize((size, size), resample=_pictures.BILINEAR)
    values = np.asarray(picture, np.uint8)
    return values[None] if colors == "gray" else values.transpose(2, 0, 1)
