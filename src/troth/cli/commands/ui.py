"""`troth ui`."""

from pathlib import Path
from typing import Annotated

from typer import Argument
from typer import Option as Flag


def ui(
    path: Annotated[
        Path, Argument(metavar="[FOLDER]", help="With runs; else runs/.")
    ] = Path("runs"),
    host: Annotated[
        str, Flag(help="Where to listen; beyond this machine with a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Flag(help="0 takes a free one.")] = 8137,
) -> None:
    """Show runs in a browser while they go on; it only reads."""
    from troth.cli import tables
    from troth.reports.live import Server

    with Server(path, host, port) as server:
        tables.say(f"Runs in {path}: {server.url}")
        if server.token:
            tables.say(
                "Whoever has this address can read all reports of this folder, and "
                "the connection is not encrypted"
            )
        tables.say("Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            tables.say("Ended")
