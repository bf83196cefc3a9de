"""The command `troth new`."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._flags import Settings
from troth.cli.commands._words import refuse

File = Annotated[
    Path, Argument(metavar="FILE", help="New file to write. -: print to stdout.")
]


def _member(folder: str, words: str) -> Any:
    """Return an option for the name of a method, which the shell can complete.

    Completion lists the files of the folder. It imports nothing, because imports are
    slow and the shell waits for the answer.

    Args:
        folder: folder of the methods, with one file per method.
        words: help text.
    """
    place = Path(__file__).parents[2] / folder

    def complete(incomplete: str) -> list[str]:
        names = (file.stem for file in place.glob("*.py") if file.stem[0] != "_")
        return sorted(name for name in names if name.startswith(incomplete))

    return Flag(help=words, autocompletion=complete)


def new(
    file: File = Path("experiment.toml"),
    data: Annotated[str, _member("data/datasets", "Name of a data set.")] = "digits",
    partition: Annotated[
        str, _member("data/partitions", "How examples are split among clients.")
    ] = "dirichlet",
    model: Annotated[str, _member("networks/models", "Name of a network.")] = "mlp",
    personalizer: Annotated[
        str, _member("client/personalizers", "How a client gets its own model.")
    ] = "ditto",
    attack: Annotated[
        str, _member("server/attacks", "What malicious clients send.")
    ] = "none",
    aggregator: Annotated[
        str, _member("server/aggregators", "How the server combines updates.")
    ] = "mean",
    settings: Settings = None,
    full: Annotated[
        bool, Flag("--full", help="Write all sections, not only the common ones.")
    ] = False,
) -> None:
    """Write an experiment file with every key explained.

    Keys that you set have your values. All other keys are comments with their defaults.
    """
    from troth import files
    from troth.cli import tables
    from troth.config.template import template

    names: dict[str, Any] = {"data": data, "partition": partition, "model": model}
    names |= {"personalizer": personalizer, "attack": attack, "aggregator": aggregator}
    text = template(names, settings or [], full)
    if str(file) == "-":
        print(text, end="")
        return
    if file.exists():
        refuse(f"{file} exists already; give another name, or remove it first")
    files.write(file, text)
    path = shlex.quote(str(file))
    tables.say(f"Wrote {path}; train it with: troth run {path}")
