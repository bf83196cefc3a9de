"""`troth server`."""

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import Experiment, Insecure


def server(
    experiment: Experiment,
    out: Annotated[Path, Flag(help="Folder of the run; an unfinished one goes on.")],
    host: Annotated[str, Flag(help="Address to listen at.")] = "0.0.0.0",
    port: Annotated[int, Flag(help="Port to listen on.")] = 8000,
    sites: Annotated[int, Flag(help="Sites that must be there to begin; 0: all.")] = 0,
    tls: Annotated[
        Path | None, Flag(help="Folder with ca.pem, server.pem and server.key.")
    ] = None,
    keys: Annotated[
        Path | None, Flag(help="Folder with NAME.pub of every site.")
    ] = None,
    insecure: Insecure = False,
) -> None:
    """Serve an experiment to real sites, by Flower."""
    from troth.cli import tables

    serve = needed("serve")
    more = {"host": host, "port": port, "least": sites, "insecure": insecure}
    serve(experiment, out, say=tables.say, tls=tls, known=keys, **more)


def needed(name: str) -> Callable[..., Any]:
    """Load a function that runs on Flower; refused where that is not installed.

    Args:
        name: of the function and of its module.
    """
    from troth.types import Refusal

    if importlib.util.find_spec("flwr") is None:
        raise Refusal(
            "a real federation runs on Flower, which is not installed; install it by: "
            "pip install 'troth[flower]'"
        )
    module = importlib.import_module(f"troth.deployment.flower.{name}")
    found: Callable[..., Any] = getattr(module, name)
    return found
