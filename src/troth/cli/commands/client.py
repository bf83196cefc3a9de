"""The command `troth client`."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option as Flag

from troth.cli.commands._flags import Experiment, Insecure
from troth.cli.commands.server import needed


def client(
    experiment: Experiment,
    server: Annotated[str, Flag(help="HOST:PORT of the server.")],
    name: Annotated[str, Flag(help="Name of this site, one of deployment.sites.")],
    data: Annotated[
        str,
        Flag(
            help="This site's data: FILE.npz, FILE.csv, or the word 'experiment' for "
            "the data that the site has when the experiment is simulated."
        ),
    ],
    state: Annotated[
        Path | None,
        Flag(help="Folder for this site's state and model. Default: troth-NAME."),
    ] = None,
    keys: Annotated[
        Path | None, Flag(help="File with this site's private key.")
    ] = None,
    tls: Annotated[
        Path | None,
        Flag(help="Certificate (ca.pem) that signed the server's certificate."),
    ] = None,
    share_personal: Annotated[
        bool,
        Flag(
            "--share-personal",
            help="Allow messages that reveal this site's personal model. Some "
            "personalizers need them.",
        ),
    ] = False,
    insecure: Insecure = False,
) -> None:
    """Join a real federation on Flower with this site's data."""
    from troth.cli import tables

    take_part = needed("take_part")
    own: dict[str, Any] = {"name": name, "data": data, "say": tables.say}
    own |= {"state": state or Path(f"troth-{name}"), "key": keys, "ca": tls}
    own |= {"share_personal": share_personal, "insecure": insecure}
    take_part(experiment, server, **own)
