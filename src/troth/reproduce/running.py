"""Run the cells of an entry that have no result yet, several runs at once."""

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
"""Largest number of cells that are trained as one matrix: the columns of a row."""


class Job(NamedTuple):
    """A missing run of a cell."""

    cell: Cell
    choice: int
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

    Runs are trained in groups. The results of a group are written when the whole group
    is trained, so a process that is killed and started again repeats at most one group.
    Runs whose results another process has written in the meantime are not trained
    again.

    Args:
        cells: The cells.
        shelf: Store in which results are found and to which they are written.
        seeds: Number of seeds per cell.
        device: Device to train on.
        data_dir: Folder that is searched first for data sets.
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

    Cells with the same experiment are trained once.
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
    """Train experiments, several at once, each in its own folder.

    Returns:
        The runs; None if memory is too small for this many.
    """
    paths = [place / str(k) for k in range(len(every))]
    if len(every) == 1:
        runs.train(every[0], paths[0], watch=watch, data_dir=data_dir)
    elif not train_many.held(every, paths, watch=watch, data_dir=data_dir):
        return None
    return [Run(path) for path in paths]


def check(job: Job, data_dir: str | None = None) -> None:
    """Refuse data with another number of clients than the federation has.

    The ids of the malicious clients are drawn for the federation's number of clients.
    With another number, the share of malicious clients would not be that of the column.
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
    """Train a group in a temporary folder, and keep its results."""
    check(group[0], data_dir)
    with tempfile.TemporaryDirectory(prefix="troth-cells-") as place:
        every = [job.experiment for job in group]
        found = trained(every, Path(place), data_dir, watch)
        for job, run in zip(group, found or (), strict=found is not None):
            shelf.add(job.cell, job.choice, job.seed, run)
    if found is None:  # out of memory: train two halves instead
        half = (len(group) + 1) // 2
        for part in (group[:half], group[half:]):
            _train(part, shelf, data_dir, watch)


def _named(watch: runs.Watch | None, label: str) -> runs.Watch | None:
    return watch and (lambda p: watch(p._replace(label=label)))
