"""The command `troth report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import Json

if TYPE_CHECKING:
    from troth.reports import Report


def report(
    paths: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders of runs or grids.")
    ],
    out: Annotated[
        Path | None, Flag(help="File to write. Default: report.html in the first RUN.")
    ] = None,
    card: Annotated[
        int | None,
        Flag(
            metavar="CLIENT",
            help="Write only the trust card of this client: one screen, one sheet of "
            "paper. Default file: card-CLIENT.html.",
        ),
    ] = None,
    pdf: Annotated[
        bool,
        Flag("--pdf", help="Write the page as PDF too; needs Chromium or Chrome."),
    ] = False,
    table: Annotated[
        Path | None,
        Flag(
            metavar="FILE",
            help="Write only a table of the finished runs, with means over seeds, to "
            "FILE.csv, FILE.md or FILE.tex. In .md and .tex, a grid with two axes is a "
            "pivot table.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page about runs, with a trust card for every client.

    A trust card says how accurate, robust and certified the client's model is.
    """
    from troth import reports
    from troth.cli import tables

    if table is not None:
        _write_table(paths, table, as_json)
        return
    made = reports.report(paths, out, card, pdf)
    announce(made)
    if as_json:
        files = {"page": str(made.page), "cards": str(made.cards)}
        files |= {"pdf": str(made.pdf)} if made.pdf else {}
        runs = [
            {"folder": str(r.path), "finished": r.finished, "troubles": r.troubles}
            for r in made.runs
        ]
        tables.print_json({**files, "runs": runs})


def _write_table(paths: list[Path], file: Path, as_json: bool) -> None:
    """Write the table of the finished runs, and print its path."""
    from troth.cli import tables
    from troth.runs import inspect
    from troth.runs import table as grid

    every = [(d.run, d.label) for d in inspect.opened(paths) if d.finished]
    known = [(run, label) for run, label in every if run is not None]
    grid.write([run for run, _ in known], [label for _, label in known], file)
    tables.say(f"Table: {file}")
    if as_json:
        tables.print_json({"table": str(file)})


def announce(made: Report) -> None:
    """Print the path of the report, and which runs in it are not complete."""
    from troth.cli import tables

    for run in made.runs:
        if run.sections and not run.finished:
            state = "In progress" if run.alive else "Not finished"
            far = f"{len(run.rounds)} of {run.total} rounds"
            tables.say(f"{state}: {run.path}; the report shows {far}")
        for trouble in run.troubles:
            tables.say(f"Problem: {trouble}")
    tables.say(f"Report: {made.page} (open it in a browser). Trust cards: {made.cards}")
    if made.pdf:
        tables.say(f"PDF: {made.pdf}")
