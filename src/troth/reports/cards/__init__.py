"""Trust cards: what is known about every client's model from the files of runs.

`document` returns the cards as JSON, and `schema.json` describes the format. A sentence
of a card is the name of a template in `RULES`, with values for its placeholders.
"""

from troth.reports.cards._making import VERSION, Card, Deck, decks, document, schema
from troth.reports.cards._reading import RULES, Sentence, words

__all__ = [
    "RULES",
    "VERSION",
    "Card",
    "Deck",
    "Sentence",
    "decks",
    "document",
    "schema",
    "words",
]
