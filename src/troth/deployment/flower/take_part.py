"""`troth client`: one call for what a site of a federation needs."""

from __future__ import annotations

import ssl
from pathlib import Path

from troth.deployment import site
from troth.deployment.flower import client, keys, node
from troth.deployment.flower.server import Say
from troth.types import Refusal


def take_part(
    experiment: Path,
    address: str,
    *,
    name: str,
    data: str,
    say: Say,
    state: Path,
    key: Path | None = None,
    ca: Path | None = None,
    share_personal: bool = False,
    insecure: bool = False,
    tries: int = 1_000_000,
) -> None:
    """Take part in a federation as one of its sites, until it is stopped.

    Args:
        experiment: the same TOML file as the server's.
        address: HOST:PORT of the server.
        name: which of `deployment.sites` this is.
        data: a file, or `experiment` for what a simulation gives the client.
        say: takes lines for people.
        state: folder of this site's own states and models.
        key: its private key.
        ca: certificate of who vouches for the server.
        share_personal: agree to methods that reveal the personal model.
        insecure: neither encrypted nor authenticated.
        tries: how often in a row the server may not be reached.
    """
    if not insecure and (key is None or ca is None):
        raise Refusal(
            "without --tls CA.pem and --keys PRIVATE_KEY nothing is encrypted and "
            "nobody knows who this site is; give both, or --insecure"
        )
    for file in (key, ca):
        if file is not None and not file.is_file():
            raise Refusal(f"there is no file {file}; give one that exists")
    trusted = None if insecure or ca is None else _trusted(ca)
    own = keys.private(None if insecure else key)
    config = {
        "experiment": str(experiment.absolute()),
        "name": name,
        "data": data if data == site.SIMULATED else str(Path(data).absolute()),
        "state": str(state.absolute()),
        "share-personal": share_personal,
    }
    made, _ = client.configured(config)
    say(f"{name}: {made.size} training examples; looking for a server at {address}")
    state.mkdir(parents=True, exist_ok=True)
    node.attend(node.Way(address, own, trusted, state / "node"), config, say, tries)


def _trusted(ca: Path) -> bytes:
    """A certificate that can be one."""
    try:
        ssl.create_default_context(cafile=str(ca))
    except ssl.SSLError as error:
        raise Refusal(
            f"{ca} is no certificate ({error.reason}); give --tls the ca.pem of who "
            "runs the server"
        ) from None
    return ca.read_bytes()
