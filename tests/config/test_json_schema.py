"""The schema for editors knows what the reader knows."""

import copy
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest

from troth import lookup
from troth.config import reader
from troth.config.json_schema import descriptions, json_schema
from troth.config.partitioners import EQUIVALENTS
from troth.config.schema import Experiment

ROOT = Path(__file__).parents[2]
OTHERS = ("pyproject.toml", "sentences.toml")  # no experiments


@pytest.fixture(scope="module")
def schema():
    return json_schema()


@pytest.fixture(scope="module")
def wrong(schema):
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    return lambda tree: [error.message for error in validator.iter_errors(tree)]


def test_every_experiment_of_the_repository_is_valid(wrong):
    files = [f for f in ROOT.glob("*/**/*.toml") if f.name not in OTHERS]
    files = [f for f in files if not f.relative_to(ROOT).parts[0].startswith(".")]
    texts = {str(f): f.read_text("utf-8") for f in files}
    for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]:
        blocks = re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.S)
        texts |= {f"{page} {i}": block for i, block in enumerate(blocks)}
    found = {where: wrong(tomllib.loads(text)) for where, text in texts.items()}
    assert len(found) > 30
    assert not {where: errors for where, errors in found.items() if errors}


@pytest.mark.parametrize(
    "tree",
    [
        {"sed": 1},
        {"seed": "one"},
        {"train": {"round": 3}},
        {"train": {"rounds": 1.5}},
        {"train": {"precision": "float16"}},
        {"train": {"sampling": "unifrom"}},
        {"aggregator": "meen"},
        {"aggregator": {"name": "mean", "f": 1}},
        {"personalizer": {"name": "ditto", "lam": "large"}},
        {"partition": "iid"},  # needs the number of clients
        {"partition": {"name": "dirichlet"}},
        {"filter": [{"name": "klip"}]},
        {"grid": {"seed": []}},
        {"grid": {"train.lr": ["fast"]}},
        {"grid": {"personalizer": ["dito"]}},
        {"partition": {"name": "LinearPartitioner"}},
    ],
)
def test_what_the_reader_refuses_is_not_valid(wrong, tree):
    assert wrong(tree)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"partition": {"clients": 3}},  # of the default partition
        {"partition": "NaturalIdPartitioner"},
        {"partition": {"name": "LinearPartitioner", "num_partitions": 3, "valid": 0}},
        {"attack": "none"},
        {"filter": ["clip", {"name": "nnm"}]},
        {"filter": "clip"},
        {"aggregator": {"name": "my_rules:trimmed", "trim": 2}},
        {"model": {"name": "mlp", "normalise": "pixel"}},  # the name of before
        {"grid": {"train": {"lr": [0.1, 1]}, "aggregator.f": [1, "auto"]}},
    ],
)
def test_what_the_reader_takes_is_valid(wrong, tree):
    assert not wrong(tree)


def test_every_resolved_experiment_is_valid(wrong):
    for kind, name in (("personalizer", "ditto"), ("aggregator", "krum")):
        experiment = reader.from_dict({kind: name})
        assert not wrong(reader.to_dict(experiment))


def test_every_key_is_described_with_the_default_of_the_reader(schema):
    sections = {
        name: one for name, one in schema["properties"].items() if name != "grid"
    }
    assert [*sections] == [f.name for f in fields(Experiment)]
    tables = [sections[name] for name in sections if "properties" in sections[name]]
    tables += [t for d in schema["definitions"].values() for t in d["anyOf"]]
    keys = [item for t in tables for item in t.get("properties", {}).items()]
    lacking = [key for key, one in keys if key != "name" and "description" not in one]
    assert len(keys) > 200 and not lacking
    default = reader.to_dict(Experiment())["train"]
    keys = sections["train"]["properties"].items()
    shown = {key: value["default"] for key, value in keys if "default" in value}
    assert len(shown) > 10 and shown == {k: default[k] for k in shown} | {"epochs": 0}


def test_every_member_and_option_is_there(schema):
    for kind in set(lookup.FOLDERS) & set(schema["properties"]):
        (found,) = [
            d for k, d in schema["definitions"].items() if k.startswith(f"{kind} of")
        ]
        tables = {t["title"]: t["properties"] for t in found["anyOf"] if "title" in t}
        others = EQUIVALENTS if kind == "partition" else {}
        assert sorted(tables) == sorted([*lookup.names(kind), *others])
        for name in lookup.names(kind):
            assert {*lookup.options(lookup.find(kind, name))} <= {*tables[name]}


def test_descriptions_are_read_over_several_lines():
    def function(a, *, b=1):
        """Do it.

        Args:
            a: the first,
                on two lines.
            b: the second.

        Returns:
            Nothing.
        """

    before = copy.copy(descriptions(function))
    assert before == {"a": "the first, on two lines.", "b": "the second."}
