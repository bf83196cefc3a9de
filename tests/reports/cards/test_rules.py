"""Every sentence that can be said: well formed, and no adjective without a number."""

import re

from troth.reports.cards._reading import ABOUT, words
from troth.reports.cards._reading import RULES as EVERY

ADJECTIVES = re.compile(
    r"\b(good|bad|best|worst|better|worse|high|highest|higher|low|lowest|lower|large"
    r"|larger|small|smaller|strong|weak|safe|unsafe|robust|accurate|poor|great|few|fewer"
    r"|many|most|least|ahead|first|more|less|fair|unfair)\b"
)


def test_sentences_are_well_formed():
    """A command stands at the end, after a colon, so that all of it is copied."""
    for rule, text in EVERY.items():
        bare = [
            sentence
            for sentence in re.split(r"(?<=[.;])\s", text)
            if ADJECTIVES.search(sentence) and not re.search(r"\d", sentence)
        ]
        assert not bare, "an adjective without a number"
        found = {int(k) for k in re.findall(r"\{(\d+)\}", text)}
        assert found == {*range(len(found))}, rule
        assert not re.search(r"\b(get|do|try|have) (it|one|them) by\b", text)
        assert "differs from" not in text and "by: {" not in text


def test_every_rule_is_about_something():
    assert {rule.split(".")[0] for rule in EVERY} == {*ABOUT, "page"}


def test_values_are_put_in_once_and_as_they_are():
    said = ("gain.local", "{1}", "<b>\\1", "{0}")
    assert (
        words(said) == "{1} compared with training alone (<b>\\1), which has {0} here."
    )
