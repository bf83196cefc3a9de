import warnings

import pytest

import troth
from troth.config import effects, reader
from troth.types import Notice

CSV = {"name": "csv", "path": "a.csv", "label": "y", "owner": "hospital"}


def said(**tree):
    return effects.without(reader.from_dict(tree))


@pytest.mark.parametrize("kind", ["attack", "corruption"])
def test_an_attack_without_an_adversary(kind):
    name = {"attack": "alie", "corruption": "flip_labels"}[kind]
    [text] = said(**{kind: name})
    assert text.startswith(f"{kind} '{name}' has no effect") and "fraction" in text
    assert said(**{kind: name}, adversary={"fraction": 0.2}) == []
    assert said() == [] and said(adversary={"count": 1}) == []


def test_owners_that_the_partition_ignores():
    [text] = said(data=CSV, partition={"name": "iid", "clients": 3})
    assert "partition 'iid' ignores owners" in text and "'natural'" in text
    by_owner = {"name": "iid", "clients": 3, "split_by": "owner"}
    for partition in ("natural", by_owner):
        assert said(data=CSV, partition=partition) == []


def test_a_grid_counts_its_runs():
    tree = {"partition": {"clients": 4}, "attack": "sign_flip"}
    tree["grid"] = {"adversary.fraction": [0.0, 0.2]}
    with pytest.warns(Notice, match="in 1 of 2 runs, attack 'sign_flip' has no effect"):
        troth.cost(tree)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        troth.cost({"partition": {"clients": 4}})
