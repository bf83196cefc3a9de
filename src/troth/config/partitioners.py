"""Names of flwr-datasets' partitioners in `[partition]`, and their parameters.

`name = "DirichletPartitioner"` and its parameters are replaced by Troth's partition
with the same meaning, so a run records Troth's names. A parameter without an
equivalent is refused with the sentence that says what to write instead.
"""

from typing import Any, NamedTuple

from troth import lookup
from troth.types import Refusal

_MODES = {"allow-smaller": "smaller", "allow-bigger": "spread", "drop-reminder": "drop"}
_ASSIGN = {
    "random": "random",
    "first-deterministic": "first",
    "deterministic": "number",
}


class Equivalent(NamedTuple):
    """Troth's partition for a partitioner.

    Attributes:
        name: Name of the partition.
        keys: Parameter of the partitioner → option of the partition.
        needed: Parameters without a default.
        options: Options of the partition with the defaults of the partitioner.
        values: Option → the partitioner's words for its values.
        same: Parameter → the value that the partition implies. It may be written, and
            any other value is refused.
        instead: Parameter → what to write in its place.
    """

    name: str
    keys: dict[str, str]
    needed: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    values: dict[str, dict[str, str]] = {}
    same: dict[str, Any] = {}
    instead: dict[str, str] = {}


_CLIENTS = {"num_partitions": "clients"}
_SEED = "the experiment's seed decides: write seed at the top of the experiment"
_LABEL = {"partition_by": "data.label names the column of the labels", "seed": _SEED}
_OWNER = {"partition_by": "data.owner names the column of the owners"}


def _sized(law: str) -> Equivalent:
    options = {"law": law, "min_size": 0}
    return Equivalent("quantity", _CLIENTS, ("num_partitions",), options)


EQUIVALENTS = {
    "IidPartitioner": Equivalent("iid", _CLIENTS, ("num_partitions",)),
    "NaturalIdPartitioner": Equivalent("natural", {}, instead=_OWNER),
    "GroupedNaturalIdPartitioner": Equivalent(
        "identities",
        {"group_size": "per_client", "mode": "remainder"},
        ("group_size",),
        options={"remainder": "smaller"},
        values={"remainder": _MODES},
        same={"sort_unique_ids": False},
        instead=_OWNER,
    ),
    "DirichletPartitioner": Equivalent(
        "dirichlet",
        {**_CLIENTS, "alpha": "alpha", "min_partition_size": "min_size"},
        ("num_partitions", "alpha"),
        same={"self_balancing": False, "shuffle": True},
        instead=_LABEL,
    ),
    "InnerDirichletPartitioner": Equivalent(
        "inner_dirichlet",
        {"partition_sizes": "sizes", "alpha": "alpha"},
        ("partition_sizes", "alpha"),
        same={"shuffle": True},
        instead=_LABEL,
    ),
    "PathologicalPartitioner": Equivalent(
        "classes",
        {
            **_CLIENTS,
            "num_classes_per_partition": "per_client",
            "class_assignment_mode": "assign",
        },
        ("num_partitions", "num_classes_per_partition"),
        options={"assign": "random"},
        values={"assign": _ASSIGN},
        same={"shuffle": True},
        instead=_LABEL,
    ),
    "ShardPartitioner": Equivalent(
        "shard",
        {
            **_CLIENTS,
            "num_shards_per_partition": "per_client",
            "shard_size": "size",
            "keep_incomplete_shard": "incomplete",
        },
        ("num_partitions",),
        options={"per_client": 0},
        same={"shuffle": True},
        instead=_LABEL,
    ),
    "SizePartitioner": Equivalent(
        "fixed_sizes", {"partition_sizes": "sizes"}, ("partition_sizes",)
    ),
    "LinearPartitioner": _sized("linear"),
    "SquarePartitioner": _sized("square"),
    "ExponentialPartitioner": _sized("exponential"),
}
"""Name of a partitioner → Troth's partition."""

_OWN = (
    "write a function that returns the rows of each client, and name it module:function"
)
WITHOUT = {
    "ContinuousPartitioner": "for a regression, 'shard' with per_client = 1 sorts the "
    f"examples by label; for another column, {_OWN}",
    "DistributionPartitioner": f"'classes' gives each client a few classes; {_OWN}",
    "IdToSizeFncPartitioner": "'fixed_sizes' takes the sizes as a list",
    "VerticalEvenPartitioner": "Troth divides examples, and never features",
    "VerticalSizePartitioner": "Troth divides examples, and never features",
}
"""Name of a partitioner without an equivalent → what to write instead."""


def translated(name: str, table: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Replace a partitioner of flwr-datasets and its parameters by Troth's partition.

    Args:
        name: Name of a partition; any other name than a partitioner's is returned as
            it is.
        table: The other keys of `[partition]`. Keys that are no parameters of the
            partitioner, such as `split`, are kept.

    Example:
        >>> translated("IidPartitioner", {"num_partitions": 10, "min_examples": 5})
        ('iid', {'min_examples': 5, 'clients': 10})
    """
    if name in WITHOUT:
        raise Refusal(f"Troth has no partition like '{name}': {WITHOUT[name]}")
    if name.endswith("Partitioner") and ":" not in name and name not in EQUIVALENTS:
        raise Refusal(
            f"there is no partition '{name}'{lookup.nearest(name, EQUIVALENTS)}; of "
            f"flwr-datasets' partitioners Troth has {', '.join(EQUIVALENTS)}"
        )
    if name not in EQUIVALENTS:
        return name, table
    same = EQUIVALENTS[name]
    _check(name, same, table)
    new = {k: v for k, v in table.items() if k not in {**same.keys, **same.same}}
    for key, option in same.keys.items():
        if key in table and option != key and option in new:
            raise Refusal(
                f"partition.{key} and partition.{option} mean the same; remove one"
            )
        if key in table:
            words = same.values.get(option)
            new[option] = words[table[key]] if words else table[key]
    return same.name, {**same.options, **new}


def _check(name: str, same: Equivalent, table: dict[str, Any]) -> None:
    """Refuse parameters that are missing, or have no equivalent."""
    for key, value in table.items():
        if key in same.instead:
            raise Refusal(f"remove partition.{key}: {same.instead[key]}")
        if key in same.same and value != same.same[key]:
            raise Refusal(
                f"partition.{key} = {value!r} is not available: '{name}' is Troth's "
                f"partition '{same.name}', which corresponds to {key} = "
                f"{same.same[key]!r}"
            )
        words = same.values.get(same.keys.get(key, ""))
        if words and not (isinstance(value, str) and value in words):
            raise Refusal(
                f"partition.{key} = {value!r} is not one of "
                f"{', '.join(map(repr, words))}"
                f"{lookup.nearest(str(value), words)}"
            )
    for key in same.needed:
        if key not in table and same.keys[key] not in table:
            raise Refusal(
                f"partition '{name}' needs the parameter '{key}': set "
                f"partition.{key} = …"
            )
