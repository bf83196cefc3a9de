"""`troth report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import Json

if TYPE_CHECKING:
    from troth.reports import Report

Folders = Annotated[
    list[Path], Argument(metavar="RUN...", help="Folders of runs or of grids.")
]


def report(
    paths: Folders,
    out: Annotated[
        Path | None, Flag(help="The page; else report.html in the first folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page about runs, with a trust card for every client."""
    from troth import reports
    from troth.cli import tables

    made = reports.report(paths, out)
    said(made)
    if as_json:
        files = {"page": str(made.page), "cards": str(made.cards)}
        runs = [
            {"folder": str(r.path), "finished": r.finished, "troubles": r.troubles}
            for r in made.runs
        ]
        tables.print_json({**files, "runs": runs})


def said(made: Report) -> None:
    """Say where the report is, and what in it is not whole."""
    from troth.cli import tables

    for run in made.runs:
        if run.sections and not run.finished:
            far = f"{len(run.rounds)} of {run.total} rounds"
            state = "Going on" if run.alive else "Not finished"
            tables.say(f"{state}: {run.path} ({far}); shown as far as it came")
        for trouble in run.troubles:
            tables.say(f"Trouble: {trouble}")
    tables.say(f"Report: {made.page}, for any browser; trust cards: {made.cards}")
