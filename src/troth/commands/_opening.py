"""How a command opens the run that it is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from troth.loading import Run


def opened(path: Path) -> Run:
    """The run in this folder; a grid is refused, with the names of its runs."""
    from troth import folder
    from troth.loading import Run
    from troth.types import Refusal

    if (path / folder.GRID).exists():
        names = sorted(file.parent.name for file in path.glob(f"*/{folder.EXPERIMENT}"))
        raise Refusal(f"{path} is a grid; give one of its runs: {', '.join(names)}")
    return Run(path)
