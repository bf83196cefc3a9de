"""What malicious sites send, and how they send it to a live server."""

import contextlib
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np

from troth.deployment.flower import keys, take_part, transport

Random = np.random.Generator
Change = Callable[[Random, Any], Any]


def another_kind(random, content):
    content["vectors"] = type(content["about"])({"update": random.bytes(50)})


def not_a_number(random, content):
    one = content["vectors"]["update"]
    numbers = np.frombuffer(random.bytes(len(one.data)), np.float32).copy()
    numbers[int(random.integers(len(numbers)))] = np.nan
    one.data = numbers.tobytes()


def infinite(random, content):
    one = content["vectors"]["update"]
    one.data = np.full(len(one.data) // 4, np.inf, np.float32).tobytes()


def longer(random, content):
    content["vectors"]["update"].data += random.bytes(4)


def numpys_own(random, content):
    content["vectors"] = type(content["vectors"])([random.normal(size=(3, 4))])


def says(key, value):
    return lambda random, content: content["about"].update({key: value(random)})


def has(key, value):
    return lambda random, content: setattr(
        content["vectors"]["update"], key, value(random)
    )


CHANGES = [
    lambda random, content: content.clear(),
    another_kind,
    says("round", lambda random: int(random.integers(1000, 10**9))),
    says("refused", lambda random: "x" * 100_000),
    not_a_number,
    infinite,
    longer,
    has("shape", lambda random: (int(random.integers(10**6)), 1)),
    has("dtype", lambda random: "float64"),
    says("name", lambda random: "s0"),
    says("size", lambda random: -int(random.integers(10**9))),
    numpys_own,
    lambda random, content: content.update({"third": content["about"]}),
]
HUGE = has("data", lambda random: random.bytes(8_000_000))  # 2,600 are wanted


class Mob:
    """Several sites, malicious but for a and c; each begins as an honest one would."""

    def __init__(self, address, path, names):
        self.address, self.path, self.names = address, path, names
        self.sent = 0
        self.random = np.random.default_rng(8)

    @contextlib.contextmanager
    def here(self):
        """Connected, all of them."""
        with contextlib.ExitStack() as stack:
            self.posts = {}
            for name in self.names:
                place = self.path / f"node-{name}"
                way = transport.Way(self.address, keys.private(None), None, place)
                self.posts[name] = stack.enter_context(transport.connected(way))
            yield

    def look(self, change):
        """Answer what there is to answer, once."""
        for name, post in self.posts.items():
            message = post.pull()
            if message is None:
                continue
            config = {"experiment": str(self.path / "e.toml"), "name": name}
            config |= {"data": "experiment", "state": str(self.path / name)}
            reply = take_part.answer(message, post.node.node_id, config)
            if name in "ac":
                post.push(reply)
                continue
            if message.metadata.message_type == "train":
                change(self.sent)(self.random, reply.content)
                self.sent += 1
                if self.sent == 100:  # its parts are never sent
                    reply.metadata.__dict__["_message_id"] = reply.object_id
                    post.announce(reply)
                    continue
            for _ in range(1 + (self.sent % 3 == 0)):  # every third of them twice
                with contextlib.suppress(*transport.FAILED):
                    post.push(reply)

    def noise(self, count):
        """Bytes that nothing parses, at every door."""
        doors = ("fleet/push-messages", "fleet/push-object", "runtime/push-messages")
        doors += ("control/start-run", "runtime/acquire-task", "fleet/activate-node")
        kind = {"content-type": "application/x-protobuf"}
        with httpx.Client(timeout=10) as web:
            for i in range(count):
                door = f"http://{self.address}/v1/{doors[i % len(doors)]}"
                body = self.random.bytes(int(self.random.integers(1, 3000)))
                assert web.post(door, content=body, headers=kind).status_code >= 400
