"""What a server writes down: a line a round, and the files of a finished run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from troth import files
from troth.deployment.protocol import Answer, Card
from troth.deployment.server import Hub
from troth.evaluation import summary
from troth.networks import task
from troth.server.server import Served


def noted(
    hub: Hub,
    asked: list[int],
    answers: Mapping[int, Answer],
    refused: Mapping[str, str],
    served: Served,
    far: Mapping[int, float],
) -> dict[str, Any]:
    """A line of `rounds.jsonl`, of the round that is just over.

    Args:
        hub: the server.
        asked: clients of the round.
        answers: client → its reply.
        refused: site → why its reply does not count.
        served: what became of the replies.
        far: client → distance from what was aggregated.
    """
    names = hub.names
    distance = {names[k]: v for k, v in sorted(far.items(), key=lambda kv: -kv[1])}
    absent = [k for k in asked if k not in answers and names[k] not in refused]
    line = {
        "round": hub.round - 1,
        "cohort": asked,
        "absent": absent,
        "refused": dict(refused),
        "dropped": served.dropped,
        **served.verdicts,
        "moved": served.moved,
        "stayed": bool(served.why),
        "distance": distance,
    }
    if served.why:
        line["why"] = served.why
    cards = {k: a.card for k, a in answers.items() if a.card}
    if cards:  # of what the round began with
        line["evaluation"] = {"round": hub.round - 2, **summarised(cards)}
    return line


def spoken(hub: Hub, line: Mapping[str, Any]) -> str:
    """The same for people, in a line."""
    names, distance = hub.names, line["distance"]
    text = f"round {hub.round} of {hub.rounds}: {len(distance)} replies"
    text += f", farthest {next(iter(distance))}" if distance else ""
    found = line.get("evaluation", {}).get("personal", {})
    for key in ("accuracy_weighted", "error_weighted"):
        text += f", {key[:-9]} before {found[key]:.3f}" if key in found else ""
    text += "".join(f"; {n} is not counted: {w}" for n, w in line["refused"].items())
    absent = ", ".join(names[k] for k in line["absent"])
    text += f"; missing {absent}" if absent else ""
    return text + (f"; the shared model stays: {line['why']}" if "why" in line else "")


def summarised(cards: Mapping[int, Card]) -> dict[str, Any]:
    """What all sites' numbers are together: of their own models, and of the shared."""
    table = _table(cards)
    size = table.pop("test")
    nobody, found = np.zeros(len(size), bool), dict[str, Any]()
    for kind in ("personal", "shared"):
        mine = {
            key.removeprefix(f"{kind}_"): column
            for key, column in table.items()
            if key.startswith(f"{kind}_")
        }
        found[kind] = summary.summarise(mine, size, nobody)
    return found


def _table(cards: Mapping[int, Card]) -> dict[str, np.ndarray]:
    """Column → [sites], in the order of the clients."""
    keys = sorted({key for card in cards.values() for key in card})
    order = [cards[k] for k in sorted(cards)]
    return {key: np.array([card.get(key, math.nan) for card in order]) for key in keys}


def conclude(hub: Hub, path: Path, cards: Mapping[int, Card]) -> None:
    """The files of a finished run; the summary last, since it says so.

    Args:
        hub: the server.
        path: the folder.
        cards: client → the numbers that its site reports.
    """
    ids = sorted(cards)
    names = [hub.names[k] for k in ids]
    columns: dict[str, Any] = {"client": np.array(ids), "name": names, **_table(cards)}
    files.write_csv(path / files.CLIENTS, columns)
    net = hub.engine.objective.net
    task.assign(net, hub.broadcast.w)
    state = net.state_dict().items()
    own = {k: t.clone() for k, t in state if isinstance(t, Tensor)}
    files.save(path / files.SHARED, own)
    found = summarised(cards) if ids else {}
    told = {"clients": len(hub.names), "heard": names, "rounds": hub.rounds}
    far = [{"name": name, "distance": value} for name, value in hub.ranking()]
    files.write_json(path / files.SUMMARY, {**found, **told, "farthest": far})
