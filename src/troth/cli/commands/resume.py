"""The command `troth resume`."""

import functools

from troth.cli.commands._flags import Folder, Json, Quiet
from troth.cli.commands.run import show, watched


def resume(path: Folder, as_json: Json = False, quiet: Quiet = False) -> None:
    """Continue a run or a grid from its last checkpoint."""
    from troth import api
    from troth.cli import tables

    if api.finished(path) and not quiet:
        tables.say(f"{path} is finished already. Its results are:")
    runs = watched(functools.partial(api.resume, path), path, path.name, quiet)
    show(runs, path, path.name, as_json, quiet)
