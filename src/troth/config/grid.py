"""Changes to an experiment: by `--set`, by `[grid]`, and differences between two.

An experiment is a plain dict of tables here, before `troth.config.reader` checks it. An
axis is a key of the grid with its list of values.
"""

import copy
import hashlib
import itertools
import math
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from troth import lookup
from troth.config import toml
from troth.types import Refusal

MOST = 10_000
"""Largest number of runs in one grid."""

_LONGEST = 100  # largest number of characters in a label
_EITHER = {"steps": "epochs", "epochs": "steps"}  # keys that exclude each other


def override(tree: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """Copy `tree` and apply every assignment `section.key=value`, in order.

    A value is read as TOML (`0.1`, `true`, `[1, 2]`, `"text"`), or as a text if it is
    not valid TOML. An assignment `section=name` replaces a whole section. Keys that
    have no meaning after an assignment are removed, unless they are assigned too (see
    `_make_room`). If the grid has an axis with the assigned key, the axis is removed.

    Raises:
        Refusal: an assignment is not of this form, or changes a section that an axis of
            the grid replaces as a whole.
    """
    changes = []
    for assignment in assignments:
        dotted, equals, value = assignment.partition("=")
        path = _path(dotted)
        if not equals or not path or not toml.is_unicode(assignment):
            raise Refusal(
                f"--set {assignment!r} is not of the form section.key=value; "
                "write for example train.rounds=100"
            )
        changes.append((path, _value(value.strip())))
    return _changed(_without_lost(tree, changes), changes)


def _without_lost(tree: dict[str, Any], changes: list["Change"]) -> dict[str, Any]:
    """Copy `tree` without what the changes replace, so that no key is set twice.

    A change of a key removes the axis with this key. A change of an axis removes the
    value outside the grid. Raise Refusal for a change inside a section that an axis
    replaces as a whole.
    """
    tree = copy.deepcopy(tree)
    for path, value in changes:
        new: dict[str, Any] = {}
        assign(new, path, _named(value) if len(path) == 1 else value)
        if path[0] == "grid":
            for axis, _ in _leaves(_table(new["grid"]), []):
                _remove(tree, axis)
            continue
        grid = _table(tree.get("grid"))
        for axis, _ in [*_leaves(grid, [])]:
            below = len(path) > len(axis) and path[: len(axis)] == axis
            if path == [*axis, "name"] or (_at(new, axis) is not None and not below):
                _remove(grid, axis)
            elif below:
                dotted, whole = ".".join(path), ".".join(axis)
                raise Refusal(
                    f"--set {dotted} would be lost: the grid replaces {whole} as a "
                    f"whole; change the axis by --set 'grid.{whole}=[…]', or choose "
                    f"one by --set {whole}.name=NAME"
                )
        if "grid" in tree and not grid:
            del tree["grid"]
    return tree


def _named(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _at(tree: Any, path: list[str]) -> Any:
    """Return the value at a path, or None if there is none."""
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _remove(table: dict[str, Any], path: list[str]) -> None:
    """Remove the value at a path, and then empty tables; keys may be dotted."""
    for name, value in [*table.items()]:
        here = _path(name)
        if here == path:
            del table[name]
        elif isinstance(value, dict) and here == path[: len(here)]:
            _remove(value, path[len(here) :])
            if not value:
                del table[name]


Change = tuple[list[str], Any]
"""The path of a key, and its new value."""


def _changed(tree: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """Copy `tree` and apply all changes, in order."""
    tree = copy.deepcopy(tree)
    paths = [path for path, _ in changes]
    for path, value in changes:
        _make_room(tree, path, value, paths)
        assign(tree, path, value)
    return tree


def _make_room(
    tree: dict[str, Any], path: list[str], value: Any, changed: list[list[str]]
) -> None:
    """Remove keys that conflict with a new value, unless they are in `changed`.

    A new `name` of a method removes the options that only the old method has. A new
    value of `steps` in `train` or `personalizer` removes `epochs`, and the reverse.

    Args:
        tree: the experiment, which is changed in place.
        path: path of the new value.
        value: the new value.
        changed: paths of all changed keys.
    """
    *above, key = path
    table: Any = tree
    for part in above:
        table = table.get(part) if isinstance(table, dict) else None
    if not above or not isinstance(table, dict) or above in changed:
        return
    gone: set[str] = set()
    if key == "name" and above[-1] in lookup.FOLDERS and table.get("name") != value:
        gone = _options(above[-1], table.get("name")) - _options(above[-1], value)
    elif key in _EITHER and above in (["train"], ["personalizer"]) and value:
        gone = {_EITHER[key]}
    for other in gone:
        if [*above, other] not in changed:
            table.pop(other, None)


def _options(kind: str, name: Any) -> set[str]:
    """Return the names of a method's options; empty if there is no such method."""
    if not isinstance(name, str):
        return set()
    try:
        return {*lookup.options(lookup.find(kind, name))}
    except Refusal:  # "none", or a name that raises Refusal later
        return set()


def assign(tree: dict[str, Any], path: list[str], value: Any) -> None:
    """Set one value in place; a section that was only a name becomes a table."""
    for i, part in enumerate(path[:-1]):
        inner = tree.setdefault(part, {})
        if isinstance(inner, str):
            inner = tree[part] = {"name": inner}
        if not isinstance(inner, dict):
            here = ".".join(path[: i + 1])
            raise Refusal(
                f"{'.'.join(path)} cannot be set: {here} = {inner!r} is not a table; "
                f"set {here} as a whole"
            )
        tree = inner
    tree[path[-1]] = copy.deepcopy(value)


def _path(dotted: str) -> list[str]:
    """Split a dotted key into its parts, which may be quoted; [] if it is invalid."""
    try:
        tree: Any = {} if {"\n", "="} & {*dotted} else tomllib.loads(f"{dotted} = 0")
    except (ValueError, RecursionError):
        return []
    path = []
    while isinstance(tree, dict) and tree:
        part, tree = next(iter(tree.items()))
        path.append(part)
    return path


def _value(text: str) -> Any:
    """Read a value as TOML, or return the text itself if it is not valid TOML."""
    try:
        tree = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return tree["value"] if len(tree) == 1 else text


def expand(tree: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return one experiment per combination of the values of `[grid]`.

    Each key of the grid has a list of values. A key is dotted ("personalizer.lam"), a
    whole section ("personalizer") or plain ("seed"). Whole sections are set before
    single keys. In the order of the runs, the last key varies fastest.

    Returns:
        For each run, its changes (dotted key → value) and its experiment without the
        grid. If there is no grid, there is one run without changes.

    Raises:
        Refusal: the grid is not valid, or has more than `MOST` combinations.
    """
    base = {k: v for k, v in tree.items() if k != "grid"}
    grid = tree.get("grid", {})
    if not isinstance(grid, dict):
        raise Refusal(
            f"grid = {grid!r} is not a table; write [grid] and under it keys with "
            "lists, such as seed = [0, 1, 2]"
        )
    axes = _axes(grid)
    for dotted, (path, values) in axes.items():
        if path[0] == "track":
            raise Refusal(
                f"grid.{dotted} would be lost, because a grid has one list of "
                "trackers; set [track] outside the grid"
            )
        own = _at(base, path)
        if own is not None and not any(_same(own, value) for value in values):
            raise Refusal(
                f"no run would use {dotted} = {own!r}, because grid.{dotted} replaces "
                "it; add the value to that list or remove it from the experiment"
            )
    runs = math.prod(len(values) for _, values in axes.values())
    if runs > MOST:
        raise Refusal(
            f"the grid makes {runs} runs; at most {MOST} are allowed: "
            "shorten its lists or split it into several files"
        )
    made = []
    for combination in itertools.product(*(values for _, values in axes.values())):
        changed = dict(zip(axes, copy.deepcopy(combination), strict=True))
        changes = [(axes[key][0], value) for key, value in changed.items()]
        sections_first = sorted(changes, key=lambda change: len(change[0]))
        made.append((changed, _changed(base, sections_first)))
    return made


Axes = dict[str, tuple[list[str], list[Any]]]


def _axes(grid: dict[str, Any]) -> Axes:
    """Return dotted key → path and values; raise Refusal if they are not valid."""
    axes: Axes = {}
    for path, values in _leaves(grid, []):
        dotted = ".".join(path)
        if dotted in axes:
            raise Refusal(f"grid names '{dotted}' twice; keep one of the two")
        if not isinstance(values, list) or not values:
            raise Refusal(
                f"grid.{dotted} = {values!r} is not a list with values in it; write "
                "the values to try, such as [0, 1, 2]"
            )
        for i, value in enumerate(values):
            if any(_same(value, other) for other in values[:i]):
                raise Refusal(
                    f"grid.{dotted} names {value!r} twice; every combination is run "
                    "once, so keep one of the two"
                )
        axes[dotted] = path, values
    return axes


def _leaves(table: dict[str, Any], above: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Yield the path and the values of every key of a grid.

    The keys `"a.b" = […]` and `a.b = […]` have the same path.

    Args:
        table: the grid, or a table in it.
        above: path of the table.
    """
    for name, value in table.items():
        path = _path(name)
        if not path:
            raise Refusal(
                f"grid has the key '{name}', which is not a valid key; write "
                '"section.key", a whole section or seed'
            )
        if isinstance(value, dict):
            yield from _leaves(value, above + path)
        else:
            yield above + path, value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other) or _words(one) == _words(other)


def label(changed: dict[str, Any]) -> str:
    """Return a short label for a run of a grid, such as "lam=0.1,seed=2".

    It can be the name of a folder. If characters must be replaced or cut off for that,
    six digits of a hash are added, because different changes need different labels.
    """
    short = {key: _short(key) for key in changed}
    names = list(short.values())
    exact = ",".join(
        f"{short[k] if names.count(short[k]) == 1 else k}={_words(v)}"
        for k, v in changed.items()
    )
    clean = re.sub(r"[^A-Za-z0-9._=,+-]", "-", exact)[:_LONGEST]
    if clean == exact:
        return exact
    return f"{clean}~{hashlib.sha256(exact.encode()).hexdigest()[:6]}"


def _short(dotted: str) -> str:
    """Return the last part of a dotted key, or the section if this part is `name`."""
    *above, last = dotted.split(".")
    return above[-1] if above and last == "name" else last


def _words(value: Any) -> str:
    """Write a value for a label: `ditto`, `0.1`, `ditto+lam=0.1`, `0.8+0.1+0.1`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        name = [_words(value["name"])] if "name" in value else []
        rest = (f"{k}={_words(v)}" for k, v in value.items() if k != "name")
        return "+".join([*name, *rest])
    if isinstance(value, list | tuple):
        return "+".join(_words(v) for v in value)
    plain = not isinstance(value, str) or re.fullmatch(r"[A-Za-z0-9._-]+", value)
    return str(value) if plain else repr(value)


def differences(
    one: dict[str, Any], other: dict[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return dotted key → both values, for all keys in which two experiments differ.

    The experiments have all defaults filled in. If only one of them has a key, the
    other value is None. `[resolved]`, which a run writes about itself, is not compared.
    """
    a, b = dict(_flat(one, "")), dict(_flat(other, ""))
    pairs = ((k, a.get(k), b.get(k)) for k in {**a, **b})  # NaN equals NaN here
    return {k: (x, y) for k, x, y in pairs if x != y and (x == x or y == y)}


def _flat(tree: dict[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        dotted = f"{above}.{toml.key(name)}" if above else toml.key(name)
        if dotted == "resolved":
            continue
        if isinstance(value, dict) and value:
            yield from _flat(value, dotted)
        else:
            yield dotted, value
