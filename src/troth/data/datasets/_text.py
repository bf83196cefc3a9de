"""Small text files that may be damaged, or not what their name says."""

from __future__ import annotations

from pathlib import Path

from troth.types import Refusal


def text(path: Path, most: int, remedy: str) -> str:
    """What a text file says.

    Args:
        path: the file.
        most: bytes that it may have; a larger one is something else.
        remedy: what to do about a bad file.

    Raises:
        Refusal: unreadable, too large, or not text.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise Refusal(f"{path} cannot be read ({error.strerror}): {remedy}") from None
    if len(content) > most:
        raise Refusal(
            f"{path} holds more than {most:,} bytes, too many for what its name says: "
            f"{remedy}"
        )
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(f"{path} is not a text file: {remedy}") from None
