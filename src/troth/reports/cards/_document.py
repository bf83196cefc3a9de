"""Cards as JSON, for others to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from troth import files
from troth.reports.cards._making import Card, Deck, decks, provenance
from troth.reports.cards._rules import Said, words
from troth.runs.inspect import Dossier

VERSION = "1.1"
"""Of the format: the first number changes where a reader would misunderstand."""


def document(runs: Sequence[Dossier], made: list[Deck] | None = None) -> dict[str, Any]:
    """The cards of some runs; what is not finished is listed, without cards.

    Args:
        runs: as `dossier.opened` gives them.
        made: their cards, where they are there already.
    """
    found = decks(runs) if made is None else made
    chosen: list[Any] = []
    for deck in found:
        for i in range(len(deck.ids)):
            chosen += [_written(cards[i], deck, i) for cards in deck.cards]
    return {
        "format": "troth trust cards",
        "version": VERSION,
        "runs": [files.plain(_run(run)) for run in runs],
        "cards": chosen,
    }


def schema() -> dict[str, Any]:
    """The JSON Schema of a document."""
    text = (
        resources.files("troth.reports.cards")
        .joinpath("schema.json")
        .read_text("utf-8")
    )
    found: dict[str, Any] = json.loads(text)
    return found


def _run(run: Dossier) -> dict[str, Any]:
    return {
        "label": run.label,
        "folder": str(run.path),
        "finished": run.finished,
        "rounds": len(run.rounds),
        **provenance(run),
        "personalizer": run.part("personalizer"),
        "attack": run.part("attack"),
        "aggregator": run.part("aggregator"),
        "troubles": run.troubles,
    }


def _written(card: Card, deck: Deck, i: int) -> dict[str, Any]:
    choice = deck.choices[i]
    use: dict[str, Any] = {"decided_by": choice.why, "run": None, "model": None}
    if choice.model is not None:
        use |= {"run": choice.model.run.label, "model": choice.model.kind}
    said = [_sentence(each) for each in (*choice.said, *card.said)]
    return {**files.plain(card.facts), "use": use, "sentences": said}


def _sentence(said: Said) -> dict[str, Any]:
    return {"rule": said[0], "values": [*said[1:]], "text": words(said)}
