"""How a command takes the paths that it is given: a run, data, a file to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from troth.runs.load import Run


def opened(path: Path) -> Run:
    """The run in this folder; a grid is refused, with the names of its runs."""
    from troth import files
    from troth.runs.load import Run
    from troth.types import Refusal

    if (path / files.GRID).exists():
        names = sorted(file.parent.name for file in path.glob(f"*/{files.EXPERIMENT}"))
        raise Refusal(f"{path} is a grid; give one of its runs: {', '.join(names)}")
    return Run(path)


def whose(clients: str, client: int | None) -> str:
    """Which clients are asked for; one alone has a flag of its own."""
    from troth.types import Refusal

    if client is None:
        return clients
    if clients != "all":
        raise Refusal(
            f"--client {client} is one client alone, and --clients {clients} are "
            "several; give one of the two"
        )
    return f"{client},"


def check_free(out: Path | None) -> None:
    """Refuse, before any work, a file that exists or could not be written."""
    from troth.types import Refusal

    if out is not None and (out.exists() or not os.access(out.parent, os.W_OK)):
        raise Refusal(f"{out} exists already or cannot be written; give another --out")


def absolute(data_dir: Path | None) -> str | None:
    """Where data are looked for, wherever the run is resumed from."""
    return None if data_dir is None else str(data_dir.absolute())
