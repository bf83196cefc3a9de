"""Every sentence of the report: a rule, and places for its values.

`sentences.toml` has them. The part of a rule's name before the dot is what the sentence
is about. No adjective stands without a number.
"""

import re
import tomllib
from importlib import resources

Said = tuple[str, ...]
"""The name of a rule, and its values as they are to be read."""

ABOUT = {
    "choice": "Which model to use",
    "served": "How well it is served",
    "gain": "What that gains",
    "lam": "How near the shared model it stays",
    "certificate": "What is proven",
    "shortcuts": "What it relies on",
    "poisoning": "Poisoning",
    "data": "What it rests on",
    "rounds": "How it took part",
    "provenance": "Where it comes from",
}
"""What sentences are about, in the order of a card."""

_FILE = resources.files("troth.reports.cards").joinpath("sentences.toml")
RULES = {
    f"{about}.{rule}": text
    for about, rules in tomllib.loads(_FILE.read_text("utf-8")).items()
    for rule, text in rules.items()
}
"""Rule → its sentence; rules about `page` are those of the summary in words."""


def words(said: Said) -> str:
    """The sentence that a rule makes of its values."""
    return re.sub(r"\{(\d+)\}", lambda at: said[1 + int(at[1])], RULES[said[0]])
