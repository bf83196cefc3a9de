"""The library's main functions: run, resume, cost and aggregate."""

import contextlib
import datetime
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from troth import files, lookup
from troth.build import build
from troth.config import effects, reader
from troth.config.schema import Experiment, Part
from troth.runs import given, grid, train
from troth.runs.grid import Planned, Spread, tried, wider, workload
from troth.runs.grid import plan as plan
from troth.runs.load import Run, read_experiment
from troth.runs.train import Watch
from troth.server import rules
from troth.types import Broadcast, Messages, Notice, Refusal

Given = str | Path | Mapping[str, Any] | None
"""An experiment: the path of a TOML file, a dictionary of its sections, or `None` for
the quickstart (a small experiment that comes with Troth)."""


class Cost(NamedTuple):
    """The estimated need of one run: client steps, memory and disk space."""

    label: str
    experiment: Experiment
    client_steps: int
    memory: int  # bytes: data, client states, and work space of a cohort
    disk: int = 0  # bytes: client states that are stored on disk
    seconds: float | None = None  # all client steps; `None`: not measured


def run(
    experiment: Given = None,
    *,
    data: Any = None,
    model: Any = None,
    settings: Sequence[str] = (),
    out: str | Path | None = None,
    device: str | None = None,
    data_dir: str | None = None,
    watch: Watch | None = None,
    apart: bool | None = None,
    spread: Spread | None = None,
) -> list[Run]:
    """Train an experiment: a single run, or all runs of its grid.

    On a GPU, similar runs of a grid are trained together: the clients of all runs form
    one batch. Such runs may differ only in the seed, the malicious clients and what
    these do, and the methods of the server.

    Args:
        experiment: Path of a TOML file, a dictionary of its sections, or `None` for the
            quickstart.
        data: Data that replace those of the experiment: a dictionary of arrays `x`,
            `y`, and optionally `owner`, `group` and `split`; or one torch data set per
            client. `troth.data.sources.give` describes all forms. Options go into the
            section `data` of the experiment. `None` means the experiment's data.
        model: A `torch.nn.Module`, or a class or function that returns one, which
            replaces the model of the experiment. A class or function gets `shape` and
            `classes` if it has parameters of these names. `None` means the experiment's
            model.
        settings: Changes to the experiment, such as "train.rounds=50".
        out: Folder to write, which must not exist. `None` makes a new folder in
            `runs/`.
        device: "auto", "cpu", "cuda", "cuda:N" or "mps". `None` means the setting of
            the experiment.
        data_dir: Folder that is searched first for data sets. `None` means that only
            the default folders are searched.
        watch: `troth.ProgressBar()`, a function that is called after every round, or
            `None`.
        apart: `True` trains the runs of a grid one after another. `False` trains runs
            together whenever possible, also on a CPU. `None` trains them together on a
            GPU only.
        spread: `troth.Spread(…)` divides the runs of a grid among devices, machines or
            parts. `None` trains them all in this process.

    Returns:
        The runs, in the order of the grid. With `spread.part`, those of the part.

    Raises:
        Refusal: If the settings or the data are not valid. No file is written then.

    >>> import tempfile, troth
    >>> folder = tempfile.TemporaryDirectory()
    >>> partition = {"name": "iid", "clients": 4}
    >>> tree = {"partition": partition, "train": {"rounds": 2}, "personalizer": "ditto"}
    >>> [one] = troth.run(tree, settings=["engine.how=loop"], out=folder.name + "/run")
    >>> one.summary["rounds"], len(one.clients["accuracy"])
    (2, 4)

    With your data and network:

    >>> import numpy as np
    >>> from torch import nn
    >>> x = np.random.default_rng(0).normal(size=(60, 2)).astype("float32")
    >>> own = {"x": x, "y": (x[:, 0] > 0).astype(int), "owner": np.arange(60) % 3}
    >>> tree = {"partition": "natural", "train": {"rounds": 2}}
    >>> [one] = troth.run(tree, data=own, model=nn.Linear(2, 2),
    ...                   settings=["engine.how=loop"], out=folder.name + "/own")
    >>> one.experiment.model.name[:13]
    'memory:Linear'
    >>> folder.cleanup()

    Read on: `docs/how-to/experiment.md` and `docs/how-to/own-data.md`.
    """
    objects = given.give(data, model)
    sections = _with(objects, experiment, settings)
    planned = plan(sections, device)
    _check(objects, planned)
    root, parts = Path(out or fresh(experiment)), spread or Spread()
    parts.check(bool(sections.get("grid")), bool(objects) or given.in_main(sections))
    trackers = _trackers(planned[0].experiment.track, parts)
    if not (parts.part and (root / files.GRID).exists()):
        files.check_free(root)
    with _followed(trackers, root, watch):
        if not sections.get("grid"):
            train.train(planned[0].experiment, root, watch=watch, data_dir=data_dir)
            return [Run(root)]
        for one in planned:  # refuse any invalid run before the first one trains
            tried(one, root, data_dir)
        facts = {"device": device, "data_dir": data_dir}
        sections["resolved"] = {k: v for k, v in facts.items() if v is not None}
        grid.begin(root, sections, parts)
        how: dict[str, Any] = {"data_dir": data_dir, "watch": watch}
        return grid.run(planned, root, parts, apart=apart, **how)


def _trackers(trackers: Sequence[Part], parts: Spread) -> Sequence[Part]:
    """Return the trackers of a grid; refuse them for a part of it."""
    if trackers and parts.part:
        raise Refusal(
            "every part would send the whole grid to the trackers; remove [track], and "
            "use: troth track RUN --follow"
        )
    return trackers


@contextlib.contextmanager
def _followed(trackers: Sequence[Part], root: Path, watch: Any) -> Iterator[None]:
    """Within the block, send a run to its trackers, and show a progress bar, if any."""
    if watch is not None and not callable(watch):
        raise Refusal(
            f"watch= is of type {type(watch).__name__}; it must be "
            "troth.ProgressBar(), a function that is called after every round, or None"
        )
    with contextlib.ExitStack() as stack:
        if trackers:
            from troth.runs import track

            stack.enter_context(track.live(trackers, root))
        if hasattr(watch, "shown"):
            stack.enter_context(watch.shown())
        yield


def resume(
    path: str | Path,
    *,
    data: Any = None,
    model: Any = None,
    settings: Sequence[str] = (),
    watch: Watch | None = None,
    spread: Spread | None = None,
) -> list[Run]:
    """Continue a run, or every unfinished run of a grid, from its last checkpoint.

    On the same machine, the resulting files are byte for byte those of an uninterrupted
    run. Finished runs are not changed.

    Args:
        path: Folder of a run or of a grid.
        data: The data in memory with which the run was trained; `None` if the run reads
            its data itself.
        model: The network in memory with which the run was trained, or `None`.
        settings: For a grid: settings that add values to its axes, such as
            "grid.seed=[0, 1, 2]". Its earlier runs must stay as they are.
        watch: `troth.ProgressBar()`, a function that is called after every round, or
            `None`.
        spread: As in `run`.

    Returns:
        The runs, in the order of the grid. With `spread.part`, those of the part.

    Raises:
        Refusal: If the folder is not that of a run, its files were lost or changed, or
            the run was trained with another object `data` or `model`.

    >>> import tempfile, troth
    >>> folder = tempfile.TemporaryDirectory()
    >>> partition = {"name": "iid", "clients": 4}
    >>> [one] = troth.run({"partition": partition, "train": {"rounds": 2}},
    ...                   settings=["engine.how=loop"], out=f"{folder.name}/run")
    >>> [same] = troth.resume(one.path)  # it was finished
    >>> same.summary["rounds"]
    2
    >>> folder.cleanup()

    Read on: `checkpoint` in the experiment file, and `docs/how-to/resume.md`.
    """
    root, objects, parts = Path(path), given.give(data, model), spread or Spread()
    parts.check((root / files.GRID).exists())
    settings = [settings] if isinstance(settings, str) else settings
    if not (root / files.GRID).exists():
        if settings:
            raise Refusal(
                f"{root} is a single run, whose settings cannot change; train another "
                "with troth run"
            )
        one = read_experiment(root)
        given.check_same(objects, [one], root)
        if not (root / files.SUMMARY).exists():
            given.check_here([one], root)
        track = [] if finished(root) else one.track
        with _followed(track, root, watch):
            train.resume(root, watch=watch)
        return [Run(root)]
    sections = reader.read(root / files.GRID)
    facts = sections.get("resolved", {})
    parts.check(in_memory=bool(objects) or given.in_main(sections))
    if settings:
        sections = wider(root, sections, settings, facts.get("device"))
    planned = plan(sections, facts.get("device"))
    given.check_same(objects, [one.experiment for one in planned], root)
    missing = (p for p in planned if not (root / p.label / files.SUMMARY).exists())
    given.check_here([one.experiment for one in missing], root)
    track = [] if finished(root) else planned[0].experiment.track
    trackers = _trackers(track, parts)
    with _followed(trackers, root, watch):
        how: dict[str, Any] = {"data_dir": facts.get("data_dir"), "watch": watch}
        return grid.run(planned, root, parts, **how)


def finished(path: str | Path) -> bool:
    """Return whether a run, or every run of a grid, has finished."""
    root = Path(path)
    if not (root / files.GRID).exists():
        return Run(root).finished
    planned = plan(reader.read(root / files.GRID), None)
    return all((root / one.label / files.SUMMARY).exists() for one in planned)


def cost(
    experiment: Given = None,
    *,
    data: Any = None,
    model: Any = None,
    settings: Sequence[str] = (),
    device: str | None = None,
    data_dir: str | None = None,
    timed: bool = False,
) -> list[Cost]:
    """Estimate client steps, memory and disk space of the runs of an experiment.

    The data are loaded and split, and all checks of a run are made, but nothing is
    trained.

    Args:
        experiment: As in `run`.
        data: As in `run`.
        model: As in `run`.
        settings: Changes to the experiment, such as "train.rounds=50".
        device: As in `run`.
        data_dir: As in `run`.
        timed: whether to measure a client step, about two seconds per workload, and
            estimate how long all steps take, without set-up and evaluation.

    Returns:
        One `Cost` per run of the grid: its label, its experiment, the number of client
        steps, the bytes of memory and of disk space and, if `timed`, the seconds of all
        client steps.

    Raises:
        Refusal: If `run` would raise Refusal for this experiment.

    >>> import troth
    >>> tree = {"partition": {"clients": 4}, "train": {"rounds": 3, "steps": 5}}
    >>> [one] = troth.cost(tree)
    >>> one.client_steps, one.disk  # 4 clients, 3 rounds of 5 steps
    (60, 0)

    Read on: `troth run --dry-run` in `docs/how-to/first-run.md`.
    """
    costs, objects = [], given.give(data, model)
    planned = plan(_with(objects, experiment, settings), device)
    _check(objects, planned)
    measured: dict[str, float | None] = {}
    for one in planned:
        work = workload(one.experiment)
        asked = None if timed and work not in measured else train.UNMEASURED
        built = build(one.experiment, data_dir=data_dir, plan=asked)
        step = measured.setdefault(work, built.federation.engine.step_seconds)
        engine = built.federation.engine
        population, x, need = built.federation.population, built.data.x, built.need
        cohort = one.experiment.train.cohort or population.n
        d, width = engine.task.d, population.width
        memory = engine.feed.dtype.itemsize * cohort * (3 * d + max(d, width))
        memory += x.numel() * x.element_size()
        memory += 0 if population.on_disk else need.rows
        disk = need.disk if population.on_disk else 0
        steps = int(built.client_steps)
        seconds = step * steps if timed and step is not None else None
        costs.append(Cost(one.label, one.experiment, steps, memory, disk, seconds))
    return costs


def aggregate(
    name: str,
    updates: Tensor,
    *,
    loss: Tensor | None = None,
    size: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """Apply an aggregator to a matrix of updates.

    Args:
        name: Name of the aggregator, such as "median". `troth list aggregator` prints
            all.
        updates: [n, d], one row per client. All entries must be finite.
        loss: [n] losses of the clients, for aggregators that use them.
        size: [n] numbers of examples, for aggregators that use them. `None` means 1
            each.
        **options: Options of the aggregator, such as f=2; other options have their
            default values.

    Returns:
        The aggregated update [d]. If an aggregator has a memory, it is empty, as in a
        first round.

    Raises:
        Refusal: If the aggregator or an option is unknown, or `updates` is not a matrix
            of finite numbers.

    >>> import torch, troth
    >>> updates = torch.tensor([[0.0], [1.0], [2.0], [3.0], [100.0]])
    >>> [troth.aggregate(name, updates).item() for name in ("mean", "median")]
    [21.200000762939453, 2.0]
    >>> troth.aggregate("krum", updates, f=1).item()
    1.0

    Read on: `troth list aggregator`; each aggregator's docstring states its guarantee.
    """
    _check_matrix(updates)
    n, device = updates.shape[0], updates.device
    rule = rules.lift("aggregator", name, lookup.check("aggregator", name, options))
    if "loss" in rule.asks and loss is None:
        raise Refusal(f"aggregator '{name}' uses the clients' losses; give loss=")
    for field, values in (("loss", loss), ("size", size)):
        if values is not None and torch.as_tensor(values).shape != (n,):
            raise Refusal(
                f"{field} of shape {list(torch.as_tensor(values).shape)} does not fit "
                f"{n} updates; give a vector of length {n}, one value per row"
            )
    unknown = updates.new_full((n,), torch.nan)
    reported = unknown if loss is None else torch.as_tensor(loss).to(updates)
    counts = torch.as_tensor([1] * n if size is None else size, device=device)
    client = torch.arange(n, device=device)
    empty = updates.new_zeros
    messages = Messages(updates, empty(n, 0), reported, counts, client)
    step, _ = rule(
        rules.no_memory(device),
        broadcast=Broadcast(empty(updates.shape[1]), empty(0), updates.new_ones(())),
        messages=messages,
        loss=reported,
        key=torch.zeros((), dtype=torch.long, device=device),
        round_=0,
    )
    assert isinstance(step, Tensor)
    return step


def _check_matrix(updates: Any) -> None:
    if not isinstance(updates, Tensor) or not updates.is_floating_point():
        kind = updates.dtype if isinstance(updates, Tensor) else type(updates).__name__
        raise Refusal(
            f"updates are {kind}; they must be a tensor of floating-point numbers, "
            "such as torch.as_tensor(updates, dtype=torch.float32)"
        )
    if updates.dim() != 2 or updates.shape[0] == 0:
        raise Refusal(
            f"updates of shape {list(updates.shape)} are not a matrix [n, d] with n ≥ 1"
        )
    if not bool(updates.isfinite().all()):
        rows = (~updates.isfinite().all(dim=1)).nonzero().flatten().tolist()
        raise Refusal(
            f"updates have NaN or infinity in row {rows[0]} ({len(rows)} of "
            f"{len(updates)} rows); leave such rows out, as a run does (drop_invalid)"
        )


def quickstart() -> str:
    """Return the TOML text of the quickstart, the experiment of `troth run`."""
    return resources.files("troth").joinpath("quickstart.toml").read_text("utf-8")


def tree(experiment: Given, settings: Sequence[str]) -> dict[str, Any]:
    """Return the sections of an experiment as dictionaries, changed by the settings."""
    if experiment is None:
        sections = reader.parse(quickstart(), "the quickstart")
    elif isinstance(experiment, Mapping):
        sections = {
            k: v if k in given.KINDS else lookup.by_name(v)
            for k, v in experiment.items()
        }
    elif isinstance(experiment, str | Path):
        sections = reader.read(experiment)
    else:
        raise Refusal(
            f"the experiment is of type {type(experiment).__name__}; it must be the "
            "path of a TOML file, a dictionary of its sections, or None"
        )
    return reader.override(sections, list(settings))


def _with(
    objects: given.Objects, experiment: Given, settings: Sequence[str]
) -> dict[str, Any]:
    """Return the sections of an experiment, changed to use the objects."""
    if experiment is not None:  # in the quickstart, objects replace its data and model
        given.check_sections(objects, tree(experiment, []))
    settings = [settings] if isinstance(settings, str) else settings
    return tree(experiment, [*given.settings(objects), *settings])


def _check(objects: given.Objects, planned: Sequence[Planned]) -> None:
    """Raise Refusal if a run does not use an object; warn of useless settings."""
    experiments = [one.experiment for one in planned]
    given.check_used(objects, experiments)
    for text in effects.notices(experiments):
        warnings.warn(text, Notice, stacklevel=3)


def fresh(experiment: Given) -> Path:
    """Return a new folder in `runs/`, named after the experiment and the time."""
    stem = "run" if experiment else "quickstart"
    if isinstance(experiment, str | Path):
        stem = Path(experiment).stem
    name = f"{stem}-{datetime.datetime.now():%Y%m%d-%H%M%S}"
    ends = chain([""], (f"-{k}" for k in count(2)))
    paths = (Path("runs") / f"{name}{end}" for end in ends)
    return next(path for path in paths if not path.exists())
