"""`troth client`."""

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
            help="This site's data: FILE.npz or FILE.csv. The word 'experiment' takes "
            "its share of the experiment's data, as in a simulation."
        ),
    ],
    state: Annotated[
        Path | None, Flag(help="Folder for this site's models. Default: troth-NAME.")
    ] = None,
    keys: Annotated[Path | None, Flag(help="This site's private key.")] = None,
    tls: Annotated[
        Path | None, Flag(help="Certificate that signed the server's.")
    ] = None,
    share_personal: Annotated[
        bool, Flag("--share-personal", help="Agree to reveal the personal model.")
    ] = False,
    insecure: Insecure = False,
) -> None:
    """Join a real federation on Flower with this site's own data."""
    from troth.cli import tables

    take_part = needed("take_part")
    own: dict[str, Any] = {"name": name, "data": data, "say": tables.say}
    own |= {"state": state or Path(f"troth-{name}"), "key": keys, "ca": tls}
    own |= {"share_personal": share_personal, "insecure": insecure}
    take_part(experiment, server, **own)
