"""A new experiment file with an explanation of every key, made from the schema.

Keys that are set are written with their values. All other keys are comments with their
defaults. A member is a named method of a kind, such as the aggregator `median`.
"""

import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import Field, fields, is_dataclass
from typing import Any, Literal

from troth import lookup
from troth.config import grid, reader, toml
from troth.config.json_schema import descriptions
from troth.config.schema import Experiment, Part

_WIDTH, _COLUMN = 100, 32
_START: dict[str, Any] = {
    "seed": 0,
    "train": {"rounds": 100, "cohort": 10, "batch": 16, "lr": 0.1},
    "personalizer": {},
    "adversary": {"fraction": 0.0},
}
"""Keys that a new file sets in addition to the names of members."""

_NEEDED: dict[str, Any] = {
    "clients": 20,
    "sizes": [100, 50],
    "label": "label",
    "every": 30,
    "target": "target.npy",
}
"""Values for options without a default, except `path`."""

_PATHS = {"table": "data.parquet", "image_folder": "images", "leaf": "leaf"}
"""Member → value of its option `path`. For members not listed, it is "kind.member"."""

_HEAD = """\
# An experiment of Troth. Train it with:  troth run FILE
# Estimate its cost, without training:    troth run FILE --dry-run
# A key behind a # shows its default value.
"""
_GRID = """
# Every combination of these values is a separate run:
# [grid]
# personalizer = ["none", "local", { name = "ditto", lam = 0.1 }]
# seed = [0, 1, 2]
"""


def template(names: dict[str, str], settings: list[str], full: bool = False) -> str:
    """Return the text of an experiment file in which every key is explained.

    Args:
        names: section → name of its member, such as {"model": "mlp"}.
        settings: further keys in the form of `--set`, such as "train.rounds=20".
        full: whether to write all sections; otherwise only the common ones.
    """
    tree = {**_START, **{kind: _chosen(kind, name) for kind, name in names.items()}}
    if names.get("attack", "none") != "none":
        tree["adversary"] = {"fraction": 0.2}
    tree = grid.override(tree, settings)
    reader.from_dict(tree)
    blocks = [_HEAD]
    for field in fields(Experiment):
        if field.name in tree or (full and field.name not in ("resolved", "name")):
            blocks.append("\n".join(_section(field, tree.get(field.name, {}))) + "\n")
    return "\n".join(blocks) + _GRID


def _chosen(kind: str, name: str) -> dict[str, Any]:
    """Return a section for a member, with values of all options without a default."""
    if name == "none" and kind in reader.MAY_BE_NONE:
        return {"name": name}
    known = lookup.options(lookup.find(kind, name)).values()
    path = _PATHS.get(name, f"{kind}.{name}")
    needed = [o.name for o in known if o.default is o.empty]
    return {"name": name} | {key: _NEEDED.get(key, path) for key in needed}


def _section(field: Field[Any], given: Any) -> Iterator[str]:
    """Yield the lines of one section, or of one key outside sections."""
    said = descriptions(Experiment)[field.name]
    default = reader.default(field)
    if not is_dataclass(default) and not isinstance(default, list):
        yield _line(field.name, {field.name: given}, default, said)
        return
    yield f"# {said}"
    if isinstance(default, list):
        yield from _several(field, given or [])
        return
    yield f"[{field.name}]"
    if isinstance(default, Part):
        yield from _member(field.name, given.get("name", default.name), given)
    yield from _keys(default, given)


def _several(field: Field[Any], given: str | list[Any]) -> Iterator[str]:
    """Yield the lines of a section that may occur any number of times."""
    chosen = [given] if isinstance(given, str) else given
    tables = [{"name": one} if isinstance(one, str) else one for one in chosen]
    names = lookup.names(reader.kind_of(field))
    yield f"# Any of {', '.join(names)}; each is a table:"
    yield f'# [[{field.name}]]\n# name = "{names[0]}"'
    if tables:
        yield toml.dumps({field.name: tables}).strip()


def _member(kind: str, name: str, given: dict[str, Any]) -> Iterator[str]:
    """Yield a line for a member's name and for each of its options."""
    others = [n for n in lookup.names(kind) if n != name]
    said = f"or {', '.join(others)}" if others else ""
    yield _line("name", {"name": name}, name, said)
    if name == "none" and kind in reader.MAY_BE_NONE:
        return
    function = inspect.unwrap(lookup.find(kind, name))
    texts, hints = descriptions(function), lookup.hints(function)
    for key, option in lookup.options(function).items():
        yield _line(key, given, option.default, texts.get(key, ""), hints.get(key))


def _keys(section: Any, given: dict[str, Any]) -> Iterator[str]:
    """Yield a line for every key of a section's class."""
    kind: Any = type(section)
    said, hints = descriptions(kind), lookup.hints(kind)
    for field in fields(section):
        if field.name not in ("name", "options") or not isinstance(section, Part):
            default = getattr(section, field.name)
            default = default.name if isinstance(default, Part) else default
            text, hint = said[field.name], hints[field.name]
            yield _line(field.name, given, default, text, hint)


def _line(
    key: str, given: dict[str, Any], default: Any, said: str, hint: Any = None
) -> str:
    """Return the lines of a key with its description.

    If the key is not set, the line is a comment.

    Args:
        key: name of the key.
        given: keys that are set.
        default: default of the key.
        said: description of the key.
        hint: type of the key, whose choices are added to the description.
    """
    value = given.get(key, default)
    text = f"{key} = {toml.inline(value)}" if value is not None else f"{key} ="
    text = text if key in given else f"#{text}"
    said = re.split(r"(?<=[^.])\.(?: |$)", said)[0]  # only the first sentence
    choices = [c for c in typing.get_args(hint) if typing.get_origin(hint) is Literal]
    if any(f"{choice}" not in said for choice in choices):
        said += f": {', '.join(map(repr, choices))}"
    first, *rest = textwrap.wrap(said, _WIDTH - _COLUMN - 2) or [""]
    lines = [f"{text} ".ljust(_COLUMN) + f"# {first}"] if said else [text]
    return "\n".join([*lines, *(f"{'':<{_COLUMN}}# {more}" for more in rest)])
