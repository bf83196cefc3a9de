"""What scripts share: the command lines of runs and of pages, and shared models.

A script gives its cells to `main`: one base experiment, some keys changed. A finished
cell is kept at once (`troth.reproduce.store`); what is there already is not trained
again, so a stopped script goes on where it was. `page` prints tables, draws pictures.
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
"""What else a record says of a run, from its folder, before that is thrown away."""
Pictures = Mapping[str, Callable[[], plt.Figure]]
"""The name of a file, without its ending → what draws it."""


class Cell(NamedTuple):
    """One run of a table or figure."""

    figure: str
    label: str
    changes: Changes


class Job(NamedTuple):
    """A run that is missing."""

    cell: Cell
    seed: int
    experiment: Experiment

    @property
    def name(self) -> str:
        """Of its record."""
        return f"{self.cell.figure}/{self.cell.label}, seed {self.seed}"


def row(run: Run) -> Changes:
    """What a table needs of a run: clients' accuracies, and how they came to be."""
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
    """Benign clients' accuracy at every evaluation on the way."""
    return {"curve": kept.curve(run, "weighted", "mean", "std")}


def no_more(run: Run) -> Changes:
    """Nothing beside the row."""
    return {}


def as_it_is(cell: Cell, seed: int) -> Changes | None:
    """The cell's own changes, whatever the seed."""
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
    """The command line of a script that trains.

    Args:
        script: its docstring.
        base: the experiment that all cells change, its grid left out; the results
            lie beside it.
        cells: what it can train.
        look: what else a record says.
        seeds: how many each cell has unless told.
        first: the first of them.
        given_seed: cell, seed → its changes together with what only that seed has,
            such as the model that it starts from; None: that is not there yet.
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

    alone = ([job] for job in missing())  # whether one is needed may hang on others
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
    parser.add_argument("--only", default="", help="labels that contain this")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th, from the i-th")
    parser.add_argument("--device", default="auto")
    parser.add_argument(
        "--together", type=int, default=1, help="so many at a time, as one matrix"
    )
    parser.add_argument("--out", type=Path, default=base.parent)
    given = parser.parse_args()
    given.figures = given.figures or figures
    return given


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


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table."""
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
    """The command line of a page: its tables to the screen, its pictures to files.

    Args:
        script: its docstring.
        place: the folder that pictures are written to.
        tables: all of them, as Markdown.
        pictures: drawn with --draw.
        dpi: of pictures.
    """
    parser = argparse.ArgumentParser(description=(script or "").split("\n")[0])
    parser.add_argument("--draw", action="store_true", help="the pictures, too")
    if parser.parse_args().draw:
        for name, draw in pictures.items():
            made = draw()
            save(made, place / f"{name}.png", dpi)
            plt.close(made)
    print(tables())


def save(figure: plt.Figure, file: Path, dpi: int = 150) -> None:
    """A picture of at most 128 colours: a third of the bytes."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=dpi)
    few = Image.open(drawn).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
