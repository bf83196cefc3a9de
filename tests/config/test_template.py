"""A new experiment file is one that trains, and shows every key."""

import re
import tomllib

import pytest

from troth import lookup
from troth.config import reader
from troth.config.template import template
from troth.types import Refusal

NAMES = {
    "data": "digits",
    "partition": "dirichlet",
    "model": "mlp",
    "personalizer": "ditto",
    "attack": "none",
    "aggregator": "mean",
}


def written(settings=(), full=False, **names):
    return tomllib.loads(template({**NAMES, **names}, [*settings], full))


@pytest.mark.parametrize("full", [False, True])
def test_every_member_makes_a_sound_file(full):
    for kind in NAMES:
        for name in lookup.names(kind):
            found = reader.from_dict(written(full=full, **{kind: name}))
            assert getattr(found, kind).name == name


def test_keys_behind_a_hash_are_the_defaults():
    text = template(NAMES, [], True)
    commented = re.sub(r"^#(\w+ = (?! ))", r"\1", text, flags=re.M)
    assert commented.count("\n#") < text.count("\n#") / 2
    every, live = tomllib.loads(commented), tomllib.loads(text)
    assert len(every["train"]) > len(live["train"]) > 3
    assert reader.from_dict(every) == reader.from_dict(live)


def test_settings_stand_in_the_file_and_an_attack_brings_attackers():
    settings = ["train.rounds=7", "train.optimizer.name=adam", 'filter=["clip"]']
    found = written(settings, attack="ipm")
    assert found["filter"] == [{"name": "clip"}]
    assert found["train"]["rounds"] == 7
    assert found["train"]["optimizer"] == {"name": "adam"}
    assert found["adversary"] == {"fraction": 0.2}


def test_a_kind_with_one_member_offers_no_other():
    assert not re.search(r"# or$", template(NAMES, [], True), re.M)


def test_what_is_wrong_is_refused():
    with pytest.raises(Refusal, match="did you mean 'ditto'"):
        written(personalizer="dito")
    with pytest.raises(Refusal, match=r"train\.rounds"):
        written(["train.rounds=0"])
