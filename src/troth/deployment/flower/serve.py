"""The function behind `troth server`, which runs the server of a federation.

Flower's SuperLink, which receives and sends messages, runs as a child process that ends
with this process. It stores nothing on disk. Everything that is needed to continue is
in the checkpoint of the run.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from flwr.serverapp import Grid

from troth import files
from troth.deployment import processes, site
from troth.deployment.flower import keys, server, transport
from troth.deployment.flower.server import Say
from troth.deployment.server import Hub
from troth.types import Refusal

_WORDS = 1_000_000  # largest size, in bytes, of a reply without its vectors
_START = 60.0  # seconds within which a SuperLink must start
_APP = """[project]
name = "troth-app"
version = "1.0.0"
description = ""
license = "Apache-2.0"
[tool.flwr.app]
publisher = "troth"
[tool.flwr.app.components]
serverapp = "troth_app:server"
clientapp = "troth_app:client"
[tool.flwr.app.config]
experiment = ""
out = ""
sites = 0
"""
_MODULE = """from troth.deployment.flower import client as _client
from troth.deployment.flower import server as _server

client = _client.app
server = _server.app
"""


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
    """Run the server of a federation; if `out` has a checkpoint, continue from it.

    Args:
        experiment: Experiment file.
        out: Folder of the run.
        say: Function that prints lines for people.
        host: Address to listen on.
        port: Port to listen on.
        least: Number of sites to wait for before the first round; 0: all.
        tls: Folder with ca.pem, server.pem and server.key.
        known: Folder with the public key NAME.pub of every site.
        insecure: Use no encryption and check no identities; `tls` and `known` are
            ignored.
    """
    e = site.read(experiment)
    hub = Hub(e, f"{time.time_ns():016x}")
    if (out / files.SUMMARY).exists():
        raise Refusal(f"{out} holds a finished run; give another --out")
    names = e.deployment.sites
    admitted = {} if insecure else _admitted(names, tls, known)
    check_port(host, port)
    home, want = out / "flower", hub.expected()
    limit = _WORDS + 2 * (want.d + want.extra) * want.dtype.itemsize

    def rounds(grid: Grid) -> None:
        server.Reception(grid, hub, out, say=say, keys=admitted or None).run(least)

    with listening(home, host, port, None if insecure else tls) as link:
        say(f"listening at {host}:{port} for {', '.join(names)}")
        try:
            link.admit(admitted)
            transport.perform(link, _app(home / "app"), limit, rounds)
        except httpx.HTTPError as error:
            raise Refusal(
                f"Flower's SuperLink does not answer ({error}); {home}/superlink.log "
                "says why, and the same command continues from the checkpoint"
            ) from None


def _admitted(
    names: list[str], tls: Path | None, known: Path | None
) -> dict[str, bytes]:
    """Return name → public key of each site; raise Refusal if a file is missing."""
    if tls is None or known is None:
        raise Refusal(
            "without --tls FOLDER and --keys FOLDER nothing is encrypted and anybody "
            "may connect; give both, or --insecure"
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


def _app(folder: Path) -> Path:
    """Write the code bundle that Flower requires for a run, and return its folder.

    The command `flwr run` accepts it too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(_APP)
    (folder / "troth_app.py").write_text(_MODULE)
    return folder


@contextlib.contextmanager
def listening(
    home: Path, host: str, port: int, tls: Path | None
) -> Iterator[transport.Link]:
    """Start a SuperLink that listens on a port, and yield how to connect to it.

    Its log is in the folder `home`. Raise Refusal if it does not start.
    """
    home.mkdir(parents=True, exist_ok=True)
    lock = secret(home)
    command = ["flower-superlink", "--host", host, "--port", str(port)]
    command += ["--isolation", "process", "--superexec-auth-secret-file", str(lock)]
    command += ["--disable-runtime-dependency-installation"]
    if tls is None:
        command += ["--insecure"]
    else:
        command += ["--ssl-ca-certfile", str(tls / "ca.pem")]
        command += ["--ssl-certfile", str(tls / "server.pem")]
        command += ["--ssl-keyfile", str(tls / "server.key"), "--enable-supernode-auth"]
    ca = None if tls is None else (tls / "ca.pem").read_bytes()
    log = home / "superlink.log"
    with child(command, log, home) as made:
        end = time.monotonic() + _START
        while not listens(port):
            if made.poll() is not None or time.monotonic() > end:
                raise Refusal(f"Flower's SuperLink does not start; {log} says why")
            time.sleep(0.1)
        yield transport.Link(f"127.0.0.1:{port}", lock.read_bytes(), ca)


def check_port(host: str, port: int) -> None:
    """Raise Refusal if this process cannot listen on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Refusal(
                f"port {port} of {host} cannot be used ({error.strerror}); give "
                "another --port, or end the program that uses it"
            ) from None


def listens(port: int) -> bool:
    """Return whether a program listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def secret(folder: Path) -> Path:
    """Write a random secret to a file that only this user can read; return its path."""
    file = folder / "secret"
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out:
        out.write(os.urandom(32))
    return file


@contextlib.contextmanager
def child(
    command: list[str], log: Path, home: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of Flower that ends with this process, even if this is killed.

    Flower stores its settings in the folder `home`, and its telemetry is off.
    """
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"FLWR_HOME": str(home.absolute()), "FLWR_TELEMETRY_ENABLED": "0"}
    own |= {"PATH": here}
    with log.open("ab") as out:
        how = {"stdout": out, "stderr": out, "stdin": subprocess.DEVNULL}
        with processes.child(command, own, signal.SIGKILL, **how) as made:
            yield made
