"""Arguments and options that several commands take, each declared once."""

from pathlib import Path
from typing import Annotated

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._opening import absolute

Json = Annotated[bool, Flag("--json", help="Print one JSON object to stdout.")]
Quiet = Annotated[bool, Flag("--quiet", "-q", help="Print results only, no progress.")]
Folder = Annotated[Path, Argument(metavar="RUN", help="Folder of a run.")]
Experiment = Annotated[
    Path, Argument(metavar="EXPERIMENT.toml", help="Experiment file.")
]
Clients = Annotated[
    str, Flag(help="Benign clients: all, the first N (such as 10), or ids (0,3,8).")
]
Client = Annotated[
    int | None, Flag(min=0, help="Only this client. The first client is 0.")
]
Out = Annotated[
    Path | None, Flag(help="Folder to write to. Default: the run's folder.")
]
Device = Annotated[str, Flag(help="Device: auto, cpu, cuda, cuda:N or mps.")]
DataDir = Annotated[
    str | None,
    Flag(metavar="PATH", callback=absolute, help="Folder to search for data first."),
]
Settings = Annotated[
    list[str] | None,
    Flag(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Change a setting of the experiment. Repeat it for more.",
    ),
]
Insecure = Annotated[
    bool, Flag("--insecure", help="Neither encrypt nor check identities. For trials.")
]
