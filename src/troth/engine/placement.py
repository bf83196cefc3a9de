"""Choose where client state is kept (device, host, disk) and check that it fits."""

import hashlib
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import torch

from troth import devices
from troth.config.schema import Experiment
from troth.types import Refusal

FILE = "state/rows.bin"  # in the folder of a run


class Need(NamedTuple):
    """What the personal state of a run takes at most, in bytes."""

    rows: int  # of all clients that will ever be asked
    shadow: int  # further slots of rows that a checkpoint still needs, on disk
    models: int  # the file of the clients' own models

    @property
    def disk(self) -> int:
        """What the state file may take."""
        return self.rows + self.shadow


def need(e: Experiment, n: int, row: int, model: int, finishes: bool) -> Need:
    """What the state of n clients takes.

    Args:
        e: the experiment.
        n: clients; those that are never asked take nothing.
        row: bytes of a client's state.
        model: bytes of a client's model.
        finishes: whether every client works once more after the last round.
    """
    cohort = e.train.cohort or n
    visited = n if finishes else min(n, e.train.rounds * cohort)
    moved = visited  # since the last checkpoint
    if e.checkpoint.every and not finishes:
        moved = min(visited, e.checkpoint.every * cohort)
    shadow = moved * row if e.output.checkpoint else 0
    models = (visited + 1) * model if e.output.personal and row else 0
    return Need(visited * row, shadow, models)


def choose(wish: str, rows: int, where: torch.device) -> str:
    """`device`, `host` or `disk`: for `auto` the first with twice the room of all rows.

    Args:
        wish: `auto`, or one of them.
        rows: bytes of all rows.
        where: the device.
    """
    if wish != "auto":
        return wish
    host = torch.device("cpu")
    for name, place in (("device", where), ("host", host)):
        if rows <= devices.free(place) // 2:
            return name
    return "disk"


def place(name: str, where: torch.device) -> torch.device | None:
    """The device that keeps rows; None: they go to a file."""
    return {"device": where, "host": torch.device("cpu"), "disk": None}[name]


def file(path: Path, state_dir: str) -> Path:
    """The state file of a run.

    Args:
        path: the folder of the run.
        state_dir: `engine.state_dir`; empty: in that folder.
    """
    if not state_dir:
        return path / FILE
    whole = str(path.absolute()).encode()  # runs of the same name lie side by side
    name = f"{path.name}-{hashlib.blake2b(whole, digest_size=6).hexdigest()}.rows"
    return Path(state_dir).expanduser().absolute() / name


def check(need: Need, rows: Path, path: Path) -> None:
    """Refuse, before any work, what the disk has no room for.

    Args:
        need: what the state takes.
        rows: the state file; what of it is there already counts.
        path: the folder of the run, where the models are written at the end.
    """
    there = rows.stat().st_size if rows.exists() else 0
    state, models = _above(rows), _above(path)
    if not state.is_dir() or not os.access(state, os.W_OK):
        raise Refusal(
            f"the state file {rows} cannot be made, for {state} is not a folder you "
            "may write to; set engine.state_dir to one"
        )
    together = state.stat().st_dev == models.stat().st_dev
    wanted = need.disk - there + (need.models if together else 0)
    _room(state, wanted, need, "engine.state_dir to a folder on a larger disk")
    if not together:
        _room(models, need.models, need, "output.personal = false")


def _room(folder: Path, wanted: int, need: Need, remedy: str) -> None:
    free = shutil.disk_usage(folder).free
    if wanted > free:
        more = f", the clients' models another {size(need.models)}"
        more = more if need.models else ""
        raise Refusal(
            f"personal state on disk may take {size(need.disk)}{more}, and of that the "
            f"disk of {folder} would have to take {size(wanted)} and has "
            f"{size(free)} free; make room, or set {remedy}"
        )


def _above(path: Path) -> Path:
    """The nearest folder above a path that is there."""
    return next(p for p in path.absolute().parents if p.exists())


def size(count: int) -> str:
    """Bytes for people: `8.9 GB`."""
    value, units = float(count), ["kB", "MB", "GB", "TB"]
    if value < 1000:
        return f"{count} bytes"
    while (value := value / 1000) >= 1000 and len(units) > 1:
        units.pop(0)
    return f"{value:.1f} {units[0]}"
