"""The command `troth ui`."""

from pathlib import Path
from typing import Annotated

from typer import Argument
from typer import Option as Flag


def ui(
    path: Annotated[
        Path, Argument(metavar="[FOLDER]", help="Folder with runs.")
    ] = Path("runs"),
    host: Annotated[
        str,
        Flag(
            help="Address to listen on. With any address but loopback, viewers need "
            "the printed token."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, Flag(help="Port to listen on. 0: any free port.")] = 8137,
) -> None:
    """Show runs in a browser while they train. No file is changed."""
    from troth.cli import tables
    from troth.reports.live import Server

    with Server(path, host, port) as server:
        tables.say(f"Runs in {path}: {server.url}")
        if server.token:
            tables.say(
                "Anyone with this address can read all reports of this folder. The "
                "connection is not encrypted"
            )
        tables.say("Press Ctrl-C to stop")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            tables.say("Stopped")
