"""The sentences of the report, from `sentences.toml`: rules with places for values."""

import re
import tomllib
from importlib import resources

Sentence = tuple[str, ...]
"""The name of a rule, and its values as text."""

ABOUT = {
    "choice": "Which model to use",
    "served": "Performance",
    "gain": "Gain",
    "lam": "Closeness to the shared model",
    "certificate": "Certificates",
    "shortcuts": "Shortcuts",
    "poisoning": "Poisoning",
    "data": "Data",
    "rounds": "Participation",
    "provenance": "Origin",
}
"""Headings of a card, in their order."""

_FILE = resources.files("troth.reports.cards").joinpath("sentences.toml")
RULES = {
    f"{about}.{rule}": text
    for about, rules in tomllib.loads(_FILE.read_text("utf-8")).items()
    for rule, text in rules.items()
}
"""Rule → sentence; rules about `page` belong to the summary."""


def words(sentence: Sentence) -> str:
    """Write the sentence of a rule and its values."""
    return re.sub(r"\{(\d+)\}", lambda at: sentence[1 + int(at[1])], RULES[sentence[0]])
