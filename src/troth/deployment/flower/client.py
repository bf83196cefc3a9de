"""A site as a Flower ClientApp, which trains on this site's data.

The configuration of a Flower node has the keys `experiment` (the TOML file), `name` (of
the site), `data` (a file), `state` (a folder) and `share-personal`.
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
    """Return the site that a node's configuration describes, and its state folder.

    Raise Refusal if a key is missing, or if the personalizer's messages reveal personal
    models and `share-personal` is not set.
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
            f"personalizer '{made.e.personalizer.name}' sends messages that reveal the "
            "site's personal model; allow that by --share-personal, or take another"
        )
    return made, Path(str(config["state"]))


@lru_cache(maxsize=16)
def _site(experiment: str, name: str, data: str) -> Site:
    return Site(sites.read(experiment), name, data)


def _answering(how: Answer) -> Callable[[Message, Context], Message]:
    """Return a function that answers messages; if it fails, the reply has the error."""

    def reply(message: Message, context: Context) -> Message:
        try:
            content = how(*configured(context.node_config), message.content)
        except (Refusal, OSError) as refusal:  # such as a full disk
            content = records.record({"refused": str(refusal)})
        return Message(content, reply_to=message)

    return reply


def _hello(site: Site, state: Path, content: RecordDict) -> RecordDict:
    """Reply with the site's name, its version of Troth, and facts to be checked."""
    same = sites.identity(site.e, site.engine, site.w0)
    return records.record({"name": site.name, "version": troth.__version__, **same})


def _train(site: Site, state: Path, content: RecordDict) -> RecordDict:
    """Train one round from the site's stored state, and reply with its message."""
    sent, asked = records.received(content, site.w0, site.engine.client.extra)
    messages, card = sites.train(site, state, sent, asked)
    return records.reply(messages, site.name, asked, card)


def _finish(site: Site, state: Path, content: RecordDict) -> RecordDict:
    """Make and store the site's final personal model, and reply with its scores."""
    sent, asked = records.received(content, site.w0, site.engine.client.extra)
    return records.record({"card": sites.finish(site, state, sent, asked)})


app = ClientApp()
app.query()(_answering(_hello))
app.train()(_answering(_train))
app.evaluate()(_answering(_finish))
