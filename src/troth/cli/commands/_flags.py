"""Arguments and options that several commands share, and functions to read them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument
from typer import Option as Flag

from troth.cli.commands._words import refuse

if TYPE_CHECKING:
    from troth.runs.grid import Spread
    from troth.runs.load import Run


def absolute(path: str | Path | None) -> str | None:
    """Make a path absolute, so that a run can be resumed from any folder."""
    return None if path is None else str(Path(path).absolute())


Json = Annotated[bool, Flag("--json", help="Print the result as one JSON object.")]
Quiet = Annotated[bool, Flag("--quiet", "-q", help="Print results but no progress.")]
Folder = Annotated[Path, Argument(metavar="RUN", help="Folder of a run.")]
Experiment = Annotated[
    Path, Argument(metavar="EXPERIMENT.toml", help="Experiment file.")
]
Clients = Annotated[
    str,
    Flag(
        help="Clients: all (all benign ones), N (the first N benign ones, such as 10) "
        "or ids (such as 0,3,8)."
    ),
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
    Flag(metavar="PATH", callback=absolute, help="Folder to search first for data."),
]
Settings = Annotated[
    list[str] | None,
    Flag(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Change a setting of the experiment. Repeat this option for more.",
    ),
]
Devices = Annotated[
    str,
    Flag(
        metavar="D1,D2,…",
        help="Train the runs of a grid on several devices at the same time, such as "
        "cuda:0,cuda:1.",
    ),
]
PerDevice = Annotated[int, Flag(min=1, help="Processes on each device.")]
Part = Annotated[
    str,
    Flag(
        metavar="K/N",
        help="Train only part K of N of a grid. Start all N parts with the same --out.",
    ),
]
Ray = Annotated[
    str,
    Flag(
        metavar="ADDRESS",
        help="Train the runs of a grid on a Ray cluster with this address. auto: the "
        "running cluster; local: start Ray on this machine.",
    ),
]
Insecure = Annotated[
    bool,
    Flag("--insecure", help="For trials: no encryption and no check of identities."),
]


def spread(devices: str, per_device: int, part: str, ray: str) -> Spread:
    """Return how the runs of a grid are divided."""
    from troth.runs.grid import Spread

    names = tuple(name.strip() for name in devices.split(",") if name.strip())
    return Spread(names, per_device, part, ray)


def opened(path: Path) -> Run:
    """Open the run in a folder. If the folder holds a grid, raise Refusal."""
    from troth import files
    from troth.runs.load import Run

    if (path / files.GRID).exists():
        names = sorted(file.parent.name for file in path.glob(f"*/{files.EXPERIMENT}"))
        refuse(f"{path} is a grid; give one of its runs: {', '.join(names)}")
    return Run(path)


def whose(clients: str, client: int | None) -> str:
    """Combine `--clients` and `--client` into one text that selects clients.

    Raise Refusal if both are set.
    """
    if client is None:
        return clients
    if clients != "all":
        refuse(
            f"--client {client} and --clients {clients} contradict each other; give "
            "one of the two"
        )
    return f"{client},"


def numbers(flag: str, text: str, example: str) -> list[float]:
    """Read numbers separated by commas; raise Refusal if they are none.

    Args:
        flag: name of the option, for the error message.
        text: the numbers.
        example: a valid text, for the error message.
    """
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        refuse(f"{flag} {text} must be numbers separated by commas, such as {example}")


def check_free(out: Path | None) -> None:
    """Raise Refusal, before any work, if a file exists or cannot be written."""
    if out is not None and (out.exists() or not os.access(out.parent, os.W_OK)):
        refuse(f"{out} exists already or cannot be written; give another --out")
