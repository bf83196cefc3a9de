"""Flower's grid within one process: every message goes through its bytes."""

from flwr.app import Context, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as Wire
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from troth.config import reader
from troth.deployment import site
from troth.deployment.flower.client import app
from troth.deployment.flower.server import Reception
from troth.deployment.flower.transport import identify
from troth.deployment.server import Hub

RUN = "0123456789abcdef"


def through_bytes(message):
    wire = message_to_proto(message).SerializeToString()
    return wire, message_from_proto(Wire.FromString(wire))


class Loopback(Grid):
    """Nodes that answer at once; `tamper` makes what it likes of a node's reply."""

    run = property()
    set_run = create_message = send_and_receive = NotImplemented

    def __init__(self, configs, tamper=None):
        self.contexts = {
            k: Context(1, k, config, RecordDict(), {})
            for k, config in enumerate(configs, 100)
        }
        identify(1, 1, 1)
        self.tamper, self.here = tamper, set(self.contexts)
        self.inbox = {}
        self.seen = []

    def get_node_ids(self):
        return sorted(self.here)

    def get_nodes(self):
        return [NodeInfo(node_id=k) for k in sorted(self.here)]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            key = f"m{len(self.inbox)}"
            message.metadata.__dict__["_message_id"] = key
            node = message.metadata.dst_node_id
            reply = app(through_bytes(message)[1], self.contexts[node])
            wire, back = through_bytes(reply)
            self.seen.append((node, message.metadata.message_type, wire))
            tampered = [back] if self.tamper is None else self.tamper(node, back)
            self.inbox[key] = list(tampered)
            ids.append(key)
        return ids

    def pull_messages(self, message_ids):
        for key in message_ids:
            replies, self.inbox[key] = self.inbox[key], []
            for reply in replies:
                if isinstance(reply, Exception):
                    self.inbox[key] = [reply]
                    raise reply
                yield reply


class Deployed:
    """An experiment on a federation within this process."""

    def __init__(self, path, tree, tamper=None):
        self.path, self.file = path, path / "experiment.toml"
        self.out = path / "out"
        self.out.mkdir(exist_ok=True, parents=True)
        self.file.write_text(reader.dumps(tree))
        self.experiment = site.read(self.file)
        names = self.experiment.deployment.sites
        self.grid = Loopback([self.node(name) for name in names], tamper)
        self.hub = Hub(self.experiment, RUN)

    def node(self, name, **more):
        own = {"experiment": str(self.file), "name": name, "data": "experiment"}
        return {**own, "state": str(self.path / name), **more}

    def reception(self):
        return Reception(self.grid, self.hub, self.out, pause=0)

    def run(self, least=0):
        self.reception().run(least)
        return self.hub

    def restarted(self):
        """The server as it comes back: with what is on its disk and no more."""
        self.hub = Hub(self.experiment, "f" * 16)
        return self.hub
