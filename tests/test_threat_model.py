"""The page of attacks and defenses names all that there is, with its condition.

The table of laws is read and checked by tests/server/aggregators/test_laws.py.
"""

import inspect
import re
from pathlib import Path

import pytest
from scipy import stats

from troth import lookup
from troth.config.schema import Experiment, Train
from troth.server import rules

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "explanation" / "threat-model.md").read_text("utf-8")


def named(section):
    """First cells of the tables of a section, before its first sub-section."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(\w+)`", text.split("\n### ", 1)[0], re.M)


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        ("What it does to its data", "corruption"),
        ("What it does to its message", "attack"),
        ("Filters", "filter"),
        ("Aggregators", "aggregator"),
    ],
)
def test_every_member_is_on_the_page(section, kind):
    rows, names = named(section), lookup.names(kind)
    missing = [name for name in names if name not in rows]
    assert not missing, (
        f"docs/explanation/threat-model.md has no row for {', '.join(missing)}: add "
        f"one to a table under '## {section}'"
    )
    assert sorted(rows) == names, "a row that is there twice, or of no member"


@pytest.mark.parametrize("name", lookup.names("attack"))
def test_every_attack_states_what_it_knows_and_controls(name):
    doc = " ".join((inspect.getdoc(lookup.find("attack", name)) or "").split())
    assert re.search(r"Threat model: knows .*; controls .*\.", doc), (
        f"the docstring of {name} lacks 'Threat model: knows …; controls ….'"
    )


def test_the_chance_of_more_than_f_in_a_round():
    assert rules.expected(Experiment(train=Train(cohort=10)), 100, 20) == 2
    more = stats.hypergeom(100, 20, 10).sf(2)
    assert f"in {more:.0%}".replace("%", " %") in PAGE.replace("\n", " ")
