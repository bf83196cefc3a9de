"""What a shell offers when the name of a member is completed.

Members are found by their files, without importing them: the shell waits.
"""

from collections.abc import Callable
from pathlib import Path


def members(folder: str) -> Callable[[str], list[str]]:
    """Return a function that lists the members in a folder by their first letters."""
    place = Path(__file__).parents[2] / folder

    def complete(incomplete: str) -> list[str]:
        names = (file.stem for file in place.glob("*.py") if file.stem[0] != "_")
        return sorted(name for name in names if name.startswith(incomplete))

    return complete
