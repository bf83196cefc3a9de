"""A site as a Flower ClientApp: the same client, on this site's data.

A node is configured by `experiment` (the TOML), `name`, `data` (a file), `state` (a
folder) and `share-personal`.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

import troth
from troth.deployment import site as sites
from troth.deployment.flower import records
from troth.deployment.site import Site
from troth.types import Refusal

Answer = Callable[[Site, Path, RecordDict], RecordDict]


def configured(config: Mapping[str, Any]) -> tuple[Site, Path]:
    """Build the site that a node's configuration describes, and name its state's place.

    Refuse a method that reveals personal models unless the site has agreed to that.
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


def _answering(how: Answer) -> Callable[[Message, Context], Message]:
    """Reply to messages by a function of the site; a refusal is a reply too."""

    def reply(message: Message, context: Context) -> Message:
        try:
            content = how(*configured(context.node_config), message.content)
        except (Refusal, OSError) as refusal:  # such as a disk that is full
            content = records.record({"refused": str(refusal)})
        return Message(content, reply_to=message)

    return reply


def _hello(site: Site, state: Path, content: RecordDict) -> RecordDict:
    """Say, before taking part, who the site is and what it has agreed on."""
    same = sites.identity(site.e, site.engine, site.w0)
    return records.record({"name": site.name, "version": troth.__version__, **same})


def _train(site: Site, state: Path, content: RecordDict) -> RecordDict:
    """Train a round, from the state before it."""
    sent, asked = records.received(content, site.w0, site.engine.client.extra)
    messages, card = sites.train(site, state, sent, asked)
    return records.reply(messages, site.name, asked, card)


def _finish(site: Site, state: Path, content: RecordDict) -> RecordDict:
    """Finish after the last round: own model and card stay at the site."""
    sent, asked = records.received(content, site.w0, site.engine.client.extra)
    return records.record({"card": sites.finish(site, state, sent, asked)})


app = ClientApp()
app.query()(_answering(_hello))
app.train()(_answering(_train))
app.evaluate()(_answering(_finish))
