"""What a server records: one line per round, and the files of a finished run."""

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
    """Make the line of `rounds.jsonl` of the round that is just over."""
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
        line["evaluation"] = {"round": hub.round - 2, **summarized(cards)}
    return line


def spoken(hub: Hub, line: Mapping[str, Any]) -> str:
    """Write that line for people."""
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


def summarized(cards: Mapping[int, Card]) -> dict[str, Any]:
    """Summarize the numbers of all sites, of own models and of the shared one."""
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
    """Column → [sites], in the order of the clients."""
    keys = sorted({key for card in cards.values() for key in card})
    order = [cards[k] for k in sorted(cards)]
    return {key: np.array([card.get(key, math.nan) for card in order]) for key in keys}


def conclude(hub: Hub, path: Path, cards: Mapping[int, Card]) -> None:
    """Write the files of a finished run; the summary last, since it says so."""
    ids = sorted(cards)
    names = [hub.names[k] for k in ids]
    columns: dict[str, Any] = {"client": np.array(ids), "name": names, **_table(cards)}
    files.write_csv(path / files.CLIENTS, columns)
    files.save(path / files.SHARED, site.named(hub.engine, hub.broadcast.w))
    found = summarized(cards) if ids else {}
    facts = {"clients": len(hub.names), "heard": names, "rounds": hub.rounds}
    far = [{"name": name, "distance": value} for name, value in hub.ranking()]
    files.write_json(path / files.SUMMARY, {**found, **facts, "farthest": far})
