"""`troth server` and `troth client`: one call each for what a federation needs."""

from __future__ import annotations

import json
import time
from pathlib import Path

from flwr.serverapp import Grid

from troth import folder, sites
from troth.flower import client, running, server
from troth.flower.running import Door, Say
from troth.hub import Hub
from troth.types import Refusal

_TRIES = 60  # seconds for a SuperLink to come up
_STEADY = 120  # seconds after which a connection counts as one


def serve(
    experiment: Path,
    out: Path,
    *,
    say: Say,
    host: str = "0.0.0.0",
    port: int = 8000,
    least: int = 0,
    tls: Path | None = None,
    keys: Path | None = None,
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
        keys: folder with NAME.pub of every site.
        insecure: neither encrypted nor authenticated.
    """
    e = sites.read(experiment)
    hub = Hub(e, f"{time.time_ns():016x}")
    if (out / folder.SUMMARY).exists():
        raise Refusal(f"{out} holds a finished run; give another --out")
    known = _known(e.deployment.sites, tls, keys, insecure)
    running.check_port(host, port)
    home = out / "flower"
    lock = running.secret(home)
    command = ["flower-superlink", "--host", host, "--port", str(port)]
    command += ["--isolation", "process", "--superexec-auth-secret-file", str(lock)]
    command += ["--database", str((home / "link.db").absolute())]
    command += ["--disable-runtime-dependency-installation"]
    ca = None
    if tls is None:
        command += ["--insecure"]
    else:
        ca = (tls / "ca.pem").read_bytes()
        command += ["--ssl-ca-certfile", str(tls / "ca.pem")]
        command += ["--ssl-certfile", str(tls / "server.pem")]
        command += ["--ssl-keyfile", str(tls / "server.key"), "--enable-supernode-auth"]
    _settings(home, port, tls)
    door = Door(f"127.0.0.1:{port}", lock.read_bytes(), ca)
    with running.child(command, home / "superlink.log", home) as made:
        _up(made.poll, port, home / "superlink.log")
        for name in known:
            _register(keys, name, home)
        say(f"listening at {host}:{port} for {', '.join(e.deployment.sites)}")
        app = running.app(home / "app")
        run = running.flwr(["run", str(app.absolute()), "troth"], home)

        def rounds(grid: Grid) -> None:
            server.Reception(grid, hub, out, say=say, keys=known or None).run(least)

        running.hub(door, made, int(run["run-id"]), rounds)
    if not (out / folder.SUMMARY).exists():
        raise Refusal(
            f"Flower's SuperLink ended before the last round; {home}/superlink.log "
            "says why, and the same command goes on from the checkpoint"
        )


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
        data: an .npz file, or `experiment` for what a simulation gives the client.
        say: takes lines for people.
        state: folder of this site's own states and models.
        key: its private key.
        ca: certificate of who vouches for the server.
        share_personal: agree to methods that reveal the personal model.
        insecure: neither encrypted nor authenticated.
        tries: how often the way to the server is looked for, ever less often.
    """
    if not insecure and (key is None or ca is None):
        raise Refusal(
            "without --tls CA.pem and --keys PRIVATE_KEY nothing is encrypted and "
            "nobody knows who this site is; give both, or --insecure"
        )
    for file in (key, ca):
        if file is not None and not file.is_file():
            raise Refusal(f"there is no file {file}; give one that exists")
    config = {
        "experiment": str(experiment.absolute()),
        "name": name,
        "data": data if data == sites.SIMULATED else str(Path(data).absolute()),
        "state": str(state.absolute()),
        "share-personal": share_personal,
    }
    made, _ = client.configured(config)
    say(f"{name}: {made.size} training examples; looking for a server at {address}")
    home = state.absolute() / "flower"
    lock, port = running.secret(home), running.free_port()
    command = ["flower-supernode", "--superlink", address, "--port", str(port)]
    command += ["--isolation", "process", "--superexec-auth-secret-file", str(lock)]
    told = [f"{k}={json.dumps(v)}" for k, v in config.items()]
    command += ["--node-config", " ".join(told)]
    if insecure:
        command += ["--insecure"]
    else:
        command += ["--root-certificates", str(ca)]
        command += ["--auth-supernode-private-key", str(key)]
    door = Door(f"127.0.0.1:{port}", lock.read_bytes(), None)
    log = home / "supernode.log"
    pause = 2.0
    for _ in range(tries):
        began = time.monotonic()
        with running.child(command, log, home) as node:
            running.site(door, node, say)
        pause = 2.0 if time.monotonic() - began > _STEADY else min(2 * pause, 60.0)
        say(
            f"no way to the server at {address}: it is not there, or does not know "
            f"this site's key ({log} says more); trying again in {pause:.0f} s"
        )
        time.sleep(pause)
    raise Refusal(f"there is no way to the server at {address}; {log} says why")


def _known(
    names: list[str], tls: Path | None, keys: Path | None, insecure: bool
) -> dict[str, bytes]:
    """Name → public key; none where everybody may come in."""
    if insecure:
        return {}
    if tls is None or keys is None:
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
        if not (keys / f"{name}.pub").is_file():
            raise Refusal(
                f"there is no {keys / name}.pub; make the key of each site by "
                f"ssh-keygen -t ecdsa -b 384 -f {name} -N '', and put {name}.pub there"
            )
    return {name: running.public_key(keys / f"{name}.pub") for name in names}


def _settings(home: Path, port: int, tls: Path | None) -> None:
    """How Flower's command line finds the SuperLink."""
    safe = "insecure = true"
    if tls is not None:
        safe = f"root-certificates = {json.dumps(str((tls / 'ca.pem').absolute()))}"
    text = f'[superlink]\ndefault = "troth"\n[superlink.troth]\n{safe}\n'
    (home / "config.toml").write_text(text + f'address = "127.0.0.1:{port}"\n')


def _register(keys: Path | None, name: str, home: Path) -> None:
    """Let a key in; one that is known from before is known still."""
    file = str((keys or Path()) / f"{name}.pub")
    try:
        running.flwr(["supernode", "register", file, "troth", "--name", name], home)
    except Refusal as refusal:
        if "already" not in str(refusal) and "in use" not in str(refusal):
            raise


def _up(ended: running.Ended, port: int, log: Path) -> None:
    """Wait until the SuperLink listens."""
    for _ in range(_TRIES * 5):
        if ended() is not None:
            break
        if running.listens(port):
            return
        time.sleep(0.2)
    raise Refusal(f"Flower's SuperLink does not start; {log} says why")
