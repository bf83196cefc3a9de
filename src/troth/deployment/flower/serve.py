"""`troth server`: one call for what the server of a federation needs."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
from flwr.serverapp import Grid

from troth import files
from troth.deployment import site
from troth.deployment.flower import keys, processes, server, superlink
from troth.deployment.flower.server import Say
from troth.deployment.server import Hub
from troth.types import Refusal

_WORDS = 1_000_000  # bytes of a reply beside its vectors


def serve(
    experiment: Path,
    out: Path,
    *,
    say: Say,
    host: str = "0.0.0.0",
    port: int = 8000,
    least: int = 0,
    tls: Path | None = None,
    known: Path | None = None,
    insecure: bool = False,
) -> None:
    """Run a federation as its server, from the folder's checkpoint on.

    Args:
        experiment: the TOML file, with `[deployment]`.
        out: folder of the run; where it holds an unfinished one, that goes on.
        say: takes lines for people.
        host: address to listen at.
        port: and its port, for everything.
        least: sites that must be there to begin; 0: all.
        tls: folder with ca.pem, server.pem and server.key.
        known: folder with NAME.pub of every site.
        insecure: neither encrypted nor authenticated.
    """
    e = site.read(experiment)
    hub = Hub(e, f"{time.time_ns():016x}")
    if (out / files.SUMMARY).exists():
        raise Refusal(f"{out} holds a finished run; give another --out")
    names = e.deployment.sites
    admitted = {} if insecure else _admitted(names, tls, known)
    processes.check_port(host, port)
    home = out / "flower"
    want = hub.expected()
    limit = _WORDS + 2 * (want.d + want.extra) * want.dtype.itemsize
    with superlink.listening(home, host, port, None if insecure else tls) as link:
        say(f"listening at {host}:{port} for {', '.join(names)}")

        def rounds(grid: Grid) -> None:
            server.Reception(grid, hub, out, say=say, keys=admitted or None).run(least)

        try:
            superlink.serve(link, superlink.app(home / "app"), admitted, limit, rounds)
        except httpx.HTTPError as error:
            raise Refusal(
                f"Flower's SuperLink does not answer ({error}); {home}/superlink.log "
                "says why, and the same command goes on from the checkpoint"
            ) from None


def _admitted(
    names: list[str], tls: Path | None, known: Path | None
) -> dict[str, bytes]:
    """Name → public key."""
    if tls is None or known is None:
        raise Refusal(
            "without --tls FOLDER and --keys FOLDER nothing is encrypted and anybody "
            "may come in; give both, or --insecure"
        )
    for file in ("ca.pem", "server.pem", "server.key"):
        if not (tls / file).is_file():
            raise Refusal(
                f"there is no {tls / file}; --tls takes a folder with ca.pem, "
                "server.pem and server.key"
            )
    for name in names:
        if not (known / f"{name}.pub").is_file():
            raise Refusal(
                f"there is no {known / name}.pub; make the key of each site by "
                f"ssh-keygen -t ecdsa -b 384 -f {name} -N '', and put {name}.pub there"
            )
    return {name: keys.public(known / f"{name}.pub") for name in names}
