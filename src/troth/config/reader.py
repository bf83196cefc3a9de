"""Convert the tables of an experiment file to typed objects, and back.

A section of the file is a field of `Experiment`. A member is a named method, such as
the aggregator `median`. A section for a member is a `Part`: its name and its options.
Some sections have further keys, which are fields of a subclass of `Part`. `from_dict`
checks everything that can be checked without data; an unknown key is an error. It fills
in every default, so a run records a complete experiment.
"""

import hashlib
import json
import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from troth import lookup, progress
from troth.config.grid import differences as differences
from troth.config.grid import expand as expand
from troth.config.grid import label as label
from troth.config.grid import override as override
from troth.config.partitioners import translated
from troth.config.schema import Adversary, Experiment, Part
from troth.config.toml import dumps as dumps
from troth.config.toml import parse as parse
from troth.config.toml import read as read
from troth.types import Refusal, Renamed

_ASIDE = ("resolved", "engine", "checkpoint", "output", "track", "deployment", "name")
"""Sections and keys that do not influence the results of a run."""
MAY_BE_NONE = ("corruption", "attack")  # sections in which "none" means no member
RENAMED = {
    ("model", "normalise"): "normalize",
    ("features", "centre"): "center",
    ("aggregator", "neighbours"): "neighbors",
}
"""(section, earlier name of a key) → its present name."""
ADDED: dict[tuple[str, str], dict[str, Any]] = {
    ("data", "classes"): {"classes": 0},
    ("evaluate", "scores"): {"scores": []},
    ("model", "mean"): {"mean": []},
    ("model", "std"): {"std": []},
    ("partition", "assign"): {"name": "classes", "assign": "number"},
    ("partition", "remainder"): {"remainder": "drop"},
    ("partition", "size"): {"name": "classes", "size": 0},
    ("personalizer", "count"): {"count": "batches"},
    ("personalizer", "select"): {"keep": "last"},
}
"""(section, key added since version 0.1.0) → values with which the section gives the
results of 0.1.0. If a section has these values, its key is left out of the hash."""


def from_dict(tree: dict[str, Any]) -> Experiment:
    """Return an experiment from the tables of a file, complete and checked.

    Args:
        tree: the sections. A section that is missing or None has its defaults.

    Raises:
        Refusal: a key is unknown or a value is not valid.
    """
    tree = _plain(lookup.typed("the experiment", tree, dict))
    if "grid" in tree:
        raise Refusal(
            "a [grid] describes several experiments; expand it into single ones, "
            "or leave it out"
        )
    corruption = _table("corruption", tree.get("corruption", "auto"))
    if corruption.get("name", "auto") == "auto":
        adversary = _section(Adversary, "adversary", tree.get("adversary", {}))
        chosen = Experiment(adversary=adversary).corruption.name
        tree["corruption"] = {**corruption, "name": chosen}
    experiment: Experiment = _section(Experiment, "", tree)
    lookup.check("sampler", experiment.train.sampling, {})
    return experiment


def _section(cls: Any, where: str, value: Any) -> Any:
    """Convert a table to an object of the class `cls`; `where` names the section."""
    table = lookup.typed(where, value, dict)
    allowed = [f.name for f in fields(cls)]
    for key in table:
        if key not in allowed:
            place = f"[{where}] has no key" if where else "an experiment has no section"
            here = [one for one in allowed if one != "resolved"]
            here += [] if where else ["grid"]
            raise Refusal(
                f"{place} '{key}'{lookup.nearest(str(key), here)}; "
                f"there are: {', '.join(here)}"
            )
    return cls(**_values(fields(cls), cls, where, table))


def _values(
    wanted: Iterable[Field[Any]], cls: Any, where: str, table: dict[str, Any]
) -> dict[str, Any]:
    """Return field → value, for the fields that a table sets, and for all parts.

    Args:
        wanted: fields to read.
        cls: class of the fields.
        where: section, for error messages.
        table: the table.
    """
    hints = lookup.hints(cls)
    values: dict[str, Any] = {}
    for f in wanted:
        inner, hint = f"{where}.{f.name}".lstrip("."), hints[f.name]
        kinds = part_types(hint)
        if list[Part] in (hint, *typing.get_args(hint)):
            if f.name in table or hint == list[Part]:
                given = table.get(f.name, [])  # one table or name means a list of one
                values[f.name] = [
                    _part(kind_of(f), f"{f.name}[{i}]", item, Part, {})
                    for i, item in enumerate(
                        given if isinstance(given, list) else [given]
                    )
                ]
        elif kinds:
            default = default_part(f)
            if f.name in table or default:
                given = table.get(f.name, {})
                values[f.name] = _part(f.name, inner, given, kinds[0], default)
        elif is_dataclass(hint):
            values[f.name] = _section(hint, inner, table.get(f.name, {}))
        elif f.name in table:
            plain = dict if typing.get_origin(hint) is dict else hint
            values[f.name] = lookup.typed(inner, table[f.name], plain)
    return values


def part_types(hint: Any) -> list[type[Part]]:
    """Return the subclasses of `Part` that the type hint of a field allows."""
    types = (hint, *typing.get_args(hint))
    return [t for t in types if isinstance(t, type) and issubclass(t, Part)]


def kind_of(f: Field[Any]) -> str:
    """Return the kind whose members a field names."""
    return str(f.metadata.get("kind", f.name))


def default(f: Field[Any]) -> Any:
    """Return the default of a field, or `MISSING` if it has none."""
    return f.default if f.default_factory is MISSING else f.default_factory()


def default_part(f: Field[Any]) -> dict[str, Any]:
    """Return the default of a field as a table, or an empty one if it is no part."""
    part = default(f)
    return {"name": part.name, **part.options} if isinstance(part, Part) else {}


def _table(where: str, value: Any) -> dict[str, Any]:
    """Return a section as a table; it may be written as only a name."""
    value = lookup.typed(where, value, str | dict)
    return {"name": value} if isinstance(value, str) else dict(value)


def _part(
    kind: str, where: str, value: Any, cls: type[Part], default: dict[str, Any]
) -> Part:
    """Convert a section for a member to a part: name, all options, further keys.

    Args:
        kind: kind of the member.
        where: section, for error messages.
        value: the section.
        cls: class of the part, whose fields are the further keys.
        default: values of a section without a name.
    """
    table = _table(where, value)
    if "name" not in table:
        table = {**default, **table}
    if "name" not in table:
        raise Refusal(
            f"{where} does not say which {kind}; set its name to one of: "
            f"{', '.join(lookup.names(kind))}"
        )
    name = lookup.typed(f"{where}.name", table.pop("name"), str)
    table = _todays(kind, table)
    if kind == "partition":
        name, table = translated(name, table)
    own = [f for f in fields(cls) if f.name not in ("name", "options")]
    common = _values(own, cls, where, table)
    keys = [f.name for f in own]
    rest = {k: v for k, v in table.items() if k not in keys}
    return cls(name, _options(kind, name, rest, keys), **common)


def _todays(kind: str, table: dict[str, Any]) -> dict[str, Any]:
    """Replace earlier names of keys in a section by present ones, with a warning."""
    for (section, old), new in RENAMED.items():
        if kind == section and old in table:
            if new in table:
                raise Refusal(
                    f"[{kind}] has {old} and {new}, which mean the same; remove {old}"
                )
            progress.warn(
                f"{kind}.{old} is now {kind}.{new}; write the new name", Renamed
            )
            table = {new if key == old else key: v for key, v in table.items()}
    return table


def _options(
    kind: str, name: str, given: dict[str, Any], common: list[str]
) -> dict[str, Any]:
    """Return all options of a member with checked values, including defaults.

    Args:
        kind: kind of the member.
        name: its name.
        given: options that are set.
        common: further keys of the section, for error messages.
    """
    if kind in MAY_BE_NONE and name == "none":
        for key in given:
            raise Refusal(
                f"{kind} 'none' has no option '{key}'; set {kind}.name to the "
                f"{kind} that it belongs to: {', '.join(lookup.names(kind))}"
            )
        return {}
    if lookup.lost(name):
        return dict(given)
    try:
        known = lookup.options(lookup.find(kind, name))
    except Refusal as refusal:
        hint = "; 'none' leaves it out" if kind in MAY_BE_NONE else ""
        raise Refusal(f"{refusal}{hint}") from None
    for key in given:
        hint = lookup.nearest(str(key), common)
        if key not in known and hint and not lookup.nearest(str(key), known):
            raise Refusal(
                f"[{kind}] has no key '{key}'{hint}; in addition to the options of "
                f"'{name}' it takes: {', '.join(common)}"
            )
    full = lookup.check(kind, name, given)
    there = {k: v for k, v in full.items() if v is not None}
    return {**full, **lookup.check(kind, name, there)}


def to_dict(experiment: Experiment) -> dict[str, Any]:
    """Convert an experiment to plain tables, in a fixed order; reverses `from_dict`."""
    tree: dict[str, Any] = _plain(experiment)
    for section in ("track", "resolved"):
        if not tree[section]:
            del tree[section]
    return tree


def _plain(value: Any) -> Any:
    """Convert to plain tables and lists, without None, which TOML cannot represent.

    A key that is None means the same as a missing key.
    """
    if is_dataclass(value):
        own = {f.name: getattr(value, f.name) for f in fields(value)}
        value = own | own.pop("options") if isinstance(value, Part) else own
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value


def fingerprint(experiment: Experiment, data: str = "") -> str:
    """Return twelve hex digits of a hash of all settings that influence results.

    The name, the engine, checkpoints, outputs, trackers and the deployment are not
    hashed. Runs of earlier versions keep their fingerprints: renamed keys are hashed
    with their earlier names (`RENAMED`), and added keys only if they change results
    (`ADDED`).

    Args:
        experiment: all settings.
        data: digest of the user's own data; "" for a data set that comes with Troth.
    """
    tree = {k: v for k, v in to_dict(experiment).items() if k not in _ASIDE}
    for (section, key), same in ADDED.items():
        table = tree[section]
        if ":" not in table.get("name", "") and same.items() <= table.items():
            table.pop(key, None)
    for (section, old), new in RENAMED.items():
        if new in tree.get(section, {}):
            tree[section][old] = tree[section].pop(new)
    text = json.dumps(tree, sort_keys=True, default=str) + data
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def parts(owner: Any) -> Iterator[tuple[str, Part]]:
    """Yield kind and part of every member in an experiment, in the order of fields."""
    for f in fields(owner):
        value = getattr(owner, f.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Part) and not (
                f.name in MAY_BE_NONE and item.name == "none"
            ):
                yield kind_of(f), item
            if is_dataclass(item):
                yield from parts(item)


def citations(experiment: Experiment) -> list[str]:
    """Return the BibTeX entries of all members that an experiment uses, each once.

    A regularizer, or a method that makes adversarial inputs, counts only if the
    personalizer uses it.
    """
    personalizer = lookup.find("personalizer", experiment.personalizer.name)
    idle = {"regularizer", "adversarial"} - lookup.asks(personalizer)
    entries: dict[str, str] = {}
    for kind, part in parts(experiment):
        if kind in idle:
            continue
        for entry in lookup.about(kind, part.name).citations:
            found = re.match(r"@\w+\{\s*([^,\s]+)", entry)
            entries.setdefault(found.group(1) if found else entry, entry)
    return list(entries.values())
