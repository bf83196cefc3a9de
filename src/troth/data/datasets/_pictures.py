"""Read picture files, which may be damaged or have the wrong ending."""

import io
from pathlib import Path
from typing import Literal

from PIL import Image

from troth.types import Refusal

BILINEAR = Image.Resampling.BILINEAR
_MOST = 2**24  # largest size of a file in bytes, far above that of usual pictures
_END = b"IEND\xaeB`\x82"  # the end of every PNG file
_SIDE = 1024  # largest side in pixels


def picture(
    path: Path,
    kind: Literal["PNG", "JPEG"],
    size: tuple[int, int] | None,
    remedy: str,
) -> Image.Image:
    """Return a decoded picture; raise Refusal if it is damaged or does not fit.

    Args:
        path: the file, whose name is ignored.
        kind: required format.
        size: required width and height; None: any.
        remedy: what to do about a bad file, for error messages.
    """
    if not path.is_file():
        raise Refusal(f"there is no picture {path}: {remedy}")
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST + 1)
        opened = Image.open(io.BytesIO(content), formats=[kind])  # reads the header
    except Exception as error:  # Pillow raises many types for malicious files
        raise Refusal(f"{path} is not a {kind} picture ({error}): {remedy}") from None
    width, height = opened.size
    if (size and opened.size != size) or not 1 <= max(width, height) <= _SIDE:
        must = f"{size[0]}×{size[1]}" if size else f"at most {_SIDE}×{_SIDE}"
        raise Refusal(
            f"{path} is a picture of {width}×{height} where it must be {must}: {remedy}"
        )
    try:
        opened.load()
        if kind == "PNG" and _END not in content[-64:]:
            raise ValueError("its end is missing")
    except Exception as error:
        raise Refusal(
            f"{path} is not a whole {kind} picture ({error}): {remedy}"
        ) from None
    return opened
