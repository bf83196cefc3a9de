"""What a site does when the server asks: a round from the state before it, or the end.

The server's word for run and round is checked, since files are named after them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from troth import files
from troth.deployment.site import Site
from troth.deployment.state import Keeper
from troth.networks import task
from troth.types import Broadcast, Messages, Refusal


class Asked(NamedTuple):
    """What the server says beside the model."""

    round: int
    run: str  # token of the run
    loss: bool  # whether a rule reads losses
    card: bool  # whether the site reports how good the models are that it begins with


def train(
    site: Site, state: Path, sent: Broadcast, asked: Asked
) -> tuple[Messages, str]:
    """A round: what the site sends, and the numbers of its card if they are asked for.

    Args:
        site: which one.
        state: folder of its states.
        sent: what the server sends.
        asked: what it asks for.
    """
    keeper, row = _before(site, state, asked)
    card = written(site.scores(sent.w, row)) if asked.card else ""
    messages, row = site.local(sent, row, asked.round, asked.loss)
    if row.shape[1]:  # there is something to keep
        keeper.keep(asked.round, row)
    return messages, card


def finish(site: Site, state: Path, sent: Broadcast, asked: Asked) -> str:
    """After the last round: the site's own model and card, which stay; its numbers."""
    keeper, row = _before(site, state, asked)
    row = site.finish(sent, row)
    scores = site.scores(sent.w, row)
    keeper.make()
    files.save(keeper.path / "model.safetensors", _named(site, sent.w, row))
    if site.prepared is not None:
        files.save(keeper.path / files.FEATURES, site.prepared.tensors())
    card = {"name": site.name, "experiment": site.e.name, "run": asked.run, **scores}
    files.write_json(keeper.path / "card.json", card)
    return written(scores)


def written(scores: dict[str, float]) -> str:
    """The numbers of a card, as they cross the wire."""
    return json.dumps(files.plain(scores))


def _before(site: Site, state: Path, asked: Asked) -> tuple[Keeper, Tensor]:
    """Where the states of a run lie, and the one that a round begins with."""
    if not re.fullmatch(r"[0-9a-f]{8,32}", asked.run) or asked.round < 0:
        raise Refusal("the server's message is of no run or round")
    keeper, start = Keeper(state / asked.run), site.start
    return keeper, keeper.before(asked.round, start) if start.shape[1] else start


def _named(site: Site, w: Tensor, row: Tensor) -> dict[str, Tensor]:
    """The site's own model by the names of its network."""
    net = site.engine.objective.net
    before = task.flatten(net)
    task.assign(net, site.model(w, row))
    state = net.state_dict().items()
    own = {k: t.clone() for k, t in state if isinstance(t, Tensor)}
    task.assign(net, before)
    return own
