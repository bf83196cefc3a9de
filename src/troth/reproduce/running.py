"""Train the cells of an entry that have no result yet, several runs at once."""

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from troth.config.schema import Experiment
from troth.data import load
from troth.reproduce.entry import Cell, experiment, key
from troth.reproduce.kept import Shelf
from troth.runs import train as runs
from troth.runs import train_many
from troth.runs.load import Run
from troth.types import Refusal

MOST = 10
"""Largest number of runs that are trained at once."""


class Job(NamedTuple):
    """A run of a cell that is missing."""

    cell: Cell
    choice: int  # index in the cell's choices
    seed: int
    experiment: Experiment


def run(
    cells: Sequence[Cell],
    shelf: Shelf,
    seeds: int,
    *,
    device: str = "auto",
    data_dir: str | None = None,
    apart: bool = False,
    watch: runs.Watch | None = None,
) -> int:
    """Train the missing runs of cells.

    Runs are trained in groups, and the results of a group are written together. So if
    the process is killed and started again, it repeats at most one group. If another
    process has written the result of a run in the meantime, the run is left out.

    Args:
        cells: The cells.
        shelf: Existing results, to which new ones are added.
        seeds: Number of seeds per cell.
        device: Device to train on.
        data_dir: Folder to search first for data.
        apart: Whether to train one run after another.
        watch: Function that is called with the progress.

    Returns:
        The number of runs that were trained.
    """

    def train(wanted: list[tuple[Cell, int, int]]) -> int:
        jobs, done, made = missing(wanted, shelf, device), 0, 0
        for group in groups(jobs, apart):
            shelf.look()  # for results of other processes
            left = [job for job in group if shelf.find(*job[:3]) is None]
            if left:
                more = f" and {len(left) - 1} more" if len(left) > 1 else ""
                first = f"{left[0].cell.ours}{more}, seed {left[0].seed}"
                label = f"[{done + 1}/{len(jobs)}] {first}"
                _train(left, shelf, data_dir, _named(watch, label))
            done, made = done + len(group), made + len(left)
        return made

    made = train([(c, i, 0) for c in cells for i in range(len(c.choices))])
    chosen = [(c, shelf.chosen(c)) for c in cells]
    rest = [(c, i, s) for s in range(1, seeds) for c, i in chosen if i is not None]
    return made + train(rest)


def missing(
    wanted: Iterable[tuple[Cell, int, int]], shelf: Shelf, device: str = "auto"
) -> list[Job]:
    """Return the runs that have no result yet.

    If several cells have the same experiment, it is returned once.

    Args:
        wanted: Cells, indices of their choices, and seeds.
        shelf: Existing results.
        device: Device to train on.
    """
    jobs: dict[str, Job] = {}
    for cell, choice, seed in wanted:
        e = experiment(cell.choices[choice], seed)
        named = key(cell.choices[choice], seed)
        if named not in jobs and shelf.find(cell, choice, seed) is None:
            engine = dataclasses.replace(e.engine, device=device)
            e = dataclasses.replace(e, engine=engine)
            jobs[named] = Job(cell, choice, seed, e)
    return list(jobs.values())


def groups(jobs: Sequence[Job], apart: bool = False) -> Iterator[list[Job]]:
    """Yield groups of at most `MOST` jobs that can be trained at once."""
    fits = [train_many.joint(job.experiment, apart or None) for job in jobs]
    yield from alike(job for job, fit in zip(jobs, fits, strict=True) if fit)
    yield from ([job] for job, fit in zip(jobs, fits, strict=True) if not fit)


def alike(jobs: Iterable[Any], most: int = MOST) -> Iterator[list[Any]]:
    """Yield groups of at most `most` jobs whose experiments can be trained at once."""
    kinds: dict[str, list[Any]] = {}
    for job in jobs:
        kinds.setdefault(train_many.kind(job.experiment), []).append(job)
    for same in kinds.values():
        for k in range(0, len(same), most):
            yield same[k : k + most]


def trained(
    every: Sequence[Experiment],
    place: Path,
    data_dir: str | None = None,
    watch: runs.Watch | None = None,
) -> list[Run] | None:
    """Train experiments at once, each in another folder in `place`.

    Returns:
        The runs; None if they do not fit in memory together.
    """
    paths = [place / str(k) for k in range(len(every))]
    if len(every) == 1:
        runs.train(every[0], paths[0], watch=watch, data_dir=data_dir)
    elif not train_many.held(every, paths, watch=watch, data_dir=data_dir):
        return None
    return [Run(path) for path in paths]


def check(job: Job, data_dir: str | None = None) -> None:
    """Raise Refusal if the data have another number of clients than the federation.

    The malicious clients are drawn for the federation's number of clients. With another
    number, the share of malicious clients would be wrong.
    """
    federation = job.cell.federation
    n = len(load.deal(job.experiment, data_dir)[1].train)
    if n != federation.clients:
        raise Refusal(
            f"data '{federation.data}' have {n} clients here, and {federation.name} "
            f"has {federation.clients}: the share of malicious clients would be wrong; "
            "get the whole data set, or choose other cells with --cells"
        )


def _train(
    group: list[Job], shelf: Shelf, data_dir: str | None, watch: runs.Watch | None
) -> None:
    """Train a group in a temporary folder, and store its results.

    If memory is too small, train two halves of the group one after the other.
    """
    check(group[0], data_dir)
    with tempfile.TemporaryDirectory(prefix="troth-cells-") as place:
        every = [job.experiment for job in group]
        found = trained(every, Path(place), data_dir, watch)
        for job, run in zip(group, found or (), strict=found is not None):
            shelf.add(job.cell, job.choice, job.seed, run)
    if found is None:  # out of memory
        half = (len(group) + 1) // 2
        for part in (group[:half], group[half:]):
            _train(part, shelf, data_dir, watch)


def _named(watch: runs.Watch | None, label: str) -> runs.Watch | None:
    return watch and (lambda p: watch(p._replace(label=label)))
