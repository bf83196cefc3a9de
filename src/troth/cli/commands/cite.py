"""The command `troth cite`."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from troth.cli.commands._flags import Json


def cite(
    of: Annotated[
        Path | None,
        Argument(
            metavar="EXPERIMENT.toml|RUN",
            help="Experiment file or folder of a run. Default: the quickstart.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print BibTeX entries of the methods and data that an experiment uses."""
    from troth import api, files
    from troth.cli import tables
    from troth.config import reader

    if of is not None and of.is_dir():
        of /= files.GRID if (of / files.GRID).exists() else files.EXPERIMENT
    planned = api.plan(api.tree(of, []), None)
    used = [reader.citations(one.experiment) for one in planned]
    entries = list(dict.fromkeys(entry for each in used for entry in each))
    if as_json:
        tables.print_json({"citations": entries})
    else:
        print("\n\n".join(entries))
