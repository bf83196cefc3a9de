"""Shared models that runs leave behind, and others begin with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from cells import Cell, Changes, merged

from troth import files
from troth.runs.load import Run


def place(models: Path, name: str, seed: int) -> Path:
    """Where the shared model of the runs of a name is kept."""
    return models / f"{name}, seed {seed}.safetensors"


def keep(models: Path, run: Run) -> None:
    """Copy a run's shared model there, whole or not at all."""
    file = place(models, run.experiment.name, run.experiment.seed)
    file.parent.mkdir(exist_ok=True)
    made = file.with_suffix(f".{os.getpid()}")
    shutil.copy(run.path / files.SHARED, made)
    made.replace(file)


def begun(models: Path, cell: Cell, seed: int) -> Changes | None:
    """A cell's changes with the shared model of its name; None: that is not there."""
    file = place(models, cell.changes["name"], seed)
    if not file.exists():
        print(f"{file.name} is not there yet, for {cell.label}", flush=True)
        return None
    return merged(cell.changes, {"model": {"weights": str(file)}})
