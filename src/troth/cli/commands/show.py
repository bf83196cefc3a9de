"""The command `troth show`."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import Json
from troth.cli.commands._words import refuse


def show(
    paths: Annotated[
        list[Path], Argument(metavar="RUN...", help="Folders of runs or grids.")
    ],
    table: Annotated[
        Literal["csv", "md", "tex"] | None,
        Flag(
            help="Print only a table with means over seeds: csv, md (Markdown) or tex. "
            "In md and tex, a grid with two axes is a pivot table."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the tables of finished runs again. Nothing is trained or written.

    If RUN was written by troth poison, the table of its stages is printed.
    """
    from troth import files
    from troth.cli import tables
    from troth.runs import compare, inspect
    from troth.runs import table as grid

    if len(paths) == 1 and (paths[0] / files.CHAIN).exists() and not table:
        from troth.cli.commands import poison
        from troth.poison import chain

        poison.show(chain.read(paths[0]), paths[0], as_json)
        return
    found = inspect.opened(paths)
    known = [(d.run, d.label) for d in found if d.finished and d.run is not None]
    for one in found:
        if not one.finished:
            tables.say(f"Not finished: {one.path}, {len(one.rounds)} rounds")
    if not known:
        refuse(f"no run in {paths[0]} has finished; continue with: troth resume")
    runs, labels = [run for run, _ in known], [label for _, label in known]
    if table:
        print(grid.text(runs, labels, table), end="")
        return
    compared = compare.compare(runs, labels)
    if as_json:
        tables.print_json({"runs": compare.entries(runs), "comparisons": compared})
        return
    tables.outcome(runs, labels, compared, in_words=False)
