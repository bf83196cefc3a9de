"""`troth run`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import DataDir, File, Json, Quiet, Settings
from troth.cli.commands._opening import absolute
from troth.cli.commands._training import show, watched
from troth.cli.commands.report import said


def run(
    experiment: File = None,
    settings: Settings = None,
    out: Annotated[Path | None, Flag(help="A new folder; else one in runs/.")] = None,
    device: Annotated[str | None, Flag(help="auto, cpu, cuda, cuda:N, mps.")] = None,
    data_dir: DataDir = None,
    dry_run: Annotated[bool, Flag("--dry-run", help="Only say what it takes.")] = False,
    with_report: Annotated[
        bool, Flag("--report", help="End by writing the report.")
    ] = False,
    apart: Annotated[
        bool | None,
        Flag(
            "--apart/--together",
            help="A grid one by one, or as one matrix; unless told, on a GPU.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train an experiment, every run of its grid; without a file, the quickstart."""
    from troth import api, files
    from troth.cli import tables

    name = experiment.stem if experiment else "quickstart"
    root = out or api.fresh(experiment)
    given: dict[str, Any] = {"settings": settings or [], "device": device}
    given["data_dir"] = absolute(data_dir)
    if dry_run:
        files.check_free(root)
        tables.costs(api.cost(experiment, **given), name, as_json)
        return
    train = functools.partial(api.run, experiment, out=root, apart=apart, **given)
    found = watched(train, root, name, quiet)
    show(found, root, name, as_json, quiet, in_words=experiment is None)
    if with_report:
        from troth import reports

        said(reports.report([root]))
