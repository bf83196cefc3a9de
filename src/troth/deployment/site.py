"""A site: one client of a real federation, with its data.

A site uses the same `Client`, engine and random numbers as a simulation of all sites.
It is client k of n. At this site, the other clients have no examples.
"""

import copy
import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from troth import build, files
from troth.config import reader
from troth.config.schema import Availability, Experiment
from troth.data import corrupt, load, preprocess, user_files
from troth.deployment.state import Keeper
from troth.engine.local_training import Engine, Plan
from troth.evaluation import evaluate
from troth.federation import sampling
from troth.federation.rounds import answer
from troth.networks import build as networks
from troth.networks import task
from troth.server import rules, server
from troth.server.server import Serving
from troth.types import Arrays, Broadcast, Data, Messages, Refusal, Shards

SIMULATED = "experiment"
"""Value of `data`, in place of a file, for the client's data in a simulation."""


def agreed(e: Experiment) -> Experiment:
    """Return the experiment with the facts on which server and sites must agree.

    The facts, such as input shape and classes, come from `[deployment]`.

    Raises:
        Refusal: `[deployment]` lacks a required key, or the experiment needs the data
            of all sites in one place, or has settings that are only for simulations.
    """
    own, draw = e.deployment, e.train.sampling
    for key, example in (("sites", '["a", "b"]'), ("shape", "[22]"), ("classes", "2")):
        if getattr(own, key) in ([], None):
            raise Refusal(
                f"deployment.{key} is not set, and server and sites must agree on it "
                f"before the first round; add it to [deployment], such as {example}"
            )
    one_place = (
        "needs the data of all sites in one place, but each site keeps its own; "
        "set normalize to 'unit' or 'none', features to 'own' or 'none', and "
        "sampling to 'uniform'"
    )
    alone = (
        "is only for simulations: real sites join and leave by themselves; leave it out"
    )
    for what, there, why in (
        ("model.normalize = 'pixel'", e.model.normalize == "pixel", one_place),
        ("features.name = 'federated'", e.features.name == "federated", one_place),
        (f"train.sampling = {draw!r}", sampling.by_size(draw), one_place),
        ("[availability]", e.availability != Availability(), alone),
        ("evaluate.newcomers", e.evaluate.newcomers, alone),
        ("adversary.start", e.adversary.start, alone),
    ):
        if there:
            raise Refusal(f"{what} {why}")
    n = len(own.sites)
    build.check_cohort(e, n, 0)
    facts: dict[str, Any] = {"shape": own.shape, "classes": own.classes}
    facts |= {"scale": own.scale, "clients": n, "labels": own.labels}
    facts |= {"features": own.features, "multi_label": own.several}
    return dataclasses.replace(e, resolved=facts)


def fingerprint(e: Experiment) -> str:
    """Return a hash of all settings on which server and sites must agree.

    It has 12 hex digits. The section `data`, quorum and deadline are not hashed.
    """
    own = e.deployment
    facts = repr((own.sites, own.shape, own.classes, own.scale, own.several))
    facts += repr((own.features, own.label, own.labels))
    same = dataclasses.replace(e, data=Experiment().data)
    text = f"{reader.fingerprint(same)} {facts}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def own_data(e: Experiment, client: int, data: str) -> tuple[Arrays, Shards]:
    """Read a site's examples, and split them as in a simulation.

    Args:
        e: The experiment.
        client: Number of the site.
        data: An .npz or .csv file, or "experiment" for the data that the client has in
            a simulation.

    Returns:
        The examples, and those of each client for training, validation and test. Other
        clients have none.
    """
    n = len(e.deployment.sites)
    if data == SIMULATED:
        arrays, shards, _ = load.deal(e, None)
        _check_simulated(e, arrays, len(shards.train))
        parts = [part[client] for part in shards[:3]]
    else:
        table = data.lower().endswith(user_files.ENDINGS)
        arrays = user_files.read(e, user_files.examples(e, data) if table else data)
        nobody = np.zeros(0, np.int64)
        lists = [*[nobody] * client, np.arange(len(arrays.y))]
        shards, _ = load.divided(e, arrays, lists, max(1, e.partition.min_examples))
        parts = [part[0] for part in shards[:3]]
    empty = np.zeros(0, np.int64)
    wide: list[list[np.ndarray]] = [
        [part if k == client else empty for k in range(n)] for part in parts
    ]
    return arrays, Shards(wide[0], wide[1], wide[2])


def _check_simulated(e: Experiment, arrays: Arrays, n: int) -> None:
    """Raise Refusal if `[deployment]` does not fit the data of the experiment.

    `n` is the number of clients of these data.
    """
    own = e.deployment
    here = (list(arrays.x.shape[1:]), arrays.classes, arrays.scale, n)
    said = (own.shape, own.classes, own.scale, len(own.sites))
    several = arrays.y.ndim == 2
    if (*here, several) != (*said, own.several):
        raise Refusal(
            "[deployment] says shape {}, classes {}, scale {:g}, {} sites and several "
            "= {}, and data '{}' have {}, {}, {:g}, {} and {}; make them the same"
            "".format(*said, own.several, e.data.name, *here, several)
        )


class Site:
    """Client k of n, which has only its own data."""

    def __init__(self, e: Experiment, name: str, data: str) -> None:
        """Read the site's data and build its engine.

        Args:
            e: The experiment, as `agreed` returns it.
            name: Name of the site. If no site has this name, Refusal is raised.
            data: Data of the site (see `own_data`).
        """
        if name not in e.deployment.sites:
            known = ", ".join(e.deployment.sites)
            raise Refusal(f"no site is called '{name}'; deployment.sites are: {known}")
        self.e, self.name = e, name
        self.client, n = e.deployment.sites.index(name), len(e.deployment.sites)
        self.ids = np.array([self.client])
        every = build.adversaries(e, n)
        self.hostile = bool(every[self.client])
        arrays, shards = own_data(e, self.client, data)
        mine = every & (np.arange(n) == self.client)
        how = corrupt.corruption(e.corruption, arrays, every)
        where = build.device(e.engine.device)
        dtype = build.precision(e)
        raw = preprocess.Raw(arrays, shards, dtype, where, mine, how, e.seed)
        self.data, self.prepared, self.redraw = preprocess.deal(e.features, raw)
        self.engine = engine(e, arrays, self.data, where)
        build.check_validation(self.engine, self.data)
        self.w0 = task.flatten(self.engine.objective.net)
        self.start = self.engine.start(self.w0)[None]
        foes = rules.expected(e, n, int(every.sum()))
        tail = self.engine.task.tail
        self.serving = Serving(rules.of(e, foes), tail, e.seed, where, n)

    @property
    def size(self) -> int:
        """Number of training examples."""
        return int(self.data.train.size[self.client])

    @torch.no_grad()
    def local(
        self, sent: Broadcast, row: Tensor, round_: int, loss: bool
    ) -> tuple[Messages, Tensor]:
        """Train one round.

        Args:
            sent: The server's message.
            row: The client's state before the round, [1, width].
            round_: The round, from 0.
            loss: Whether to report the loss of the shared model.

        Returns:
            The message to the server, and the state after the round, [1, width].
        """
        if self.redraw is not None:
            self.redraw(round_, self.ids)
        messages, row = answer(self.engine, sent, row, self.ids, round_, loss)
        if self.hostile and self.serving.rules.attack is not None:
            messages = self._attacked(sent, messages, round_)
        return messages, row

    def _attacked(self, sent: Broadcast, own: Messages, round_: int) -> Messages:
        """Falsify the message of a malicious site, to test a deployment.

        The other sites' messages are not known here. The attack gets copies of this
        site's message in their place.
        """
        n, tail = len(self.e.deployment.sites), self.engine.task.tail
        rows = server.cut(own, tail)
        crowd = Messages(*(field.expand(n, *field.shape[1:]) for field in rows))
        crowd = crowd._replace(client=torch.arange(n, device=own.client.device))
        mine = crowd.client == self.client
        seen = server.cut_broadcast(sent, tail)
        changed = self.serving.attacked(seen, crowd, mine, round_)
        update, extra = changed.update[mine], changed.extra[mine]
        width = own.extra.shape[1]
        update = torch.cat([update, extra[:, width:]], dim=1)
        return own._replace(update=update, extra=extra[:, :width])

    @torch.no_grad()
    def finish(self, sent: Broadcast, row: Tensor) -> Tensor:
        """Do the personalizer's work after the last round, and return the new state."""
        if self.engine.client.finish is None:
            return row
        rounds = self.e.train.rounds
        if self.redraw is not None:
            self.redraw(rounds, self.ids)
        return self.engine.run("finish", sent, row, self.ids, rounds)[1]

    @torch.no_grad()
    def model(self, w: Tensor, row: Tensor) -> Tensor:
        """Return the model with which the site predicts, [d]."""
        return self.engine.models(w, self.engine.settled(row, self.ids))[0]

    def scores(self, w: Tensor, row: Tensor) -> dict[str, float]:
        """Return the test scores of the site's personal model and of the shared model.

        The key `test` has the number of test examples.
        """
        models = {"personal": self.model(w, row), "shared": w}
        found: dict[str, float] = {}
        for kind, model in models.items():
            test = self.data.test
            table = evaluate.shared(self.engine, model, test, self.ids)
            found |= {f"{kind}_{k}": float(column[0]) for k, column in table.items()}
        return found | {"test": float(self.data.test.size[self.client])}


def engine(e: Experiment, arrays: Arrays, data: Data, where: torch.device) -> Engine:
    """Return the engine of a site or server, which trains one client at a time."""
    shape = arrays.x.shape[1:]
    net = networks.network(e, shape, arrays.classes, arrays.x[:0], arrays.scale)
    net = net.to(where, build.precision(e))
    plan = Plan("threads", 1) if where.type == "cpu" else Plan("loop", 1)
    return build.make_engine(e, net, data, arrays, len(e.deployment.sites), plan)


def identity(e: Experiment, made: Engine, w0: Tensor) -> dict[str, Any]:
    """Return the facts that server and site compare before the first round.

    They are equal if both have the same experiment, model and initial parameters.
    """
    digest = hashlib.sha256(w0.cpu().float().numpy().tobytes()).hexdigest()
    return {
        "experiment": fingerprint(e),
        "parameters": made.task.d,
        "extra": made.client.extra,
        "first": digest[:12],
    }


def read(path: str | Path) -> Experiment:
    """Read the experiment from a file, and complete it with `agreed`."""
    return agreed(reader.from_dict(reader.read(Path(path))))


class Asked(NamedTuple):
    """What the server requests of a site, in addition to an update."""

    round: int
    run: str  # random token that identifies the run
    loss: bool  # whether to report the loss of the shared model
    card: bool  # whether to report scores of the models before this round's training


def train(
    site: Site, state: Path, sent: Broadcast, asked: Asked
) -> tuple[Messages, str]:
    """Train one round from the stored state, and store the new state.

    Args:
        site: The site.
        state: Folder for its state.
        sent: The broadcast of the server.
        asked: What the server requests.

    Returns:
        The message to the server, and the scores (card) as JSON text, or "" if they are
        not requested.
    """
    keeper, row = _before(site, state, asked)
    card = written(site.scores(sent.w, row)) if asked.card else ""
    messages, row = site.local(sent, row, asked.round, asked.loss)
    if row.shape[1]:  # clients of some methods have no state
        keeper.keep(asked.round, row)
    return messages, card


def finish(site: Site, state: Path, sent: Broadcast, asked: Asked) -> str:
    """Train the final personal model, and write it with its scores to a file.

    Return the scores as JSON text. The arguments are those of `train`.
    """
    keeper, row = _before(site, state, asked)
    row = site.finish(sent, row)
    scores = site.scores(sent.w, row)
    keeper.make()
    files.save(
        keeper.path / "model.safetensors", named(site.engine, site.model(sent.w, row))
    )
    if site.prepared is not None:
        files.save(keeper.path / files.FEATURES, site.prepared.tensors())
    card = {"name": site.name, "experiment": site.e.name, "run": asked.run, **scores}
    files.write_json(keeper.path / "card.json", card)
    return written(scores)


def written(scores: dict[str, float]) -> str:
    """Return scores as JSON text."""
    return json.dumps(files.plain(scores))


def _before(site: Site, state: Path, asked: Asked) -> tuple[Keeper, Tensor]:
    """Return the store of states of the run, and the state before the round.

    Raise Refusal if the server's message has no valid run or round.
    """
    if not re.fullmatch(r"[0-9a-f]{8,32}", asked.run) or asked.round < 0:
        raise Refusal("the server's message names no run or no round")
    keeper, start = Keeper(state / asked.run), site.start
    return keeper, keeper.before(asked.round, start) if start.shape[1] else start


def named(made: Engine, model: Tensor) -> dict[str, Tensor]:
    """Return a flat model as name → tensor, with the names of the network."""
    net = copy.deepcopy(made.objective.net)
    task.assign(net, model)
    return {k: t for k, t in net.state_dict().items() if isinstance(t, Tensor)}
