"""Sites that are none of ours: they speak to a live server and send what they like."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from troth.deployment.flower import keys, node

Change = Callable[[np.random.Generator, Any], None]


class Mob:
    """Several hostile sites; each begins with what an honest one would say."""

    def __init__(self, address: str, path: Path, names: list[str]) -> None:
        self.address, self.path, self.names = address, path, names
        self.sent = 0
        self.random = np.random.default_rng(8)

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Connected, all of them."""
        with contextlib.ExitStack() as stack:
            self.ways = {}
            for name in self.names:
                own = keys.private(None)
                way = node.Way(self.address, own, None, self.path / f"node-{name}")
                self.ways[name] = stack.enter_context(node._connected(way))
            yield

    def look(self, change: Callable[[int], Change]) -> None:
        """Answer what there is to answer, once."""
        for name, (fleet, number) in self.ways.items():
            found = fleet.PullMessages(PullMessagesRequest(node=number))
            if not found.messages_list:
                continue
            message = node._pulled(fleet, number, found)
            config = {"experiment": str(self.path / "e.toml"), "name": name}
            config |= {"data": "experiment", "state": str(self.path / name)}
            reply = node._reply(message, number, config)
            if message.metadata.message_type == "train":
                change(self.sent)(self.random, reply.content)
                self.sent += 1
                if self.sent % 100 == 0:
                    self.half(fleet, number, reply)
                    continue
            for _ in range(1 + (self.sent % 3 == 0)):  # every third of them twice
                with contextlib.suppress(httpx.HTTPError, ObjectPushError):
                    node._push(fleet, number, reply)

    def half(self, fleet: Any, number: Any, reply: Message) -> None:
        """Say that there is a reply, and never send what it consists of."""
        reply.metadata.__dict__["_message_id"] = reply.object_id
        fleet.PushMessages(
            PushMessagesRequest(
                node=number,
                messages_list=[message_to_proto(remove_content_from_message(reply))],
                message_object_trees=[get_object_tree(reply)],
            )
        )

    def noise(self, count: int) -> None:
        """Bytes that nothing parses, at every door."""
        doors = ("fleet/push-messages", "fleet/push-object", "runtime/push-messages")
        doors += ("control/start-run", "runtime/acquire-task", "fleet/activate-node")
        with httpx.Client(timeout=10) as web:
            for i in range(count):
                door = f"http://{self.address}/v1/{doors[i % len(doors)]}"
                kind = {"content-type": "application/x-protobuf"}
                size = int(self.random.integers(1, 3000))
                body = self.random.bytes(size)
                answer = web.post(door, content=body, headers=kind)
                assert answer.status_code >= 400
