"""Find a method (a member) by its file name: `krum` is in `aggregators/krum.py`.

A member is a plain function. Its keyword-only parameters are its options in the
experiment file. The caller passes its other parameters by their names. A member of
another package is named `package.module:function`. A member that a user passes as a
Python object is named `memory:word@digest`, and is found as long as the object exists.
"""

import contextlib
import difflib
import functools
import importlib
import inspect
import os
import pkgutil
import re
import sys
import traceback
import types as pytypes
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from troth.types import Options, Refusal

FOLDERS = {
    "data": "data.datasets",
    "partition": "data.partitions",
    "features": "data.features",
    "corruption": "data.corruptions",
    "deformation": "data.deformations",
    "augment": "data.augments",
    "model": "networks.models",
    "loss": "networks.losses",
    "optimizer": "client.optimizers",
    "schedule": "client.schedules",
    "regularizer": "client.regularizers",
    "adversarial": "client.adversarial",
    "solver": "client.solvers",
    "personalizer": "client.personalizers",
    "attack": "server.attacks",
    "filter": "server.filters",
    "aggregator": "server.aggregators",
    "server": "server.steps",
    "sampler": "federation.samplers",
    "score": "evaluation.scores",
    "metric": "evaluation.metrics",
    "tracker": "trackers",
}
"""Kind of member (mostly a section of the experiment file) → package of its members."""


T = TypeVar("T")
_MEMORY = "memory:"
_GIVEN: WeakValueDictionary[str, Callable[..., Any]] = WeakValueDictionary()
_OWN_FILES: set[str] = set()  # files of members outside Troth
_ELSEWHERE = {
    ("aggregator", "fedavg"): "FedAvg's mean, weighted by size, is 'weighted_mean'",
    ("personalizer", "fedavg"): "FedAvg trains the shared model alone: 'none'",
}
"""(kind, name that other systems use) → hint at the name of the same method here."""
_ENTRY = r"^@\w+\{.*?\}\}$"


class About(NamedTuple):
    """The information about a member that `troth list` and `troth cite` print."""

    name: str
    summary: str
    options: dict[str, Any]  # option → default; inspect.Parameter.empty if required
    citations: list[str]  # BibTeX entries


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint with the word most similar to a misspelled one, or ""."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def names(kind: str) -> list[str]:
    """Return the sorted names of all members of a kind.

    Every file of the kind's folder is a member, unless its name begins with "_".
    """
    package = importlib.import_module(f"troth.{FOLDERS[kind]}")
    places = tuple(package.__path__)
    return list(_members(places, tuple(_changed(place) for place in places)))


@lru_cache(maxsize=64)
def _members(places: tuple[str, ...], changed: tuple[int, ...]) -> tuple[str, ...]:
    """Return the members in some folders; cached until a folder has changed."""
    found = (m.name for m in pkgutil.iter_modules(places))
    return tuple(sorted(n for n in found if not n.startswith("_")))


def _changed(place: str) -> int:
    """Return the time of the last change of a folder; 0 if it does not exist."""
    with contextlib.suppress(OSError):
        return os.stat(place).st_mtime_ns
    return 0


class Given(NamedTuple):
    """A member that is a Python object; it is found while this value exists."""

    name: str
    member: Callable[..., Any]


def give(word: str, digest: str, member: Callable[..., Any]) -> Given:
    """Register a Python object as a member, and return it with its name.

    Args:
        word: First part of the name, such as the class of the object.
        digest: Hexadecimal digest of all that determines what the member returns.
        member: Function with the parameters of a member.
    """
    name = f"{_MEMORY}{word}@{digest[:16]}"
    _GIVEN[name] = member
    return Given(name, member)


def like(
    function: Callable[..., Any], other: Callable[..., Any], without: Iterable[str] = ()
) -> Callable[..., Any]:
    """Give a function of `**options` the parameters and docstring of another one.

    Args:
        function: Function, which is changed and returned.
        other: Another function, or a class.
        without: Names of parameters to leave out.
    """
    signature = inspect.signature(other)
    kept = [p for name, p in signature.parameters.items() if name not in without]
    function.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    function.__doc__ = inspect.getdoc(other)
    function.__annotations__ = {}
    with contextlib.suppress(NameError, TypeError):  # annotations with unknown names
        typed = other.__init__ if inspect.isclass(other) else other
        function.__annotations__ = dict(hints(typed))
    return function


def in_memory(name: str) -> bool:
    """Return whether a name is that of a Python object."""
    return name.startswith(_MEMORY)


def held(name: str) -> Callable[..., Any] | None:
    """Return the object of this name; `None` if it is not registered."""
    return _GIVEN.get(name)


def lost(name: str) -> bool:
    """Return whether a name is that of an object that is not registered."""
    return in_memory(name) and name not in _GIVEN


def find(kind: str, name: str) -> Callable[..., Any]:
    """Return the member of a kind and a name; raise Refusal if there is none.

    For a Python object that is not registered, return a function that raises Refusal
    when it is called. So the tables of a run can be read without its data and network.
    """
    if in_memory(name):
        return held(name) or _refusing(kind, name)
    if ":" in name:
        return _third_party(kind, name)
    if name not in names(kind):
        known = _ELSEWHERE.get((kind, name.lower()), "")
        hint = f" ({known})" if known else nearest(name, names(kind))
        raise Refusal(
            f"there is no {kind} '{name}'{hint}; "
            f"there are: {', '.join(names(kind))}; "
            "one of your own is named package.module:function"
        )
    module = importlib.import_module(f"troth.{FOLDERS[kind]}.{name}")
    return typing.cast(Callable[..., Any], getattr(module, name))


def _refusing(kind: str, name: str) -> Callable[..., Any]:
    def lost(**options: Any) -> Any:
        """Raise Refusal: the object is not registered in this process."""
        raise Refusal(
            f"{kind} '{name}' was given in memory, and this process does not have it; "
            f"give the same object again in Python: troth.load(path, {kind}=…)"
        )

    return lost


def _third_party(kind: str, name: str) -> Callable[..., Any]:
    path, _, attribute = name.partition(":")
    written = all(part.isidentifier() for part in [*path.split("."), attribute])
    try:
        found = getattr(importlib.import_module(path), attribute) if written else None
    except Exception as error:
        raise Refusal(
            f"{kind} '{name}' cannot be imported ({error}); "
            "it is written package.module:function and must be on the Python path, "
            "such as by PYTHONPATH=. for a file in the current folder"
        ) from None
    if not callable(found) or not _readable(found):
        raise Refusal(
            f"{kind} '{name}' is not a function; one of your own is named "
            "package.module:function"
        )
    _OWN_FILES.add(getattr(sys.modules[path], "__file__", None) or "")
    return typing.cast(Callable[..., Any], found)


def by_name(value: Any) -> Any:
    """Replace functions by names `module:function`, also in dictionaries and lists.

    Raise Refusal if a function cannot be found by its name.
    """
    if isinstance(value, Mapping):
        return {key: by_name(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [by_name(each) for each in value]
    if not isinstance(value, pytypes.FunctionType):
        return value
    name, module = value.__qualname__, value.__module__
    if getattr(sys.modules.get(module), name, None) is not value:
        raise Refusal(
            f"the function {name} cannot be found by its name, which "
            "the run's file stores; define it with def, outside other functions"
        )
    return f"{module}:{name}"


def own_error(error: BaseException) -> str:
    """Return a description of an error in a user's member; "" for any other error.

    The text has the function, its file and line, and the error, followed by the
    traceback from the user's function on.
    """
    frames = traceback.extract_tb(error.__traceback__)
    for k, frame in enumerate(frames):
        if frame.filename in _OWN_FILES:
            what = "".join(traceback.format_exception_only(error)).strip()
            where = f"{frame.filename}, line {frame.lineno}"
            lines = "".join(traceback.format_list(frames[k:])).rstrip()
            return f"error in your function {frame.name} ({where}): {what}\n{lines}"
    return ""


def companion(function: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    """Return the function `name` of the module that defines a member, or `None`."""
    found = getattr(inspect.getmodule(inspect.unwrap(function)), name, None)
    usable = callable(found) and found is not function and _readable(found)
    return typing.cast(Callable[..., Any], found) if usable else None


def _readable(function: Callable[..., Any]) -> bool:
    """Return whether a function has a signature; some built-in functions have none."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


def _remembered(ask: Callable[[Callable[..., Any]], T]) -> Callable[..., T]:
    """Cache the result of `ask` for each function, as long as the function exists."""
    known: WeakKeyDictionary[Callable[..., Any], T] = WeakKeyDictionary()

    @functools.wraps(ask)
    def asked(function: Callable[..., Any]) -> T:
        try:
            return known[function]
        except KeyError:
            known[function] = ask(function)
            return known[function]
        except TypeError:  # no hash, or no weak references
            return ask(function)

    return asked


def options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the options of a member: its keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}


def asks(function: Callable[..., Any]) -> set[str]:
    """Return the names of a member's parameters that are not options."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name for p in parameters if p.kind in kinds}


def check(kind: str, name: str, given: Options) -> dict[str, Any]:
    """Return all options of a member: the given values, converted, and defaults.

    Raise Refusal for an unknown option, a missing one, or a wrong type.
    """
    function = find(kind, name)
    if lost(name):
        return dict(given)
    known = options(function)
    for key in given:
        if key not in known:
            has = f"its options are: {', '.join(known)}" if known else "it has none"
            raise Refusal(
                f"{kind} '{name}' has no option '{key}'{nearest(key, known)}; {has}"
            )
    types = hints(inspect.unwrap(function))
    full: dict[str, Any] = {}
    for key, parameter in known.items():
        if key in given:
            full[key] = typed(f"{kind}.{key}", given[key], types.get(key, Any))
        elif parameter.default is parameter.empty:
            raise Refusal(
                f"{kind} '{name}' needs the option '{key}': set {kind}.{key} = …"
            )
        else:
            full[key] = parameter.default
    return full


@_remembered
def hints(thing: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the types of a function's or class's parameters."""
    return typing.get_type_hints(thing)


def call(function: Callable[..., Any], given: Options, **available: Any) -> Any:
    """Call a member with its options, and with the values that its parameters name.

    Raise Refusal if a parameter without a default is not available.
    """
    wanted, needed = _wants(function)
    if not needed <= available.keys():
        missing, there = sorted(needed - available.keys()), ", ".join(sorted(available))
        raise Refusal(
            f"{getattr(function, '__name__', function)} asks for '{missing[0]}', "
            f"which is not available here; available: {there or 'only its options'}"
        )
    return function(**{k: v for k, v in available.items() if k in wanted}, **given)


@_remembered
def _wants(function: Callable[..., Any]) -> tuple[set[str], set[str]]:
    """Return a member's parameters that are not options, and those without default."""
    wanted = asks(function)
    parameters = inspect.signature(function).parameters
    empty = inspect.Parameter.empty
    return wanted, {name for name in wanted if parameters[name].default is empty}


def typed(where: str, value: Any, hint: Any) -> Any:
    """Convert `value` to the type `hint`; raise Refusal if this is not possible.

    `where` is the name of the setting, for the message.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, pytypes.UnionType):
        if value is None and type(None) in arguments:
            return None
        for argument in sorted(arguments, key=lambda a: a is float):  # int first
            with contextlib.suppress(Refusal):
                return typed(where, value, argument)
        raise _mistyped(where, value, hint)
    if origin is typing.Literal:
        if value in arguments and not isinstance(value, bool):
            return value
        allowed = ", ".join(repr(a) for a in arguments)
        raise Refusal(f"{where} = {value!r} is not one of {allowed}")
    if origin in (list, tuple) and isinstance(value, list | tuple):
        inner = arguments[0] if arguments else Any
        items = [typed(f"{where}[{i}]", v, inner) for i, v in enumerate(value)]
        return tuple(items) if origin is tuple else items
    if hint is float and type(value) is int:
        return float(value)
    expected = origin or hint
    if isinstance(value, expected) and (expected is bool or type(value) is not bool):
        return value
    raise _mistyped(where, value, hint)


def _mistyped(where: str, value: Any, hint: Any) -> Refusal:
    return Refusal(f"{where} = {value!r} is {_kind(value)}; it must be {_word(hint)}")


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true or false",
    dict: "a table",
    list: "a list",
    tuple: "a list",
    Any: "anything",
}


def _kind(value: Any) -> str:
    """Return the type of a value in words."""
    if isinstance(value, bool):
        return "a truth value"
    if value is None:
        return "nothing"
    name = type(value).__name__
    return _WORDS.get(type(value), f"{'an' if name[0] in 'aeiou' else 'a'} {name}")


def _word(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, pytypes.UnionType):
        return " or ".join(_word(a) for a in arguments if a is not type(None))
    if origin is typing.Literal:
        return " or ".join(repr(a) for a in arguments)
    if origin in (list, tuple) and arguments and arguments[0] is not Any:
        return f"a list (each {_word(arguments[0])})"
    return _WORDS.get(origin or hint, getattr(hint, "__name__", str(hint)))


def about(kind: str, name: str) -> About:
    """Return the summary, options and references of a member, from its docstrings."""
    function = find(kind, name)
    doc = inspect.getdoc(function) or ""
    module = inspect.getdoc(inspect.getmodule(function)) or ""
    return About(
        name,
        doc.strip().split("\n")[0],
        {k: p.default for k, p in options(function).items()},
        citations(module),
    )


def explained(kind: str, name: str) -> str:
    """Return the docstring of a member, with the default of each of its options."""
    function = find(kind, name)
    lines = [f"{kind} {name}", "", inspect.getdoc(function) or ""]
    for key, parameter in options(function).items():
        required = parameter.default is parameter.empty
        value = "required" if required else f"default {parameter.default!r}"
        lines.append(f"{kind}.{key}: {value}")
    return "\n".join(lines)


def citations(text: str) -> list[str]:
    """Return the BibTeX entries that a docstring names or contains.

    Docstrings of Troth name keys of `references.bib` after "References:". Docstrings of
    other packages may contain the entries themselves.

    Raises:
        Refusal: If a key is not in `references.bib`.
    """
    found = [m.group(0) for m in re.finditer(_ENTRY, text, re.M | re.S)]
    for line in re.findall(r"^References: ([^.]+)\.$", text, re.M | re.S):
        for key in re.split(r",\s+", line):
            if key not in references():
                raise Refusal(
                    f"a docstring refers to '{key}', which references.bib does not "
                    f"have{nearest(key, references())}: add its entry there"
                )
            found.append(references()[key])
    return found


@lru_cache(maxsize=1)
def references() -> dict[str, str]:
    """Return all BibTeX entries that the library cites, keyed by their BibTeX key."""
    text = resources.files("troth").joinpath("references.bib").read_text("utf-8")
    entries = [m.group(0) for m in re.finditer(_ENTRY, text, re.M | re.S)]
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry for entry in entries}
