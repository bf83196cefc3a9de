"""Trust cards: what the files of runs say about every client's model, in sentences.

`document` returns the cards as JSON; `schema.json` describes their format. A sentence
is a rule (`_rules.RULES`) with its values.
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
