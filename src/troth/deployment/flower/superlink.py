"""Flower's SuperLink, started as a child that ends with us, and what it is told.

It carries messages and runs no code: its one task is done in this process. So nobody
can start a program at the server, and the bundle of code that Flower wants of a run is
never used. It keeps nothing on disk: the checkpoint of the run holds all that lasts.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest
from flwr.proto.runtime_pb2 import (
    AcquireTaskRequest,
    PullAppMessagesRequest,
    PullTaskInputRequest,
    PushTaskOutputRequest,
)
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_pull_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectUnavailableError,
    inflate_object_from_contents,
)
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from troth.deployment.flower import processes
from troth.types import Refusal

_PAUSE = 0.1  # seconds between two looks for replies
_START = 60.0  # seconds for a SuperLink to come up
_PATIENCE = 30.0  # seconds in which a SuperLink that does not answer is asked again
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
_MODULE = """from troth.deployment.flower import client as _client
from troth.deployment.flower import server as _server

client = _client.app
server = _server.app
"""


class Link(NamedTuple):
    """A SuperLink that listens, and how one gets in."""

    address: str
    secret: bytes
    ca: bytes | None  # certificate to trust; None: not encrypted

    def reach(self, kind: Any, component: str, *more: Any) -> Any:
        """One of Flower's clients, connected."""
        version = RuntimeVersionHttpInterceptor(component_name=component)
        where = self.address, self.ca is None, self.ca
        return contextlib.closing(kind.from_server_address(*where, [version, *more]))


class Window(HttpGrid):
    """Flower's grid, where nobody waits for a reply that comes in pieces."""

    def __init__(self, link: Link, token: str, limit: int) -> None:
        """Connect.

        Args:
            link: to what.
            token: of the task.
            limit: bytes, above which a reply is not taken in.
        """
        super().__init__(link.address, link.ca is None, link.ca, token=token)
        self._retry_invoker.max_time = _PATIENCE
        self.limit = limit
        self.waiting: set[str] = set()  # messages whose replies are not seen yet
        self.begun: dict[str, tuple[Any, dict[str, bytes]]] = {}
        self.looked = -math.inf

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send; whoever has not answered what was sent before is not waited for."""
        ids = list(super().push_messages(messages))
        self.waiting, self.begun, self.looked = {*ids}, {}, -math.inf
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are whole.

        Raises:
            Refusal: one is larger than any reply may be, or no message.
        """
        return [m for m in map(self._pull, message_ids) if m is not None]

    def _pull(self, key: str) -> Message | None:
        if key not in self.begun:
            self._look()
        if key not in self.begun:
            return None
        tree, have = self.begun[key]
        pull = make_pull_object_fn_protobuf(
            self._runtime_client.PullObject, self.node, self.run.run_id
        )
        for each in iterate_object_tree(tree):
            try:
                have[each.object_id] = have.get(each.object_id) or pull(each.object_id)
            except ObjectUnavailableError:
                return None
            if sum(map(len, have.values())) > self.limit:
                self._done(key, tree.object_id)
                raise Refusal(f"it holds more than {self.limit} bytes")
        self._done(key, tree.object_id)
        try:
            message = inflate_object_from_contents(tree.object_id, have)
        except Exception as error:  # anybody's bytes
            kind = type(error).__name__
            raise Refusal(f"its bytes cannot be read ({kind})") from None
        if not isinstance(message, Message):
            raise Refusal(f"it is no message but {type(message).__name__}")
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message

    def _look(self) -> None:
        """Ask for all replies at once, and not again at once."""
        if not self.waiting or time.monotonic() - self.looked < _PAUSE:
            return
        request = PullAppMessagesRequest(message_ids=sorted(self.waiting))
        found = self._runtime_client.PullMessages(request)
        trees = found.message_object_trees
        for message, tree in zip(found.messages_list, trees, strict=True):
            key = message.metadata.reply_to_message_id
            if key in self.waiting:
                self.waiting.discard(key)
                self.begun[key] = tree, {}
        self.looked = time.monotonic()

    def _done(self, key: str, reply: str) -> None:
        """The SuperLink need not keep it any longer."""
        del self.begun[key]
        request = ConfirmMessageReceivedRequest(
            node=self.node, run_id=self.run.run_id, message_object_id=reply
        )
        self._runtime_client.ConfirmMessageReceived(request)


@contextlib.contextmanager
def listening(home: Path, host: str, port: int, tls: Path | None) -> Iterator[Link]:
    """A SuperLink at a port; its log is in `home`."""
    home.mkdir(parents=True, exist_ok=True)
    lock = processes.secret(home)
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
    with processes.child(command, log, home) as made:
        end = time.monotonic() + _START
        while not processes.listens(port):
            if made.poll() is not None or time.monotonic() > end:
                raise Refusal(f"Flower's SuperLink does not start; {log} says why")
            time.sleep(0.1)
        yield Link(f"127.0.0.1:{port}", lock.read_bytes(), ca)


def serve(
    link: Link,
    app: Path,
    keys: Mapping[str, bytes],
    limit: int,
    rounds: Callable[[Grid], None],
) -> None:
    """Let these keys in, start a run, and do its one task.

    Args:
        link: which SuperLink.
        app: what Flower wants of a run.
        keys: name → public key.
        limit: bytes, above which a reply is not taken in.
        rounds: the task.
    """
    with link.reach(ControlHttpClient, "flwr CLI") as control:
        for name, key in keys.items():
            control.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
        content = build_fab_from_disk(app)
        fab = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
        started = control.StartRun(StartRunRequest(fab=fab)).run_id
    grid = Window(link, _token(link, started), limit)
    runtime = grid._runtime_client
    beat = HeartbeatSender(make_task_heartbeat_fn_http(runtime))
    beat.start()
    try:
        found = runtime.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = found.task_id, found.run.run_id
        TaskIdentity.node_id = found.context.node_id
        grid.set_run(run_from_proto(found.run))
        rounds(grid)
        done = PushTaskOutputRequest(context=found.context)
        done.sub_status = SubStatus.COMPLETED
        runtime.PushTaskOutput(done)
    finally:
        beat.stop()
        grid.close()


def _token(link: Link, run: int) -> str:
    """The right to do a run's task; what others may have started is not done."""
    own = SuperExecAuthHttpInterceptor(
        master_secret=link.secret, protected_methods=_TAKE
    )
    request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    with link.reach(RuntimeHttpClient, "SuperExec", own) as runtime:
        for _ in range(600):
            found = runtime.AcquireTask(request)
            if found.HasField("task") and found.token and found.task.run_id == run:
                return str(found.token)
            time.sleep(0.1)
    raise Refusal("Flower's SuperLink has no task for the run that it started")


def app(folder: Path) -> Path:
    """The bundle that Flower wants of a run; `flwr run` takes the same folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(_APP)
    (folder / "troth_app.py").write_text(_MODULE)
    return folder
