"""A site's way to the server: Flower's fleet interface, in this process.

What a SuperNode does, less the part that starts programs which a server sends: messages
are answered by this package's own app. Whatever goes wrong on the way ends the
connection, and a new one is tried, ever less often.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.error import FlowerError
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from troth.deployment.flower import client, records
from troth.deployment.flower.server import Say
from troth.types import Refusal

_BEAT = 15.0  # seconds; after two without a sign of life a site counts as gone
_SOON, _LATE = (
    0.1,
    2.0,
)  # seconds between two looks for a message: at first, and at most
_FIRST, _LAST = 1.0, 5.0  # the same between two tries to reach the server
_PIECES = 30.0  # seconds in which all of a message must be there
_FAILED = (httpx.HTTPError, ObjectPullError, ObjectPushError, ValueError)


class Way(NamedTuple):
    """Where the server is, and who this site is to it."""

    address: str
    key: EllipticCurvePrivateKey
    ca: bytes | None  # certificate to trust; None: neither encrypted nor known
    memory: Path  # file with the number under which the server knew this site last


def attend(way: Way, config: Mapping[str, Any], say: Say, tries: int) -> None:
    """Answer the server's messages; where there is no way to it, try again.

    Args:
        way: to the server.
        config: of this node, as `client.configured` takes it.
        say: takes lines for people.
        tries: how often in a row the server may not be reached; then it gives up.
    """
    failed, pause = 0, _FIRST
    while failed < tries:
        try:
            with _connected(way) as (fleet, node):
                failed, pause = 0, _FIRST
                say(f"connected to {way.address}")
                _answer_all(fleet, node, config, say)
        except _FAILED as error:
            failed += 1
            what = f"no way to the server at {way.address}: {_why(error)}; trying again"
            if pause < _LAST:
                say(f"{what} in {pause:.0f} s")
            elif failed % 100 == 4:  # not a line every five seconds
                say(f"{what} every {pause:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, _LAST)
    raise Refusal(f"there is no way to the server at {way.address}; is it running?")


def _why(error: Exception) -> str:
    """What went wrong, in words of this package."""
    if isinstance(error, httpx.HTTPStatusError):
        told = FlowerError.from_json(error.response.text)
        if error.response.status_code in (401, 412):
            return "it does not know this site's key, or not yet"
        return f"it says {ascii(told.message if told else str(error))[:200]}"
    if "certificate" in str(error).lower():
        return f"its certificate is not one that --tls vouches for ({error})"
    return f"it does not answer ({str(error) or type(error).__name__})"


@contextlib.contextmanager
def _connected(way: Way) -> Iterator[tuple[FleetHttpClient, Node]]:
    """A connection under which the server knows this site, with signs of life."""
    public = way.key.public_key()
    named = {"public_key": public_key_to_bytes(public)}
    who = NodeAuthHttpInterceptor(way.key, public)
    version = RuntimeVersionHttpInterceptor(component_name="SuperNode")
    with contextlib.closing(
        FleetHttpClient.from_server_address(
            way.address, way.ca is None, way.ca, [version, who]
        )
    ) as fleet:
        _leave(way, fleet)  # if it was killed, the server may think that it is there
        if way.ca is None:
            with contextlib.suppress(httpx.HTTPStatusError):  # registered already
                fleet.RegisterNode(RegisterNodeFleetRequest(**named))
        here = fleet.ActivateNode(
            ActivateNodeRequest(**named, heartbeat_interval=_BEAT)
        )
        node = Node(node_id=here.node_id)
        way.memory.write_text(str(here.node_id))
        beat = HeartbeatSender(lambda: _alive(fleet, node))
        beat.start()
        try:
            yield fleet, node
        finally:
            beat.stop()
            _leave(way, fleet)


def _leave(way: Way, fleet: FleetHttpClient) -> None:
    """Say that this site is not there, if the server ever knew it."""
    with contextlib.suppress(OSError, ValueError, httpx.HTTPError):
        known = int(way.memory.read_text())
        fleet.DeactivateNode(DeactivateNodeRequest(node_id=known))


def _alive(fleet: FleetHttpClient, node: Node) -> bool:
    sign = SendNodeHeartbeatRequest(node=node, heartbeat_interval=_BEAT)
    try:
        return bool(fleet.SendNodeHeartbeat(sign).success)
    except httpx.HTTPError:
        return False


def _answer_all(
    fleet: FleetHttpClient, node: Node, config: Mapping[str, Any], say: Say
) -> None:
    """Look for messages, more often after one, and answer each."""
    pause = _SOON
    while True:
        found = fleet.PullMessages(PullMessagesRequest(node=node))
        if not found.messages_list:
            time.sleep(pause)
            pause = min(1.5 * pause, _LATE)
            continue
        message = _pulled(fleet, node, found)
        reply = _reply(message, node, config)
        _push(fleet, node, reply)
        say(_line(message, reply))
        pause = _SOON


def _pulled(fleet: FleetHttpClient, node: Node, found: PullMessagesResponse) -> Message:
    """A message with all that belongs to it."""
    tree, run = found.message_object_trees[0], found.messages_list[0].metadata.run_id
    message = pull_and_inflate_object_from_tree(
        tree,
        make_pull_object_fn_protobuf(fleet.PullObject, node, run),
        make_confirm_message_received_fn_protobuf(
            fleet.ConfirmMessageReceived, node, run
        ),
        return_type=Message,
        max_time=_PIECES,
        initial_backoff=_SOON,
    )
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message


def _reply(message: Message, node: Node, config: Mapping[str, Any]) -> Message:
    """What the app of this package answers; an error, if it cannot."""
    run = message.metadata.run_id
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = (
        *(run, node.node_id),
        0,
    )
    context = Context(run, node.node_id, dict(config), RecordDict(), {})
    try:
        return client.app(message=message, context=context)
    except Exception as error:  # such as a device without memory
        said = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, type(error).__name__)
        return Message(said, reply_to=message)


def _push(fleet: FleetHttpClient, node: Node, reply: Message) -> None:
    run = reply.metadata.run_id
    reply.metadata.__dict__["_message_id"] = reply.object_id
    with no_object_id_recompute():
        told = fleet.PushMessages(
            PushMessagesRequest(
                node=node,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
            )
        )
        push_objects(
            get_all_nested_objects(reply),
            make_push_object_fn_protobuf(
                fleet.PushObject, node, run_id=run, session_id=told.session_id
            ),
            object_ids_to_push=set(told.objects_to_push),
        )


def _line(message: Message, reply: Message) -> str:
    what = {"query": "greeted the server", "train": "trained and answered"}
    done = what.get(message.metadata.message_type, "finished; model and card are here")
    try:
        records.parts(reply.content if reply.has_content() else None)
    except Refusal as refusal:
        done = f"takes no part: {refusal}"
    return f"round {message.metadata.group_id}: {done}"
