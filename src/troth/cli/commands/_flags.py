"""Arguments and options that several commands take, each declared once."""

from pathlib import Path
from typing import Annotated

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._opening import absolute

Json = Annotated[bool, Flag("--json", help="Print one JSON object on stdout.")]
Quiet = Annotated[bool, Flag("--quiet", "-q", help="No progress, only results.")]
Folder = Annotated[Path, Argument(metavar="RUN", help="The folder of a run.")]
Experiment = Annotated[Path, Argument(metavar="EXPERIMENT.toml")]
Clients = Annotated[str, Flag(help="all, a number of them, or ids: 0,3,8.")]
Client = Annotated[
    int | None, Flag(min=0, help="This one alone; the first client is 0.")
]
Out = Annotated[Path | None, Flag(help="A folder; else the run's own.")]
Device = Annotated[str, Flag(help="auto, cpu, cuda, cuda:N or mps.")]
DataDir = Annotated[
    str | None,
    Flag(metavar="PATH", callback=absolute, help="Look for data sets here."),
]
Settings = Annotated[
    list[str] | None,
    Flag("--set", metavar="SECTION.KEY=VALUE", help="Change a setting; repeatable."),
]
Insecure = Annotated[
    bool, Flag("--insecure", help="Neither encrypt nor check who the others are.")
]
