"""The command `troth resume`."""

import functools
from typing import Annotated

from typer import Option as Flag

from troth.cli.commands._flags import (
    Devices,
    Folder,
    Json,
    Part,
    PerDevice,
    Quiet,
    Ray,
    spread,
)
from troth.cli.commands.run import show, watched


def resume(
    path: Folder,
    settings: Annotated[
        list[str] | None,
        Flag(
            "--set",
            metavar="GRID.KEY=VALUES",
            help="Extend an axis of a grid: give its whole new list, such as "
            "grid.seed=[0,1,2], with the earlier values.",
        ),
    ] = None,
    devices: Devices = "",
    per_device: PerDevice = 1,
    part: Part = "",
    ray: Ray = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue a run or a grid from its last checkpoint, or add runs to a grid."""
    from troth import api
    from troth.cli import tables

    if not settings and api.finished(path) and not quiet:
        tables.say(f"{path} is finished already. Its results are:")
    how = spread(devices, per_device, part, ray)
    train = functools.partial(api.resume, path, settings=settings or [], spread=how)
    runs = watched(train, path, path.name, quiet)
    show(runs, path, path.name, as_json, quiet)
