"""Train the cells of tables and figures: one base experiment, some keys changed.

A script gives its cells to `main`. A finished cell is a file under its `results/`; what
is there already is not trained again, so a stopped script goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import troth
from troth import files
from troth.config import reader
from troth.reproduce import kept
from troth.reproduce.entry import merged as merged
from troth.runs import train_many
from troth.runs.load import Run

Changes = dict[str, Any]
Look = Callable[[Run], Changes]
"""What else a row says of a run, from its folder, before that is thrown away."""


class Cell(NamedTuple):
    """One run of a table or figure."""

    figure: str
    label: str
    changes: Changes


class Job(NamedTuple):
    """A run that is missing."""

    cell: Cell
    seed: int
    tree: Changes
    file: Path


def groups(jobs: Iterable[Job], most: int) -> Iterator[list[Job]]:
    """At most so many at a time, of runs that can step as one matrix."""
    if most == 1:  # as they come: whether one is needed may hang on those before
        yield from ([job] for job in jobs)
        return
    kinds: dict[str, list[Job]] = {}
    for job in jobs:
        kinds.setdefault(train_many.kind(reader.from_dict(job.tree)), []).append(job)
    for same in kinds.values():
        for k in range(0, len(same), most):
            yield same[k : k + most]


def trained(group: list[Job], device: str, place: Path) -> list[Run]:
    """Runs, each in a folder below the place."""
    paths = [place / str(k) / "run" for k in range(len(group))]
    if len(group) == 1:
        return [*troth.run(group[0].tree, out=paths[0], device=device)]
    on = {"engine": {"device": device}}
    train_many.train([reader.from_dict(merged(j.tree, on)) for j in group], paths)
    return [Run(path) for path in paths]


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
    """The command line of a script.

    Args:
        script: its docstring.
        base: the experiment that all cells change, its grid left out; the results
            lie beside it.
        cells: what it can train.
        look: what else a row says.
        seeds: how many each cell has unless told.
        first: the first of them.
        given_seed: cell, seed → its changes together with what only that seed has,
            such as the model that it starts from; None: that is not there yet.
    """
    cells = list(cells)
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
    parser.add_argument("--out", type=Path, default=base.parent / "results")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    wanted = given.figures or figures
    chosen = [c for c in cells if c.figure in wanted and given.only in c.label]
    every = [
        (cell, seed) for seed in range(first, first + given.seeds) for cell in chosen
    ]
    plain = {k: v for k, v in reader.read(base).items() if k != "grid"}

    def missing() -> Iterator[Job]:
        for cell, seed in every[part::parts]:
            file = given.out / cell.figure / f"{cell.label}, seed {seed}.json"
            changes = None if file.exists() else given_seed(cell, seed)
            if changes is not None:
                tree = {**merged(plain, changes), "seed": seed}
                yield Job(cell, seed, tree, file)

    for group in groups(missing(), given.together):
        with tempfile.TemporaryDirectory(prefix="cell") as place:
            runs = trained(group, given.device, Path(place))
            for job, run in zip(group, runs, strict=True):
                write(job, run, look)
                print(job.file.relative_to(given.out), flush=True)


def write(job: Job, run: Run, look: Look) -> None:
    """The file of a finished run."""
    cell = job.cell
    said = {"label": cell.label, "changes": cell.changes, "seed": job.seed}
    said |= row(run) | look(run)
    job.file.parent.mkdir(parents=True, exist_ok=True)
    files.write(job.file, json.dumps(files.plain(said), indent=1) + "\n")
