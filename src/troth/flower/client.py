"""A site as a Flower ClientApp: the same client, on this site's data.

A node is configured by `experiment` (the TOML), `name`, `data` (an .npz file), `state`
(a folder) and `share-personal`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

import troth
from troth import folder, sites, tasks
from troth.flower import records
from troth.keeping import Keeper
from troth.sites import Site
from troth.types import Refusal

Answer = Callable[[Site, Path, RecordDict], RecordDict]


def configured(config: Mapping[str, Any]) -> tuple[Site, Path]:
    """The site that a node's configuration describes, and where its state lies.

    Raises:
        Refusal: something is missing, or the method reveals personal models and the
            site has not agreed to that.
    """
    missing = [k for k in ("experiment", "name", "data", "state") if k not in config]
    if missing:
        raise Refusal(
            f"the node's configuration lacks {', '.join(missing)}; start it by troth "
            "client, or give --node-config 'experiment=… name=… data=… state=…'"
        )
    made = _site(*(str(config[k]) for k in ("experiment", "name", "data")))
    if made.engine.client.shares_personal and not config.get("share-personal"):
        raise Refusal(
            f"personalizer '{made.e.personalizer.name}' sends what reveals this site's "
            "personal model; agree to that by --share-personal, or take another"
        )
    return made, Path(str(config["state"]))


@lru_cache(maxsize=16)
def _site(experiment: str, name: str, data: str) -> Site:
    return Site(sites.read(experiment), name, data)


def _answer(message: Message, context: Context, how: Answer) -> Message:
    """The reply to a message; what is refused is said in a sentence."""
    try:
        content = how(*configured(context.node_config), message.content)
    except (Refusal, OSError) as refusal:  # such as a disk that is full
        content = records.record({"refused": str(refusal)})
    return Message(content, reply_to=message)


def _hello(made: Site, state: Path, content: RecordDict) -> RecordDict:
    """Who it is, and what it has agreed on."""
    same = sites.identity(made.e, made.engine, made.w0)
    return records.record({"name": made.name, "version": troth.__version__, **same})


def _train(made: Site, state: Path, content: RecordDict) -> RecordDict:
    """A round, from the state before it."""
    sent, about = records.received(content, made.w0, made.engine.client.extra)
    keeper, r = _keeper(state, about), about["round"]
    wide = made.start.shape[1] > 0  # whether there is anything to keep
    row = keeper.before(r, made.start) if wide else made.start
    messages, row = made.local(sent, row, r, about["loss"])
    if wide:
        keeper.keep(r, row)
    return records.reply(messages, made.name, about)


def _finish(made: Site, state: Path, content: RecordDict) -> RecordDict:
    """After the last round: the site's own model and its card, which stay here."""
    sent, about = records.received(content, made.w0, made.engine.client.extra)
    keeper = _keeper(state, about)
    wide = made.start.shape[1] > 0
    row = keeper.before(about["round"], made.start) if wide else made.start
    row = made.finish(sent, row)
    scores = made.scores(sent.w, row)
    keeper.make()
    folder.save(keeper.path / "model.safetensors", _named(made, sent.w, row))
    if made.prepared is not None:
        folder.save(keeper.path / folder.FEATURES, made.prepared.tensors())
    card = {"name": made.name, "experiment": made.e.name, "run": about["run"], **scores}
    folder.write_json(keeper.path / "card.json", card)
    told = {"round": about["round"], "run": about["run"], "name": made.name}
    return records.record({**told, "card": json.dumps(folder.plain(scores))})


def _named(made: Site, w: Tensor, row: Tensor) -> dict[str, Tensor]:
    """The site's own model by the names of its network."""
    net = made.engine.objective.net
    before = tasks.flatten(net)
    tasks.assign(net, made.model(w, row))
    state = net.state_dict().items()
    own = {k: t.clone() for k, t in state if isinstance(t, Tensor)}
    tasks.assign(net, before)
    return own


def _keeper(state: Path, about: Mapping[str, Any]) -> Keeper:
    """Where the states of this run lie; its token is the server's word, so checked."""
    if not re.fullmatch(r"[0-9a-f]{8,32}", about["run"]) or about["round"] < 0:
        raise Refusal("the server's message is of no run or round")
    return Keeper(state / str(about["run"]))


app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    """Before a site takes part."""
    return _answer(message, context, _hello)


@app.train()
def train(message: Message, context: Context) -> Message:
    """A round."""
    return _answer(message, context, _train)


@app.evaluate()
def finish(message: Message, context: Context) -> Message:
    """After the last round."""
    return _answer(message, context, _finish)
