"""Connect a server and its sites. Only this module uses Flower's internal API.

The SuperLink, Flower's server process, only carries messages. In Flower, a run has
tasks, which other processes claim and execute. Here, the only task of a run is executed
in this process, and not from the code bundle that Flower requires. So nobody can start
a program at the server. A site replaces Flower's SuperNode, which can start programs
that a server sends; a site never does.
"""

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, message_to_proto, run_from_proto
from flwr.proto import control_pb2, fleet_pb2, message_pb2, runtime_pb2
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable import inflatable_object as objects
from flwr.supercore.inflatable import inflatable_protobuf_utils as wire
from flwr.supercore.inflatable import inflatable_utils as inflating
from flwr.supercore.interceptors import (
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from troth.deployment.flower import keys
from troth.types import Refusal

_PAUSE = 0.1  # seconds between two requests for replies
_PATIENCE = 30.0  # seconds during which calls are repeated if a SuperLink is silent
_BEAT = 15.0  # seconds between heartbeats; after two missing ones a site counts as gone
_PIECES = 30.0  # seconds within which all parts of a message must arrive
_TAKE = frozenset({"/flwr.proto.Runtime/AcquireTask"})
FAILED = (
    httpx.HTTPError,
    inflating.ObjectPullError,
    inflating.ObjectPushError,
    ValueError,
)
"""Errors of the connection between a site and its server."""


class Link(NamedTuple):
    """Address of a SuperLink, and what is needed to connect to it."""

    address: str
    secret: bytes  # allows this process to claim tasks
    ca: bytes | None  # certificate to trust; None: not encrypted

    def reach(self, kind: Any, component: str, *more: Any) -> Any:
        """Return a context manager that connects a client to the SuperLink.

        Args:
            kind: Flower's class of the client.
            component: Name under which the client connects.
            *more: Further interceptors of the client.
        """
        version = RuntimeVersionHttpInterceptor(component_name=component)
        where = self.address, self.ca is None, self.ca
        return contextlib.closing(kind.from_server_address(*where, [version, *more]))

    def admit(self, known: Mapping[str, bytes]) -> None:
        """Register sites, so that they may connect.

        Args:
            known: Name → public key of each site.
        """
        with self.reach(ControlHttpClient, "flwr CLI") as control:
            for name, key in known.items():
                control.RegisterNode(
                    control_pb2.RegisterNodeRequest(public_key=key, name=name)
                )


class Window(HttpGrid):
    """Flower's grid, in which an incomplete reply does not block other replies."""

    def __init__(self, link: Link, token: str, limit: int) -> None:
        """Connect to the SuperLink.

        Args:
            link: The SuperLink.
            token: Flower's token for the task of the run.
            limit: Largest size of a reply in bytes; larger ones are rejected.
        """
        super().__init__(link.address, link.ca is None, link.ca, token=token)
        self._retry_invoker.max_time = _PATIENCE
        self.limit = limit
        self.waiting: set[str] = (
            set()
        )  # messages whose replies have not begun to arrive
        # message → the tree of its reply's objects, and the objects that arrived
        self.begun: dict[str, tuple[Any, dict[str, bytes]]] = {}
        self.looked = -math.inf  # time of the last request

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages and return their ids; stop waiting for earlier replies."""
        ids = list(super().push_messages(messages))
        self.waiting, self.begun, self.looked = {*ids}, {}, -math.inf
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that have arrived completely.

        Raise Refusal if a reply is too large, cannot be read or is not a message.
        """
        return [m for m in map(self._pull, message_ids) if m is not None]

    def _pull(self, key: str) -> Message | None:
        if key not in self.begun:
            self._look()
        if key not in self.begun:
            return None
        tree, have = self.begun[key]
        pull = wire.make_pull_object_fn_protobuf(
            self._runtime_client.PullObject, self.node, self.run.run_id
        )
        for each in objects.iterate_object_tree(tree):
            try:
                have[each.object_id] = have.get(each.object_id) or pull(each.object_id)
            except inflating.ObjectUnavailableError:
                return None
            if sum(map(len, have.values())) > self.limit:
                self._done(key, tree.object_id)
                raise Refusal(f"it holds more than {self.limit} bytes")
        self._done(key, tree.object_id)
        try:
            message = inflating.inflate_object_from_contents(tree.object_id, have)
        except Exception as error:  # the bytes are not trusted
            kind = type(error).__name__
            raise Refusal(f"its bytes cannot be read ({kind})") from None
        if not isinstance(message, Message):
            raise Refusal(f"it is no message but {type(message).__name__}")
        return _numbered(message, tree.object_id)

    def _look(self) -> None:
        """Request all missing replies in one call, at most once per `_PAUSE`."""
        if not self.waiting or time.monotonic() - self.looked < _PAUSE:
            return
        request = runtime_pb2.PullAppMessagesRequest(message_ids=sorted(self.waiting))
        found = self._runtime_client.PullMessages(request)
        trees = found.message_object_trees
        for message, tree in zip(found.messages_list, trees, strict=True):
            key = message.metadata.reply_to_message_id
            if key in self.waiting:
                self.waiting.discard(key)
                self.begun[key] = tree, {}
        self.looked = time.monotonic()

    def _done(self, key: str, reply: str) -> None:
        """Tell the SuperLink that a reply was received and can be deleted."""
        del self.begun[key]
        request = message_pb2.ConfirmMessageReceivedRequest(
            node=self.node, run_id=self.run.run_id, message_object_id=reply
        )
        self._runtime_client.ConfirmMessageReceived(request)


def perform(link: Link, app: Path, limit: int, rounds: Callable[[Grid], None]) -> None:
    """Start a run on the SuperLink, and execute its only task in this process.

    Args:
        link: The SuperLink.
        app: Folder of the code bundle that Flower requires.
        limit: Largest size of a reply in bytes.
        rounds: Function that runs all rounds on Flower's grid.
    """
    with link.reach(ControlHttpClient, "flwr CLI") as control:
        content = build_fab_from_disk(app)
        fab = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
        started = control.StartRun(control_pb2.StartRunRequest(fab=fab)).run_id
    grid = Window(link, _token(link, started), limit)
    runtime = grid._runtime_client
    beat = HeartbeatSender(make_task_heartbeat_fn_http(runtime))
    beat.start()
    try:
        found = runtime.PullTaskInput(runtime_pb2.PullTaskInputRequest())
        identify(found.run.run_id, found.context.node_id, found.task_id)
        grid.set_run(run_from_proto(found.run))
        rounds(grid)
        done = runtime_pb2.PushTaskOutputRequest(context=found.context)
        done.sub_status = SubStatus.COMPLETED
        runtime.PushTaskOutput(done)
    finally:
        beat.stop()
        grid.close()


def _token(link: Link, run: int) -> str:
    """Claim the task of a run, and return Flower's token for it.

    If somebody else started another run, its task is not executed.
    """
    own = SuperExecAuthHttpInterceptor(
        master_secret=link.secret, protected_methods=_TAKE
    )
    request = runtime_pb2.AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
    with link.reach(RuntimeHttpClient, "SuperExec", own) as runtime:
        for _ in range(600):
            found = runtime.AcquireTask(request)
            if found.HasField("task") and found.token and found.task.run_id == run:
                return str(found.token)
            time.sleep(_PAUSE)
    raise Refusal("Flower's SuperLink has no task for the run that it started")


class Way(NamedTuple):
    """The address of the server, and the identity of this site."""

    address: str
    key: EllipticCurvePrivateKey
    ca: bytes | None  # certificate to trust; None: no encryption, no identity check
    memory: Path  # file with the node number that the server gave this site last


class Post(NamedTuple):
    """A site's connection to its server, for messages and replies."""

    fleet: FleetHttpClient
    node: Node

    def pull(self) -> Message | None:
        """Return the next message with all its parts, or None if there is none."""
        found = self.fleet.PullMessages(fleet_pb2.PullMessagesRequest(node=self.node))
        if not found.messages_list:
            return None
        tree = found.message_object_trees[0]
        about = self.node, found.messages_list[0].metadata.run_id
        confirm = self.fleet.ConfirmMessageReceived
        message = inflating.pull_and_inflate_object_from_tree(
            tree,
            wire.make_pull_object_fn_protobuf(self.fleet.PullObject, *about),
            wire.make_confirm_message_received_fn_protobuf(confirm, *about),
            return_type=Message,
            max_time=_PIECES,
            initial_backoff=_PAUSE,
        )
        return _numbered(message, tree.object_id)

    def announce(self, reply: Message) -> Any:
        """Announce a reply, and return the server's list of the parts to send."""
        return self.fleet.PushMessages(
            fleet_pb2.PushMessagesRequest(
                node=self.node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[objects.get_object_tree(reply)],
            )
        )

    def push(self, reply: Message) -> None:
        """Send a reply."""
        _numbered(reply, reply.object_id)
        with objects.no_object_id_recompute():
            answer = self.announce(reply)
            run, session = reply.metadata.run_id, answer.session_id
            inflating.push_objects(
                objects.get_all_nested_objects(reply),
                wire.make_push_object_fn_protobuf(
                    self.fleet.PushObject, self.node, run_id=run, session_id=session
                ),
                object_ids_to_push=set(answer.objects_to_push),
            )

    def alive(self) -> bool:
        """Send a heartbeat, and return whether the server accepted it."""
        sign = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=_BEAT)
        try:
            return bool(self.fleet.SendNodeHeartbeat(sign).success)
        except httpx.HTTPError:
            return False


@contextlib.contextmanager
def connected(way: Way) -> Iterator[Post]:
    """Connect to the server with this site's key, and send heartbeats.

    Yield the connection.
    """
    public = way.key.public_key()
    named = {"public_key": keys.sent(public)}
    who = NodeAuthHttpInterceptor(way.key, public)
    link = Link(way.address, b"", way.ca)
    with link.reach(FleetHttpClient, "SuperNode", who) as fleet:
        _leave(way, fleet)  # in case an earlier process was killed while connected
        if way.ca is None:
            with contextlib.suppress(httpx.HTTPStatusError):  # registered already
                fleet.RegisterNode(fleet_pb2.RegisterNodeFleetRequest(**named))
        request = fleet_pb2.ActivateNodeRequest(**named, heartbeat_interval=_BEAT)
        post = Post(fleet, Node(node_id=fleet.ActivateNode(request).node_id))
        way.memory.write_text(str(post.node.node_id))
        beat = HeartbeatSender(post.alive)
        beat.start()
        try:
            yield post
        finally:
            beat.stop()
            _leave(way, fleet)


def _leave(way: Way, fleet: FleetHttpClient) -> None:
    """Disconnect this site from the server, if it was ever connected."""
    with contextlib.suppress(OSError, ValueError, httpx.HTTPError):
        known = int(way.memory.read_text())
        fleet.DeactivateNode(fleet_pb2.DeactivateNodeRequest(node_id=known))


def why(error: Exception) -> str:
    """Return a text that says why the server cannot be reached."""
    if isinstance(error, httpx.HTTPStatusError):
        flower = FlowerError.from_json(error.response.text)
        if error.response.status_code in (401, 412):
            return "it does not know this site's key (yet)"
        return f"it says {ascii(flower.message if flower else str(error))[:200]}"
    if "certificate" in str(error).lower():
        return f"its certificate is not signed by the certificate of --tls ({error})"
    return f"it does not answer ({str(error) or type(error).__name__})"


def identify(run: int, node: int, task: int = 0) -> None:
    """Set the identity that Flower writes into the messages of this process."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = run, node, task


def _numbered(message: Message, key: str) -> Message:
    message.metadata.__dict__["_message_id"] = key
    return message
