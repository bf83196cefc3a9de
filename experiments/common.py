"""Command lines of the scripts that train and of those that make pages.

A script passes its cells to `main`. Each cell is one base experiment with some keys
changed. A finished cell is saved at once (`troth.reproduce.store`). Cells that are
saved already are not trained again, so that a stopped script continues where it was.
`page` prints tables and draws pictures.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

from troth import files
from troth.config import reader
from troth.config.schema import Experiment
from troth.reproduce import kept, running, store
from troth.reproduce.entry import merged as merged
from troth.reproduce.tables import grid
from troth.runs.load import Run

Changes = dict[str, Any]
Look = Callable[[Run], Changes]
"""Further values for the record of a run, read from its folder before its removal."""
Pictures = Mapping[str, Callable[[], plt.Figure]]
"""The name of a file, without its suffix → the function that draws it."""


class Cell(NamedTuple):
    """One run of a table or figure."""

    figure: str
    label: str
    changes: Changes


class Job(NamedTuple):
    """A run that is still to be trained."""

    cell: Cell
    seed: int
    experiment: Experiment

    @property
    def name(self) -> str:
        """Return the name of the run's record."""
        return f"{self.cell.figure}/{self.cell.label}, seed {self.seed}"


def row(run: Run) -> Changes:
    """Return what tables need of a run: clients' accuracies, device, versions."""
    resolved = run.experiment.resolved
    return {
        "fingerprint": resolved["fingerprint"],
        "f": resolved.get("f"),
        "device": resolved["device"],
        "torch": resolved["versions"]["torch"],
        "summary": run.summary,
        **kept.each(run, "accuracy", "shared_accuracy", "lam"),
    }


def curve(run: Run) -> Changes:
    """Return the accuracy of benign clients at every evaluation during training."""
    return {"curve": kept.curve(run, "weighted", "mean", "std")}


def no_more(run: Run) -> Changes:
    """Add nothing to the record of a run."""
    return {}


def as_it_is(cell: Cell, seed: int) -> Changes | None:
    """Return the cell's own changes, the same for every seed."""
    return cell.changes


def main(
    script: str,
    base: Path,
    cells: Iterable[Cell],
    look: Look = no_more,
    seeds: int = 3,
    *,
    first: int = 0,
    given_seed: Callable[[Cell, int], Changes | None] = as_it_is,
) -> None:
    """Run the command line of a script that trains.

    Args:
        script: the script's docstring.
        base: file of the experiment that all cells change; its grid is ignored. Results
            are stored in the same folder.
        cells: the runs that the script can train.
        look: further values for the record of a run.
        seeds: default number of seeds per cell.
        first: the first seed.
        given_seed: cell, seed → the cell's changes, together with those that depend on
            the seed, such as the model to start from. `None`: not available yet.
    """
    cells = list(cells)
    given = _given(script, base, cells, seeds)
    part, parts = map(int, given.part.split("/"))
    every = [
        (cell, seed)
        for seed in range(first, first + given.seeds)
        for cell in cells
        if cell.figure in given.figures and given.only in cell.label
    ]
    plain = {k: v for k, v in reader.read(base).items() if k != "grid"}
    kept_ = store.Store(given.out)

    def missing() -> Iterator[Job]:
        for cell, seed in every[part::parts]:
            there = kept_.get(f"{cell.figure}/{cell.label}, seed {seed}")
            changes = None if there else given_seed(cell, seed)
            if changes is not None:
                e = reader.from_dict({**merged(plain, changes), "seed": seed})
                on = dataclasses.replace(e.engine, device=given.device)
                yield Job(cell, seed, dataclasses.replace(e, engine=on))

    alone = ([job] for job in missing())  # whether one is missing may depend on others
    groups = running.alike(missing(), given.together) if given.together > 1 else alone
    for group in groups:
        with tempfile.TemporaryDirectory(prefix="cell") as place:
            runs = running.trained([job.experiment for job in group], Path(place))
            for job, run in zip(group, runs or (), strict=True):
                said = {"label": job.cell.label, "changes": job.cell.changes}
                said |= {"seed": job.seed, **row(run), **look(run)}
                said["summary"] = store.brief(said["summary"])
                kept_.put(job.name, said)
                print(job.name, flush=True)


def _given(
    script: str, base: Path, cells: list[Cell], seeds: int
) -> argparse.Namespace:
    figures = list(dict.fromkeys(cell.figure for cell in cells))
    parser = argparse.ArgumentParser(description=script.split("\n")[0])
    parser.add_argument("figures", nargs="*", help=", ".join(figures))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument(
        "--only", default="", help="train only runs whose labels contain this text"
    )
    parser.add_argument(
        "--part", default="0/1", help="i/n: train every n-th run, from the i-th"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--together",
        type=int,
        default=1,
        help="number of runs trained stacked, as one matrix",
    )
    parser.add_argument("--out", type=Path, default=base.parent)
    given = parser.parse_args()
    given.figures = given.figures or figures
    return given


def place(models: Path, name: str, seed: int) -> Path:
    """Return the path of the shared model of the runs with this name."""
    return models / f"{name}, seed {seed}.safetensors"


def keep(models: Path, run: Run) -> None:
    """Copy a run's shared model to `models`, atomically."""
    file = place(models, run.experiment.name, run.experiment.seed)
    file.parent.mkdir(exist_ok=True)
    made = file.with_suffix(f".{os.getpid()}")
    shutil.copy(run.path / files.SHARED, made)
    made.replace(file)


def begun(models: Path, cell: Cell, seed: int) -> Changes | None:
    """Return a cell's changes with the shared model of its name; `None` if missing."""
    file = place(models, cell.changes["name"], seed)
    if not file.exists():
        print(f"{file.name} is missing, for {cell.label}", flush=True)
        return None
    return merged(cell.changes, {"model": {"weights": str(file)}})


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    first, *columns = head
    lines = grid(columns, [list(one) for one in rows])
    return "\n".join([lines[0].replace("| |", f"| {first} |", 1), *lines[1:]])


def page(
    script: str | None,
    place: Path,
    tables: Callable[[], str],
    pictures: Pictures,
    dpi: int = 150,
) -> None:
    """Run the command line of a page: print its tables, draw its pictures to files.

    Args:
        script: the script's docstring.
        place: the folder to which pictures are written.
        tables: returns all tables in Markdown.
        pictures: drawn if --draw is given.
        dpi: resolution of the pictures.
    """
    parser = argparse.ArgumentParser(description=(script or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="also draw the pictures")
    if parser.parse_args().draw:
        for name, draw in pictures.items():
            made = draw()
            save(made, place / f"{name}.png", dpi)
            plt.close(made)
    print(tables())


def save(figure: plt.Figure, file: Path, dpi: int = 150) -> None:
    """Save a picture with at most 128 colors, a third of the bytes."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi)
    few = Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
