"""JSON Schema of the experiment file, for editors.

It is made from code. Sections and keys are the fields of `Experiment`. Members (named
methods, such as the aggregator `median`) and their options come from `lookup`.
Descriptions come from the docstrings of both.
"""

import inspect
import json
import math
import re
import types as pytypes
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import lru_cache
from typing import Any

from troth import lookup
from troth.config import partitioners, reader
from troth.config.schema import Experiment, Part

Schema = dict[str, Any]

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
_OWN = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"  # package.module:function


def json_schema() -> Schema:
    """Return the JSON Schema (draft 7) of an experiment file.

    A section for a member (a named method) may be only its name, or a table with its
    name and options. Earlier names of renamed keys are marked as deprecated.

    Returns:
        The schema, a plain dict that `json.dumps` can write.

    Example:
        >>> from troth.config.json_schema import json_schema
        >>> json_schema()["properties"]["train"]["properties"]["rounds"]["default"]
        100
    """
    definitions: Schema = {}
    properties = _properties(Experiment, definitions)
    properties["grid"] = _grid(properties, definitions)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Experiment of Troth",
        "description": "A federation, how it is trained, attacked and defended.",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "definitions": definitions,
    }


@lru_cache(maxsize=512)
def descriptions(thing: Any) -> dict[str, str]:
    """Return name → description of each argument or attribute in a docstring.

    Line breaks are replaced by spaces.
    """
    text = inspect.getdoc(thing) or ""
    section = re.search(r"\n(?:Args|Attributes):\n(.*?)(?=\n\S|\Z)", text, re.S)
    if section is None:
        return {}
    entries = re.findall(
        r"^    \*{0,2}(\w+):(.*?)(?=^    \S|\Z)", section[1] + "\n", re.M | re.S
    )
    return {name: " ".join(said.split()) for name, said in entries}


def _properties(section: type, definitions: Schema) -> dict[str, Schema]:
    """Return the schema of every key of a section."""
    hints, said = lookup.hints(section), dict[str, str]()
    for base in reversed(section.__mro__):  # base classes describe inherited keys
        said |= descriptions(base)
    return {
        f.name: _key(f, hints[f.name], said.get(f.name, ""), definitions)
        for f in fields(section)
        if f.name not in ("name", "options") or not issubclass(section, Part)
    }


def _key(field: Field[Any], hint: Any, said: str, definitions: Schema) -> Schema:
    """Return the schema of one key: a member, a section or a value."""
    parts = reader.part_types(hint)
    if list[Part] in (hint, *typing.get_args(hint)):
        one = _reference(field, Part, definitions)
        return _about({"anyOf": [one, {"type": "array", "items": one}]}, said)
    if parts:  # draft 7 ignores keys next to a reference
        return _about({"allOf": [_reference(field, parts[0], definitions)]}, said)
    if is_dataclass(hint):
        return {
            "type": "object",
            "description": said,
            "properties": _properties(typing.cast(type, hint), definitions),
            "additionalProperties": False,
        }
    if "kind" in field.metadata:
        names = lookup.names(reader.kind_of(field))
        schema: Schema = {"anyOf": [{"enum": names}, {"pattern": _OWN}]}
    else:
        schema = _type(hint)
    return _about(schema, said, reader.default(field))


def _about(schema: Schema, said: str, default: Any = MISSING) -> Schema:
    """Add a description to a schema, and a default if JSON can represent it."""
    if said:
        schema["description"] = said
    empty = (MISSING, inspect.Parameter.empty, None)
    finite = not isinstance(default, float) or math.isfinite(default)
    if finite and not any(default is nothing for nothing in empty):
        schema["default"] = json.loads(json.dumps(default))
    return schema


def _reference(field: Field[Any], part: type[Part], definitions: Schema) -> Schema:
    """Return a reference to the schema of a kind's members, which occurs only once."""
    key = f"{reader.kind_of(field)} of {part.__name__}"
    if key not in definitions:
        definitions[key] = {}  # ends the recursion: options may name other members
        definitions[key] = _member(field, part, definitions)
    return {"$ref": f"#/definitions/{key}"}


def _member(field: Field[Any], part: type[Part], definitions: Schema) -> Schema:
    """Return the schema of a section for a member: only its name, or a table."""
    kind, common = reader.kind_of(field), _properties(part, definitions)
    default = reader.default_part(field)
    functions = {name: lookup.find(kind, name) for name in lookup.names(kind)}
    tables, bare = [], []
    for name, function in functions.items():
        options = lookup.options(function).values()
        required = [o.name for o in options if o.default is o.empty]
        if not required:
            bare.append(name)
        summary = lookup.about(kind, name).summary
        constant = {"const": name, "description": summary}
        if name == default.get("name"):
            constant["default"] = name
            required = [key for key in required if key not in default]
        else:
            required.insert(0, "name")
        keys = {"name": constant, **_options(function), **common}
        for (section, before), today in reader.RENAMED.items():
            if section == kind and today in keys:  # still accepted, with a warning
                now = {"description": f"Renamed to {today}.", "deprecated": True}
                keys[before] = {**keys[today], **now}
        tables.append(_table(keys, required))
        tables[-1] |= {"title": name, "description": summary}
    if kind in reader.MAY_BE_NONE:
        bare.append("none")
        tables.append(_table({"name": {"const": "none"}, **common}, ["name"]))
    if kind == "partition":
        bare += [k for k, one in partitioners.EQUIVALENTS.items() if not one.needed]
        tables += [_partitioner(k, one) for k, one in partitioners.EQUIVALENTS.items()]
    own = {"name": {"type": "string", "pattern": _OWN}}
    tables.append({**_table(own, ["name"]), "additionalProperties": True})
    names: Schema = {"anyOf": [{"enum": sorted(bare)}, {"pattern": _OWN}]}
    return {
        "description": f"One of: {', '.join(functions)}.",
        "anyOf": [{"type": "string", **names}, *tables],
    }


def _partitioner(name: str, same: partitioners.Equivalent) -> Schema:
    """Return the schema of a partitioner of flwr-datasets."""
    said = f"Partitioner of flwr-datasets: Troth's partition '{same.name}'."
    keys: dict[str, Schema] = {
        "name": {"const": name, "description": said},
        **{key: {"description": f"{same.name}.{v}"} for key, v in same.keys.items()},
        **{
            key: {"const": value, "description": "No other value is available."}
            for key, value in same.same.items()
        },
    }
    table = _table(keys, ["name", *same.needed])
    return table | {"additionalProperties": True, "title": name, "description": said}


def _table(properties: dict[str, Schema], required: list[str]) -> Schema:
    table: Schema = {"type": "object", "properties": properties}
    table |= {"additionalProperties": False}
    return table | ({"required": required} if required else {})


def _options(function: Callable[..., Any]) -> dict[str, Schema]:
    """Return the schema of every option of a member."""
    plain = inspect.unwrap(function)
    said, hints = descriptions(plain), lookup.hints(plain)
    return {
        name: _about(_type(hints.get(name, Any)), said.get(name, ""), option.default)
        for name, option in lookup.options(function).items()
    }


def _type(hint: Any) -> Schema:
    """Return the schema of a Python type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": [*inner]}
    if origin in (typing.Union, pytypes.UnionType):
        options = [_type(one) for one in inner if one is not type(None)]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if (origin or hint) in (list, tuple):
        return {"type": "array", **({"items": _type(inner[0])} if inner else {})}
    if (origin or hint) is dict:
        return {"type": "object"}
    return {"type": _TYPES[hint]} if hint in _TYPES else {}


def _grid(properties: dict[str, Schema], definitions: Schema) -> Schema:
    """Return the schema of `[grid]`, in which every key has a list of values."""
    axes = {key: one for key, one in properties.items() if key != "resolved"}
    for section, schema in properties.items():
        for reference in schema.get("allOf", []):
            schema = definitions[reference["$ref"].rpartition("/")[2]]
        for table in schema.get("anyOf", [schema]):
            for key, value in table.get("properties", {}).items():
                same = axes.setdefault(f"{section}.{key}", {"anyOf": []})["anyOf"]
                bare = {k: v for k, v in value.items() if k != "default"}
                if bare not in same:
                    same.append(bare)
    return {
        "type": "object",
        "description": "Keys to vary, each with a list of values; every combination "
        'is a run. A key is dotted ("train.lr"), a whole section or plain (seed).',
        "properties": {
            key: {"type": ["array", "object"], "items": value, "minItems": 1}
            for key, value in axes.items()
        },
        "additionalProperties": {"type": ["array", "object"]},
    }
