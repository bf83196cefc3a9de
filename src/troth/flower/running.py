"""Flower's processes, started and served by ours.

A SuperLink (at the server) or SuperNode (at a site) is a child that ends with us. It
carries messages and runs no code: the tasks that it has are done in this process, by
the apps of this package, whatever bundle of code came with the run. So a server cannot
send programs to the sites, and nobody can start one at the server.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.app import Message
from flwr.common.constant import SubStatus
from flwr.common.serde import context_from_proto, run_from_proto
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode.runtime.run_clientapp import (
    pull_task_input,
    push_message,
    push_task_output,
)

from troth.flower import client, records
from troth.types import Refusal

Say = Callable[[str], None]
Ended = Callable[[], int | None]
_LOOK = 0.2  # seconds between two looks for a task
_TAKE = frozenset({"/flwr.proto.Runtime/AcquireTask"})
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
_MODULE = """from troth.flower import client as _client
from troth.flower import server as _server

client = _client.app
server = _server.app
"""


class Door(NamedTuple):
    """Where the tasks of a SuperLink or SuperNode are, and how one gets in."""

    address: str
    secret: bytes
    ca: bytes | None  # certificate to trust; None: not encrypted

    def runtime(self, *interceptors: Any, patience: float = 60.0) -> RuntimeHttpClient:
        """A connection, which is tried again for so many seconds."""
        again = make_simple_http_retry_invoker()
        again.max_time = patience
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.ca is None,
            root_certificates=self.ca,
            interceptors=list(interceptors),
            retry_invoker=again,
        )

    def tasks(self, kind: TaskType, child: subprocess.Popen[bytes]) -> Iterator[Any]:
        """Tasks as they come, while the child lives; None: there is none now."""
        own = SuperExecAuthHttpInterceptor(
            master_secret=self.secret, protected_methods=_TAKE
        )
        version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
        with contextlib.closing(self.runtime(version, own, patience=1)) as runtime:
            while child.poll() is None:
                if not listens(int(self.address.rpartition(":")[2])):
                    time.sleep(_LOOK)
                    continue
                request = AcquireTaskRequest(supported_task_types=[kind])
                try:
                    found = runtime.AcquireTask(request)
                except httpx.HTTPError:  # it is starting, or ending
                    time.sleep(_LOOK)
                    continue
                there = found.HasField("task") and found.token
                yield found if there else None
                time.sleep(0 if there else _LOOK)


def app(folder: Path) -> Path:
    """The bundle that Flower wants of a run; `flwr run` takes the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(_APP)
    (folder / "troth_app.py").write_text(_MODULE)
    return folder


def check_port(host: str, port: int) -> None:
    """Refuse a port that is taken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Refusal(
                f"port {port} of {host} cannot be had ({error.strerror}); give another "
                "--port, or end what holds it"
            ) from None


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether something listens at a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def secret(folder: Path) -> Path:
    """A file with a fresh secret that only this user reads."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "secret"
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as out:
        out.write(os.urandom(32))
    return file


def environment(home: Path) -> dict[str, str]:
    """Flower's own settings lie in the run's folder, and it reports to nobody."""
    here = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    told = {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "PATH": here}
    return {**os.environ, **told}


@contextlib.contextmanager
def child(
    command: list[str], log: Path, home: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Flower's that ends with ours, even if ours is killed."""

    def bound() -> None:
        with contextlib.suppress(OSError, AttributeError):  # other systems than Linux
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    with log.open("ab") as out:
        made = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment(home),
            preexec_fn=bound,
        )
    try:
        yield made
    finally:
        made.terminate()
        try:
            made.wait(10)
        except subprocess.TimeoutExpired:
            made.kill()
            made.wait()


def site(door: Door, made: subprocess.Popen[bytes], say: Say) -> None:
    """Do the tasks of a SuperNode, until it ends."""
    for task in door.tasks(TaskType.CLIENT_APP, made):
        if task is None:
            continue
        token = RuntimeTokenHttpInterceptor(task.token)
        version = RuntimeVersionHttpInterceptor(component_name="flwr-clientapp")
        with contextlib.closing(door.runtime(version, token)) as runtime:
            try:
                say(_answered(runtime))
            except httpx.HTTPError as error:
                say(f"a task was lost on the way: {error}")


def _answered(runtime: RuntimeHttpClient) -> str:
    """One message answered; says in a line which, and what came of it."""
    beat = HeartbeatSender(make_task_heartbeat_fn_http(runtime))
    beat.start()
    try:
        message, context, _, _ = pull_task_input(runtime)
        reply = client.app(message=message, context=context)
        push_message(runtime, reply, context)
        push_task_output(runtime, context, SubStatus.COMPLETED, "")
    finally:
        beat.stop()
    return _line(message, reply)


def _line(message: Message, reply: Message) -> str:
    what = {"query": "greeted the server", "train": "trained and answered"}
    done = what.get(message.metadata.message_type, "finished; model and card are here")
    try:
        records.parts(reply.content)
    except Refusal as refusal:
        done = f"takes no part: {refusal}"
    return f"round {message.metadata.group_id}: {done}"


def hub(
    door: Door,
    made: subprocess.Popen[bytes],
    run_id: int,
    serve: Callable[[Grid], None],
) -> None:
    """Do the task of a run at a SuperLink; what others may have started is not done."""
    for task in door.tasks(TaskType.SERVER_APP, made):
        if task is None or task.task.run_id != run_id:
            continue
        grid = HttpGrid(door.address, door.ca is None, door.ca, token=task.token)
        runtime = grid._runtime_client
        beat = HeartbeatSender(make_task_heartbeat_fn_http(runtime))
        beat.start()
        try:
            found = runtime.PullTaskInput(PullTaskInputRequest())
            TaskIdentity.task_id, TaskIdentity.run_id = found.task_id, found.run.run_id
            TaskIdentity.node_id = found.context.node_id
            grid.set_run(run_from_proto(found.run))
            context = context_from_proto(found.context)
            serve(grid)
            push_task_output(runtime, context, SubStatus.COMPLETED, "")
        finally:
            beat.stop()
            grid.close()
        return


def flwr(arguments: list[str], home: Path) -> dict[str, Any]:
    """What a command of Flower's says, as JSON."""
    done = subprocess.run(
        ["flwr", *arguments, "--format", "json"],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=120,
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        found = {}
    if not found.get("success"):
        said = " ".join((done.stdout + done.stderr).split())[-300:]
        raise Refusal(f"flwr {arguments[0]} did not do what it was asked: {said}")
    return found


def public_key(file: Path) -> bytes:
    """A site's public key, in the form in which Flower tells it."""
    try:
        key = load_ssh_public_key(file.read_bytes())
        if not isinstance(key, EllipticCurvePublicKey):
            raise ValueError("it is of another kind")
        return public_key_to_bytes(key)
    except (ValueError, OSError, UnsupportedAlgorithm) as error:
        raise Refusal(
            f"{file} is no public key of a site ({error}); make one by ssh-keygen -t "
            "ecdsa -b 384 -f KEY -N ''"
        ) from None
