"""The server as a Flower ServerApp.

It uses the same filters and aggregators as a simulation.

The configuration of a Flower run has the keys `experiment` (the TOML file), `out` (the
folder of the run) and `sites` (number of sites to wait for; 0: all).
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from flwr.app import Context, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid, ServerApp

import troth
from troth import files
from troth.deployment import log as minutes
from troth.deployment import protocol, site
from troth.deployment.flower import records
from troth.deployment.protocol import Answer, Card
from troth.deployment.server import Hub
from troth.types import Refusal

Say = Callable[[str], None]
INFO = 20  # level of messages for people in Flower's log
_PAUSE = 0.1  # seconds between two requests for replies
_GREETING = 20.0  # seconds within which a new node must introduce itself


class Reception:
    """The server's connections: run the rounds of a `Hub` over Flower's grid.

    A node is a connection in Flower's grid. A site introduces itself when it connects,
    so that the server knows the node of each site.
    """

    def __init__(
        self,
        grid: Grid,
        hub: Hub,
        path: Path,
        *,
        pause: float = _PAUSE,
        say: Say | None = None,
        keys: Mapping[str, bytes] | None = None,
    ) -> None:
        """Start without connected sites.

        Args:
            grid: Flower's grid, which carries messages.
            hub: The server's state.
            path: Folder of the run.
            pause: Seconds between two requests for replies.
            say: Function that prints lines for people; None: Flower's log.
            keys: Public key of each site by name; None: keys are not checked.
        """
        self.grid, self.hub, self.path, self.pause = grid, hub, path, pause
        self.say, self.keys = say or partial(log, INFO), keys
        self.nodes: dict[int, int] = {}  # client → node
        self.strangers: set[int] = set()  # rejected nodes

    def run(self, least: int = 0) -> None:
        """Run all rounds, or if there is a checkpoint in the folder, those after it.

        Args:
            least: Number of sites that must be connected before training; 0: all.
        """
        hub, offset = self.hub, 0
        if (self.path / files.CHECKPOINT).exists():
            offset = hub.restore(self.path)["rounds"]
            self.say(f"continuing with round {hub.round + 1} of {hub.rounds}")
        hub.save(self.path, rounds=offset)  # now the token of the run is on disk
        with (self.path / files.ROUNDS).open("ab") as file:
            file.truncate(offset)
            self.gather(least or len(hub.names))
            while not hub.over:
                line = json.dumps(files.plain(self.round())) + "\n"
                file.write(line.encode())
                file.flush()
                hub.save(self.path, rounds=file.tell())
        self.finish()

    def gather(self, least: int) -> None:
        """Wait until `least` sites are connected."""
        last = -math.inf
        while self.meet() < least:
            if time.monotonic() - last > 30:
                away = [n for k, n in enumerate(self.hub.names) if k not in self.nodes]
                missing = ", ".join(away)
                self.say(f"waiting for {least} sites; not connected yet: {missing}")
                last = time.monotonic()
            time.sleep(2 * self.pause)

    def meet(self) -> int:
        """Identify new nodes, forget those that left, and count connected sites."""
        infos = {node.node_id: node.public_key for node in self.grid.get_nodes()}
        self.nodes = {k: v for k, v in self.nodes.items() if v in infos}
        self.strangers &= {*infos}  # let a rejected node try again
        known = {*self.nodes.values(), *self.strangers}
        new = [node for node in infos if node not in known]
        ask = {node: records.record({"hello": troth.__version__}) for node in new}
        for node, message in self.exchange("query", ask, _GREETING):
            try:
                client = self.welcome(records.content(message), infos[node])
                self.strangers |= {self.nodes.get(client, node)} - {node}
                self.nodes[client] = node
                self.say(f"{self.hub.names[client]} is connected")
            except Refusal as refusal:
                self.strangers.add(node)
                self.say(f"a node was rejected: {refusal}")
        return len(self.nodes)

    def welcome(self, content: RecordDict, key: bytes) -> int:
        """Return the client number of a node that introduces itself.

        Raise Refusal if it is no site, or has another key than the site.
        """
        client = self.hub.welcome(records.parts(content)[0])
        name = self.hub.names[client]
        if self.keys is not None and self.keys[name] != key:
            raise Refusal(f"it calls itself {name}, and its key is another one")
        return client

    def exchange(
        self, kind: str, contents: Mapping[int, RecordDict], deadline: float
    ) -> Iterator[tuple[int, Message | Exception]]:
        """Send each node its message, and yield nodes with their replies.

        If a reply cannot be parsed, the exception is yielded in its place.

        Args:
            kind: Kind of the message: query, train or evaluate.
            contents: Node → its message.
            deadline: Seconds after which waiting for replies ends.
        """
        group = str(self.hub.round + 1)
        out = [
            Message(content, node, kind, ttl=deadline, group_id=group)
            for node, content in contents.items()
        ]
        ids = list(self.grid.push_messages(out)) if out else []
        pending = dict(zip(ids, contents, strict=True))
        end, failed = time.monotonic() + deadline, dict.fromkeys(ids, 0)
        while pending and time.monotonic() < end:
            for key, node in list(pending.items()):
                found: list[Message | Exception] = []
                try:
                    found += list(self.grid.pull_messages([key]))[:1]
                except Refusal as refusal:
                    found = [refusal]
                except httpx.TransportError:  # the connection failed, not a site
                    raise
                except Exception as error:  # the bytes are not trusted
                    failed[key] += 1
                    found = [error] if failed[key] > 2 else []
                for message in found:
                    del pending[key]
                    if not records.lost(message):
                        yield node, message
            time.sleep(self.pause if pending else 0)

    def round(self) -> dict[str, Any]:
        """Run one round, and return its line of `rounds.jsonl`."""
        hub, own = self.hub, self.hub.e.deployment
        self.meet()
        asked = hub.sample(hub.round).tolist()
        there = {self.nodes[k]: k for k in asked if k in self.nodes}
        expected, quorum = hub.expected(), own.quorum or len(asked)
        answers: dict[int, Answer] = {}
        refused: dict[str, str] = {}
        sent = dict.fromkeys(there, records.sent(hub.outgoing(), expected))
        for node, message in self.exchange("train", sent, own.deadline):
            name = hub.names[there[node]]
            try:
                parts = records.parts(records.content(message))
                answers[there[node]] = protocol.check(expected, name, *parts)
            except Refusal as refusal:
                refused[name] = str(refusal)
            if len(answers) >= quorum:
                break
        if not there:
            time.sleep(self.pause)
        served, far = hub.serve(answers)
        line = minutes.noted(hub, asked, answers, refused, served, far)
        self.say(minutes.spoken(hub, line))
        return line

    def finish(self) -> None:
        """Request final models and their scores from all sites; write the results.

        A site keeps its model, and sends only the scores (its card).
        """
        hub, cards = self.hub, dict[int, Card]()
        self.meet()
        there = {node: k for k, node in self.nodes.items()}
        sent = dict.fromkeys(there, records.sent(hub.outgoing(), hub.expected()))
        for node, message in self.exchange("evaluate", sent, hub.e.deployment.deadline):
            try:
                about, _ = records.parts(records.content(message))
                cards[there[node]] = protocol.card(about.get("card"))
            except Refusal as refusal:
                self.say(f"no card from {hub.names[there[node]]}: {refusal}")
        minutes.conclude(hub, self.path, cards)
        self.say(f"finished; results are in {self.path}")


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds of an experiment as Flower's server app."""
    config = context.run_config
    path = Path(str(config["out"]))
    path.mkdir(parents=True, exist_ok=True)
    hub = Hub(site.read(str(config["experiment"])), f"{time.time_ns():016x}")
    Reception(grid, hub, path).run(int(config.get("sites", 0)))
