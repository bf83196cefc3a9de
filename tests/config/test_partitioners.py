"""The names of flwr-datasets give Troth's partitions, or a sentence."""

import ast
import inspect
import pathlib
import re
import tomllib

import numpy as np
import pytest

from troth import lookup
from troth.config import partitioners
from troth.config.grid import expand
from troth.config.reader import from_dict, to_dict
from troth.types import Arrays

FORMS = {
    "IidPartitioner": ({"num_partitions": 8}, {"name": "iid", "clients": 8}),
    "NaturalIdPartitioner": ({}, {"name": "natural"}),
    "GroupedNaturalIdPartitioner": (
        {"group_size": 5},
        {"name": "identities", "per_client": 5, "remainder": "smaller"},
    ),
    "DirichletPartitioner": (
        {"num_partitions": 8, "alpha": 0.3, "min_partition_size": 3, "shuffle": True},
        {"name": "dirichlet", "clients": 8, "alpha": 0.3, "min_size": 3},
    ),
    "InnerDirichletPartitioner": (
        {"partition_sizes": [50] * 8, "alpha": 1},
        {"name": "inner_dirichlet", "sizes": [50] * 8, "alpha": 1.0},
    ),
    "PathologicalPartitioner": (
        {"num_partitions": 8, "num_classes_per_partition": 2},
        {"name": "classes", "clients": 8, "per_client": 2, "assign": "random"},
    ),
    "ShardPartitioner": (
        {"num_partitions": 8, "num_shards_per_partition": 2},
        {"name": "shard", "clients": 8, "per_client": 2, "size": 0},
    ),
    "SizePartitioner": (
        {"partition_sizes": [9, 50, 3]},
        {"name": "fixed_sizes", "sizes": [9, 50, 3]},
    ),
    "LinearPartitioner": (
        {"num_partitions": 8},
        {"name": "quantity", "clients": 8, "law": "linear", "min_size": 0},
    ),
    "SquarePartitioner": ({"num_partitions": 8}, {"law": "square", "min_size": 0}),
    "ExponentialPartitioner": ({"num_partitions": 8}, {"law": "exponential"}),
}


def resolved(partition):
    return to_dict(from_dict({"data": "digits", "partition": partition}))["partition"]


@pytest.mark.parametrize("name", partitioners.EQUIVALENTS)
def test_a_partitioner_is_ours(name):
    """A run records Troth's names, and further keys of the section are kept."""
    given, expected = FORMS[name]
    part = resolved({"name": name, "min_examples": 4, **given})
    assert expected.items() <= part.items() and part["min_examples"] == 4
    options = lookup.options(lookup.find("partition", part["name"]))
    assert {*partitioners.EQUIVALENTS[name].keys.values()} <= {*options}


def test_a_bare_name_and_other_names():
    assert resolved("NaturalIdPartitioner")["name"] == "natural"
    table = {"clients": 3}
    assert partitioners.translated("iid", table) == ("iid", table)


def test_words_of_values():
    for mode, remainder in partitioners._MODES.items():
        table = {"name": "GroupedNaturalIdPartitioner", "group_size": 2, "mode": mode}
        assert resolved(table)["remainder"] == remainder
    for mode, assign in partitioners._ASSIGN.items():
        table = {"name": "PathologicalPartitioner", "num_partitions": 3}
        table |= {"num_classes_per_partition": 2, "class_assignment_mode": mode}
        assert resolved(table)["assign"] == assign


def dealt(name, given, m=1001):
    part = resolved({"name": name, **given})
    function = lookup.find("partition", part["name"])
    options = {k: part[k] for k in lookup.options(function)}
    y, owner = np.arange(m) % 10, np.arange(m) % 23
    arrays = Arrays(np.zeros((m, 1), np.float32), y, 10, owner=owner)
    return arrays, lookup.call(function, options, arrays=arrays, seed=0)


def test_sizes_are_those_of_flwr_datasets():
    """Units 1 … n, n² or eⁿ; theirs rounds down and gives the rest to the last client.

    No size differs by more than that remainder, which is below the number of clients.
    """
    k = np.arange(1, 9)
    laws = {"Linear": k, "Square": k**2, "Exponential": np.exp(k)}
    for law, units in laws.items():
        _, lists = dealt(f"{law}Partitioner", {"num_partitions": 8})
        sizes = np.array([len(x) for x in lists])
        theirs = (units / units.sum() * 1001).astype(int)
        assert ((sizes - theirs >= 0) & (sizes - theirs <= 1)).all()
        assert sizes.sum() == 1001


def test_groups_of_owners():
    """23 owners in groups of 5."""
    for mode, counts in (
        ("allow-smaller", [5, 5, 5, 5, 3]),
        ("allow-bigger", [6, 6, 6, 5]),
        ("drop-reminder", [5, 5, 5, 5]),
    ):
        given = {"group_size": 5, "mode": mode}
        arrays, lists = dealt("GroupedNaturalIdPartitioner", given)
        assert [len(np.unique(arrays.owner[x])) for x in lists] == counts


def test_pathological_clients_have_their_number_of_classes():
    for mode in partitioners._ASSIGN:
        given = {"num_partitions": 30, "num_classes_per_partition": 3}
        given["class_assignment_mode"] = mode
        arrays, lists = dealt("PathologicalPartitioner", given)
        assert [len(np.unique(arrays.y[x])) for x in lists] == [3] * 30


@pytest.mark.parametrize(
    "part, words",
    [
        ({"name": "VerticalSizePartitioner"}, "no partition like .* never features"),
        ({"name": "DistributionPartitioner"}, "'classes' gives .* module:function"),
        ({"name": "SharPartitioner"}, "did you mean 'ShardPartitioner'.*Troth has Iid"),
        ({"name": "IidPartitioner"}, "needs the parameter 'num_partitions': set"),
        (
            {"name": "IidPartitioner", "num_partitions": 3, "clients": 4},
            "num_partitions and partition.clients mean the same; remove one",
        ),
        (
            {"name": "NaturalIdPartitioner", "partition_by": "site"},
            "remove partition.partition_by: data.owner names the column of the owners",
        ),
        (
            {"name": "ShardPartitioner", "num_partitions": 3, "seed": 1},
            "remove partition.seed: the experiment's seed decides: write seed at",
        ),
        (
            {
                "name": "DirichletPartitioner",
                "num_partitions": 3,
                "alpha": 1,
                "self_balancing": True,
            },
            "self_balancing = True is not available: .* self_balancing = False",
        ),
        (
            {"name": "DirichletPartitioner", "num_partitions": 3, "alpha": [1.0, 2.0]},
            "alpha = .* is a list; it must be a number",
        ),
        (
            {"name": "GroupedNaturalIdPartitioner", "group_size": 3, "mode": "strict"},
            "mode = 'strict' is not one of 'allow-smaller', 'allow-bigger', 'drop-rem",
        ),
        (
            {"name": "GroupedNaturalIdPartitioner", "group_size": 3, "mode": ["a"]},
            "mode = .'a'. is not one of",
        ),
        (
            {"name": "IidPartitioner", "num_partitons": 3},
            "needs the parameter 'num_partitions'",
        ),
        (
            {"name": "IidPartitioner", "num_partitions": 3, "shufle": True},
            "partition 'iid' has no option 'shufle'",
        ),
    ],
)
def test_refuses(refuses, part, words):
    refuses(words, resolved, part)


def test_a_grid_may_name_them():
    tree = {"data": "digits", "partition": {"name": "IidPartitioner"}}
    grid = {"partition.num_partitions": [2, 4]}
    runs = [from_dict(t).partition for _, t in expand({**tree, "grid": grid})]
    assert [r.options["clients"] for r in runs] == [2, 4]


def test_their_parameters_are_all_known():
    """The parameters as the documentation of flwr-datasets prints them."""
    theirs = {
        "IidPartitioner": "num_partitions",
        "NaturalIdPartitioner": "partition_by",
        "GroupedNaturalIdPartitioner": "partition_by group_size mode sort_unique_ids",
        "DirichletPartitioner": "num_partitions partition_by alpha min_partition_size "
        "self_balancing shuffle seed",
        "InnerDirichletPartitioner": "partition_sizes partition_by alpha shuffle seed",
        "PathologicalPartitioner": "num_partitions partition_by shuffle seed "
        "num_classes_per_partition class_assignment_mode",
        "ShardPartitioner": "num_partitions partition_by num_shards_per_partition "
        "shard_size keep_incomplete_shard shuffle seed",
        "SizePartitioner": "partition_sizes",
        "LinearPartitioner": "num_partitions",
        "SquarePartitioner": "num_partitions",
        "ExponentialPartitioner": "num_partitions",
    }
    assert theirs.keys() == partitioners.EQUIVALENTS.keys()
    for name, parameters in theirs.items():
        one = partitioners.EQUIVALENTS[name]
        assert {*parameters.split()} == {*one.keys, *one.same, *one.instead}, name
    try:
        from flwr_datasets import partitioner as installed
    except ImportError:
        return
    for name, parameters in theirs.items():
        real = inspect.signature(getattr(installed, name)).parameters
        assert {*real} == {*parameters.split()}, name


def test_the_table_of_the_guide_is_true():
    """Both columns of a row give the same partition, and every name has a row."""
    root = pathlib.Path(__file__).parents[2]
    page = (root / "docs" / "how-to" / "own-data.md").read_text("utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if "Partitioner" in line]
    rows = [row for row in rows if row[0].startswith("| `")]
    named = []
    for theirs, ours, *_ in rows:
        for code in re.findall("`([^`]+)`", theirs):
            named.append(code.partition("(")[0])
            if ours == "–":
                assert code in partitioners.WITHOUT
                continue
            call = ast.parse(code, mode="eval").body
            given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
            toml = tomllib.loads("\n".join(re.findall("`([^`]+)`", ours)))
            assert resolved({"name": call.func.id, **given}) == resolved(toml)
    assert sorted(named) == sorted([*partitioners.EQUIVALENTS, *partitioners.WITHOUT])
