"""From a gradient attack to poisoned examples, each stage trained afresh."""

import json

import numpy as np
import pytest

from troth import files
from troth.poison import chain
from troth.poison.chain import Options
from troth.types import Refusal

TREE = {
    "seed": 1,
    "data": {"name": "digits"},
    "partition": {"name": "iid", "clients": 4},
    "model": {"name": "linear"},
    "train": {"rounds": 40, "batch": 0, "steps": 5, "lr": 0.05},
    "personalizer": {"name": "coupled", "optimizer": "adam"},
    "aggregator": "sum",
    "server": {"name": "sgd", "lr": 1 / 12},
    "adversary": {"count": 1},
    "evaluate": {"every": 1000},
    "engine": {"device": "cpu", "how": "vmap", "chunk": 4},
}
OPTIONS = Options(examples=300)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("chain") / "out"


@pytest.fixture(scope="module")
def found(place):
    return chain.chain(TREE, place, OPTIONS)


@pytest.mark.slow("trains every stage")
def test_every_stage_bends_the_federation(found):
    none, gradient, model, data = found
    assert [row.stage for row in found] == ["none", "gradient", "model", "data"]
    assert none.accuracy > 0.9 and none.aimed < 0.05
    for row in (gradient, model, data):
        assert row.aimed > 0.7 > 0.3 > row.accuracy, row
    assert gradient.distance < 0.01 * gradient.start
    assert model.distance < 0.1 * model.start
    assert all(row.start == none.start for row in found)


def test_what_it_took(found, place):
    *others, data = found
    assert all(row.examples == 0 == row.weight for row in others)
    assert data.examples == 300 and data.largest > 0
    with np.load(place / "poison.npz") as file:
        assert len(file["x"]) == 300
        assert data.largest == float(file["largest_norm"])
    assert data.examples * data.weight > data.needed > 0  # what is enough is more
    resolved = (place / "data" / "experiment.toml").read_text()
    assert f"weight = {data.weight}" in resolved and 'take = "share"' in resolved


def test_again_it_only_reads_and_other_settings_need_another_folder(found, place):
    before = (place / "gradient" / "summary.json").stat().st_mtime_ns
    assert chain.chain(TREE, place, OPTIONS) == found
    assert (place / "gradient" / "summary.json").stat().st_mtime_ns == before
    with pytest.raises(Refusal, match="has an attack chain with other settings"):
        chain.chain(TREE, place, OPTIONS._replace(examples=7))


def test_it_goes_on_where_it_was_stopped(found, tmp_path):
    out, first = tmp_path / "out", OPTIONS._replace(stage="gradient")
    assert chain.chain(TREE, out, first) == found[:2]
    text = json.loads((out / files.CHAIN).read_text())
    text["options"]["stage"] = "model"  # as though it had been stopped there
    (out / files.CHAIN).write_text(json.dumps(text))
    assert chain.chain(TREE, out, OPTIONS._replace(stage="model")) == found[:3]


@pytest.mark.slow("trains eight federations")
def test_an_attacker_that_starts_from_its_model_needs_no_weight(tmp_path):
    """As the authors' does: it is held there by nothing but the steps it takes."""
    options = OPTIONS._replace(weight=1.0, width=50.0, noise=0.01)
    own = chain.chain(TREE, tmp_path / "own", options._replace(start="model"))[-1]
    assert own.weight == 1 and own.needed > 5 * own.examples and own.aimed > 0.7
    assert chain.chain(TREE, tmp_path / "shared", options)[-1].aimed < 0.1


@pytest.mark.parametrize(
    ("sections", "options", "words"),
    [
        ({"personalizer": "ditto"}, {}, "needs personalizer 'coupled'"),
        ({"adversary": {}}, {}, "and an adversary"),
        ({"adversary": {"count": 4}}, {}, "at least one must stay benign"),
        ({}, {"stage": "all"}, "stage = 'all' is not one of 'gradient'"),
        ({}, {"examples": 0}, "examples = 0 must be at least 1"),
        ({}, {"weight": "much"}, "weight = 'much'"),
        ({}, {"examples": 1}, "1 poisoned example is enough for a linear regression"),
        ({"model": {"name": "mlp", "widths": [4]}}, {}, "made for linear models"),
        ({"data": "linear_regression", "partition": "natural"}, {}, "a regression"),
    ],
)
def test_refusals(tmp_path, sections, options, words):
    few = {"train": {**TREE["train"], "rounds": 1}}
    given = {"examples": 50, **options}
    with pytest.raises(Refusal, match=words):
        chain.chain({**TREE, **few, **sections}, tmp_path / "out", Options(**given))


def test_too_few_examples_for_any_weight(tmp_path):
    """The chain ends with results; weight auto was infinite, and was refused."""
    tree = {**TREE, "train": {**TREE["train"], "rounds": 3}}
    seen = []
    found = chain.chain(tree, tmp_path / "out", Options(examples=9), watch=seen.append)
    assert [row.enough for row in found] == [0, 0, 0, np.inf]
    assert found[-1].weight == 1 and found[-1].examples == 9
    assert chain.read(tmp_path / "out") == found
    names = {p.label: (p.run, p.runs) for p in seen}
    assert names == {
        "no attack": (1, 4),
        "stage gradient": (2, 4),
        "stage model": (3, 4),
        "stage data": (4, 4),
    }
    with pytest.raises(Refusal, match="no stage of the attack chain .* has finished"):
        chain.read(tmp_path)
