"""The command `troth server`."""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import Experiment, Insecure
from troth.cli.commands._words import refuse


def server(
    experiment: Experiment,
    out: Annotated[
        Path, Flag(help="Folder of the run. An unfinished run in it is continued.")
    ],
    host: Annotated[str, Flag(help="Address to listen on.")] = "0.0.0.0",
    port: Annotated[int, Flag(help="Port to listen on.")] = 8000,
    sites: Annotated[
        int, Flag(help="Number of sites to wait for before the first round. 0: all.")
    ] = 0,
    tls: Annotated[
        Path | None, Flag(help="Folder with ca.pem, server.pem and server.key.")
    ] = None,
    keys: Annotated[
        Path | None, Flag(help="Folder with the public key NAME.pub of every site.")
    ] = None,
    insecure: Insecure = False,
) -> None:
    """Run the server of a real federation on Flower."""
    from troth.cli import tables

    serve = needed("serve")
    more = {"host": host, "port": port, "least": sites, "insecure": insecure}
    serve(experiment, out, say=tables.say, tls=tls, known=keys, **more)


def needed(name: str) -> Callable[..., Any]:
    """Return the function `name` of `troth.deployment.flower`.

    If Flower is not installed, raise Refusal that names the command to install it.
    """
    if importlib.util.find_spec("flwr") is None:
        refuse(
            "a real federation runs on Flower, which is not installed; install it by: "
            "pip install 'troth[flower]'"
        )
    module = importlib.import_module(f"troth.deployment.flower.{name}")
    return getattr(module, name)  # type: ignore[no-any-return]
