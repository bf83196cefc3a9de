"""Run the cells of an entry: what is done is skipped, what can share a matrix does."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from troth.config.schema import Experiment
from troth.reproduce import digests
from troth.reproduce.entry import Cell, experiment, key
from troth.reproduce.kept import Shelf
from troth.runs import train as runs
from troth.runs import train_many
from troth.runs.load import Run

MOST = 10
"""Cells that are trained as one matrix: the columns of a row."""


class Job(NamedTuple):
    """A run that a cell needs."""

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
    keep: bool = False,
    watch: runs.Watch | None = None,
) -> int:
    """Train what is missing of some cells, and write down each as soon as it is done.

    A group of cells is written when all of it is trained: whoever is killed and started
    again repeats at most that group. What another process made in the meantime is not
    trained again.

    Args:
        cells: which.
        shelf: where results are looked for and put.
        seeds: how many of each; cells with several experiments choose in the first.
        device: auto, cpu, cuda, cuda:N or mps.
        data_dir: where data sets are looked for first.
        apart: train one after another even what could be trained together.
        keep: results of other code count as done.
        watch: told after every round.

    Returns:
        How many runs were trained.
    """

    def train(wanted: list[tuple[Cell, int, int]]) -> int:
        jobs, done, made = missing(wanted, shelf, device, keep), 0, 0
        for group in groups(jobs, apart):
            shelf.look()  # others may have made some of it meanwhile
            left = [job for job in group if _lacks(shelf, *job[:3], keep)]
            if left:
                label = f"[{done + 1}/{len(jobs)}] {_label(left)}"
                _train(left, shelf, data_dir, _named(watch, label))
            done, made = done + len(group), made + len(left)
        return made

    made = train([(c, i, 0) for c in cells for i in range(len(c.choices))])
    chosen = [(c, shelf.chosen(c, code=not keep)) for c in cells]
    rest = [(c, i, s) for s in range(1, seeds) for c, i in chosen if i is not None]
    return made + train(rest)


def _label(group: list[Job]) -> str:
    """A group for people."""
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    return f"{group[0].cell.ours}{more}, seed {group[0].seed}"


def missing(
    wanted: Iterable[tuple[Cell, int, int]],
    shelf: Shelf,
    device: str = "auto",
    keep: bool = False,
) -> list[Job]:
    """What has to be trained: no result is there of this experiment and this code.

    Cells that come to the same experiment are trained once.
    """
    jobs: dict[str, Job] = {}
    for cell, choice, seed in wanted:
        e = experiment(cell.choices[choice], seed)
        named = key(cell.choices[choice], seed)
        if named not in jobs and _lacks(shelf, cell, choice, seed, keep):
            engine = dataclasses.replace(e.engine, device=device)
            e = dataclasses.replace(e, engine=engine)
            jobs[named] = Job(cell, choice, seed, e)
    return list(jobs.values())


def _lacks(shelf: Shelf, cell: Cell, choice: int, seed: int, keep: bool) -> bool:
    """Whether there is no result, of this code unless any is to be kept."""
    code = None if keep else digests.code(experiment(cell.choices[choice], seed))
    return shelf.find(cell, choice, seed, code) is None


def older(cells: Sequence[Cell], shelf: Shelf, seeds: int) -> int:
    """How many runs of some cells are there, and of other code."""
    wanted = [
        (cell, choice, seed)
        for cell in cells
        for choice in range(len(cell.choices))
        for seed in range(seeds)
    ]
    again = missing(wanted, shelf)
    return sum(shelf.find(job.cell, job.choice, job.seed) is not None for job in again)


def groups(jobs: Sequence[Job], apart: bool = False) -> Iterator[list[Job]]:
    """Jobs that can be trained as one matrix, at most `MOST` at a time."""
    kinds: dict[str, list[Job]] = {}
    for number, job in enumerate(jobs):
        e = job.experiment
        joint = train_many.joint(e, apart or None)
        kind = train_many.kind(e) if joint else str(number)
        kinds.setdefault(kind, []).append(job)
    for same in kinds.values():
        for k in range(0, len(same), MOST):
            yield same[k : k + MOST]


def _train(
    group: list[Job], shelf: Shelf, data_dir: str | None, watch: runs.Watch | None
) -> None:
    """Train a group in a folder that is thrown away, and keep what it found."""
    with tempfile.TemporaryDirectory(prefix="troth-cells-") as place:
        paths = [Path(place) / str(k) for k in range(len(group))]
        every = [job.experiment for job in group]
        if len(group) == 1:
            runs.train(every[0], paths[0], watch=watch, data_dir=data_dir)
        elif not train_many.held(every, paths, watch=watch, data_dir=data_dir):
            _halves(group, shelf, data_dir, watch)
            return
        for job, path in zip(group, paths, strict=True):
            shelf.add(job.cell, job.choice, job.seed, Run(path))


def _halves(
    group: list[Job], shelf: Shelf, data_dir: str | None, watch: runs.Watch | None
) -> None:
    """Memory ran out: the same in two parts."""
    half = (len(group) + 1) // 2
    for part in (group[:half], group[half:]):
        _train(part, shelf, data_dir, watch)


def _named(watch: runs.Watch | None, label: str) -> runs.Watch | None:
    if watch is None:
        return None
    told = watch
    return lambda p: told(p._replace(label=label))
