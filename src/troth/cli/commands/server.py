"""`troth server`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option as Flag

from troth.cli.commands._flower import Experiment, needed


def server(
    experiment: Experiment,
    out: Annotated[Path, Flag(help="Folder of the run; an unfinished one goes on.")],
    host: Annotated[str, Flag(help="Address to listen at.")] = "0.0.0.0",
    port: Annotated[int, Flag(help="And its port.")] = 8000,
    sites: Annotated[int, Flag(help="Sites that must be there to begin; 0: all.")] = 0,
    tls: Annotated[
        Path | None, Flag(help="Folder with ca.pem, server.pem and server.key.")
    ] = None,
    keys: Annotated[
        Path | None, Flag(help="Folder with NAME.pub of every site.")
    ] = None,
    insecure: Annotated[
        bool, Flag("--insecure", help="Neither encrypt nor ask who comes in.")
    ] = False,
) -> None:
    """Serve an experiment to real sites, by Flower."""
    from troth.cli import tables

    needed("serve")(
        experiment,
        out,
        say=tables.say,
        host=host,
        port=port,
        least=sites,
        tls=tls,
        known=keys,
        insecure=insecure,
    )
