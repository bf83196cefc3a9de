"""Record the rounds of the server: one line per round, and the final files.

A card has the scores of a site's models.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from troth import files
from troth.deployment import site
from troth.deployment.protocol import Answer, Card
from troth.deployment.server import Hub
from troth.evaluation import evaluate
from troth.server.server import Served


def noted(
    hub: Hub,
    asked: list[int],
    answers: Mapping[int, Answer],
    refused: Mapping[str, str],
    served: Served,
    far: Mapping[int, float],
) -> dict[str, Any]:
    """Return the line of `rounds.jsonl` for the round that has just ended.

    Args:
        hub: The server's state, after the round.
        asked: Clients that were selected.
        answers: Valid replies, by client.
        refused: Reasons why other replies were rejected, by name of the site.
        served: Updates that filters and the aggregator dropped or changed.
        far: Relative distance of each site's update from the aggregate, by client.
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
    if cards:  # scores of the models before this round's training
        line["evaluation"] = {"round": hub.round - 2, **summarized(cards)}
    return line


def spoken(hub: Hub, line: Mapping[str, Any]) -> str:
    """Return a description of a round for people, from its line of `rounds.jsonl`."""
    names, distance = hub.names, line["distance"]
    text = f"round {hub.round} of {hub.rounds}: {len(distance)} replies"
    text += f", {next(iter(distance))} farthest from the aggregate" if distance else ""
    found = line.get("evaluation", {}).get("personal", {})
    for key in ("accuracy_weighted", "error_weighted"):
        text += f", {key[:-9]} before training {found[key]:.3f}" if key in found else ""
    text += "".join(f"; {n} is not counted: {w}" for n, w in line["refused"].items())
    absent = ", ".join(names[k] for k in line["absent"])
    text += f"; no reply from {absent}" if absent else ""
    why = f"; the shared model does not change: {line.get('why')}"
    return text + (why if "why" in line else "")


def summarized(cards: Mapping[int, Card]) -> dict[str, Any]:
    """Return statistics of the scores of personal models and of the shared model."""
    table = _table(cards)
    size = table.pop("test")
    found: dict[str, dict[str, np.ndarray]] = {"personal": {}, "shared": {}}
    for key, column in table.items():
        kind, line, name = key.partition("_")
        if line and kind in found:
            found[kind][name] = column
    nobody = np.zeros(len(size), bool)
    return {k: evaluate.summarise(mine, size, nobody) for k, mine in found.items()}


def _table(cards: Mapping[int, Card]) -> dict[str, np.ndarray]:
    """Return the cards as columns, in the order of the clients.

    If a card lacks a score, it is NaN.
    """
    keys = sorted({key for card in cards.values() for key in card})
    order = [cards[k] for k in sorted(cards)]
    return {key: np.array([card.get(key, math.nan) for card in order]) for key in keys}


def conclude(hub: Hub, path: Path, cards: Mapping[int, Card]) -> None:
    """Write the files of a finished run.

    The summary is written last, because it marks the run as finished.
    """
    ids = sorted(cards)
    names = [hub.names[k] for k in ids]
    columns: dict[str, Any] = {"client": np.array(ids), "name": names, **_table(cards)}
    files.write_csv(path / files.CLIENTS, columns)
    files.save(path / files.SHARED, site.named(hub.engine, hub.broadcast.w))
    found = summarized(cards) if ids else {}
    facts = {"clients": len(hub.names), "heard": names, "rounds": hub.rounds}
    far = [{"name": name, "distance": value} for name, value in hub.ranking()]
    files.write_json(path / files.SUMMARY, {**found, **facts, "farthest": far})
