"""A trust card for every client: what the files say of its model, in sentences.

`document` gives the cards of some runs as JSON knows them; `schema.json`, beside this
file, says what stands where. A sentence is a rule (`_rules.RULES`) and its values;
nothing else is ever said.
"""

from troth.reports.cards._making import VERSION, Card, Deck, decks, document, schema
from troth.reports.cards._rules import RULES, Said, words

__all__ = [
    "RULES",
    "VERSION",
    "Card",
    "Deck",
    "Said",
    "decks",
    "document",
    "schema",
    "words",
]
