"""The command `troth run`."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import (
    DataDir,
    Devices,
    Json,
    Part,
    PerDevice,
    Quiet,
    Ray,
    Settings,
    spread,
)
from troth.cli.commands._words import STOPPED, complain
from troth.cli.commands.report import announce

if TYPE_CHECKING:
    from troth.runs.load import Run


def run(
    experiment: Annotated[
        Path | None,
        Argument(
            metavar="EXPERIMENT.toml", help="Experiment file. Default: the quickstart."
        ),
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None, Flag(help="New folder for the run. Default: one in runs/.")
    ] = None,
    device: Annotated[
        str | None, Flag(help="Device: auto, cpu, cuda, cuda:N or mps.")
    ] = None,
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool,
        Flag(
            "--dry-run",
            help="Print the steps, memory, disk space and time that the runs need, and "
            "train nothing.",
        ),
    ] = False,
    with_report: Annotated[
        bool, Flag("--report", help="Write the report when training ends.")
    ] = False,
    apart: Annotated[
        bool | None,
        Flag(
            "--apart/--together",
            help="Train the runs of a grid one after another (--apart, default on a "
            "CPU), or at the same time (--together, default on a GPU).",
        ),
    ] = None,
    devices: Devices = "",
    per_device: PerDevice = 1,
    part: Part = "",
    ray: Ray = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train an experiment, or every run of its grid."""
    from troth import api, files
    from troth.cli import progress, tables

    name = experiment.stem if experiment else "quickstart"
    root = out or api.fresh(experiment)
    given: dict[str, Any] = {"settings": settings or [], "device": device}
    given["data_dir"] = data_dir
    if dry_run:
        files.check_free(root)
        with progress.Watcher(name, "", quiet):
            found = api.cost(experiment, **given, timed=True)
        tables.costs(found, name, as_json)
        return
    given["spread"] = spread(devices, per_device, part, ray)
    train = functools.partial(api.run, experiment, out=root, apart=apart, **given)
    runs = watched(train, root, name, quiet)
    show(runs, root, name, as_json, quiet, in_words=experiment is None)
    if with_report:
        from troth import reports

        announce(reports.report([root]))


def watched(
    train: Callable[..., list[Run]], root: Path, name: str, quiet: bool
) -> list[Run]:
    """Train with progress; on Ctrl-C print what is saved and how to continue."""
    from troth import files
    from troth.cli import progress
    from troth.runs.train import Interrupted

    again = f"continue with: troth resume {shlex.quote(str(root))}"
    intro = f"Writing to {root}. Ctrl-C saves and stops; then {again}"
    watch = progress.Watcher(name, intro, quiet)
    try:
        with watch:
            return train(watch=watch)
    except Interrupted as stop:
        last, saved = watch.last, (Path(stop.args[0]) / files.CHECKPOINT).exists()
        at = f" after round {last.done} of {last.total}" if last else ""
        if last and last.runs > 1:
            at = f" in run {last.run} of {last.runs} ({last.label}){at}"
        state = f"saved in {root}" if saved else "not saved (output.checkpoint = false)"
        text = f"stopped{at}, {state}; {again}"
    except KeyboardInterrupt:
        text = f"stopped; {again if root.exists() else 'nothing was written'}"
    raise typer.Exit(complain(text, STOPPED))


def show(
    runs: list[Run],
    root: Path,
    name: str,
    as_json: bool,
    quiet: bool,
    in_words: bool = False,
) -> None:
    """Print results as tables and, if `as_json`, also as one JSON object."""
    from troth.cli import tables
    from troth.runs import compare

    if not runs:
        tables.say(f"This part of {root} has no runs: the grid has fewer than N")
        if as_json:
            tables.print_json({"runs": [], "comparisons": []})
        return
    single = runs[0].path == root
    labels = [(r.experiment.name or name) if single else r.path.name for r in runs]
    compared = compare.compare(runs, labels)
    if not (as_json and quiet):
        tables.outcome(runs, labels, compared, in_words, stderr=as_json)
        tables.onward(runs, root, stderr=as_json)
    if as_json:
        tables.print_json({"runs": compare.entries(runs), "comparisons": compared})
