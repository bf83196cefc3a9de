"""Read TOML with clear error messages, and write it.

Python's `tomllib` reads TOML but does not write it. `dumps` writes TOML such that
`tomllib.loads(dumps(tree)) == tree`.
"""

import datetime
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from troth.lookup import nearest
from troth.types import Refusal


def read(path: str | Path) -> dict[str, Any]:
    """Read the tables of a TOML file; raise Refusal if it cannot be read."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        beside = [p.name for p in path.parent.glob("*.toml")]
        raise Refusal(
            f"there is no file '{path}'{nearest(path.name, beside)}; "
            "give the path of an experiment in TOML"
        ) from None
    except IsADirectoryError:
        raise Refusal(
            f"'{path}' is a folder; give the path of an experiment in TOML, "
            f"such as '{path / 'experiment.toml'}'"
        ) from None
    except UnicodeDecodeError as error:
        raise Refusal(
            f"'{path}' is not text in UTF-8 (byte {error.start} is no part of it); "
            "give a TOML file, saved as UTF-8"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise Refusal(
            f"the file {str(path)!r} cannot be read ({reason}); "
            "give the path of a TOML file that you may read"
        ) from None
    return parse(text, str(path))


def parse(text: str, where: str) -> dict[str, Any]:
    """Read the tables of a TOML text; raise Refusal if it is not valid.

    Args:
        text: the text.
        where: name of the text, for the error message.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        reason, place = "brackets are nested too deeply", ""
    except ValueError as error:
        reason, place = _place(str(error), text)
    raise Refusal(
        f"{where}{place} is not valid TOML: {reason}; correct it there "
        '(a text needs "quotes", a section is [name], a value is key = value)'
    )


def _place(message: str, text: str) -> tuple[str, str]:
    """Split an error message of tomllib into what is wrong, and where."""
    reason, _, at = message.partition(" (at ")
    found = re.match(r"line (\d+), column (\d+)", at)
    if found:
        line, column = found.groups()
    elif at:  # at the end of the document
        line = str(text.count("\n") + 1)
        column = str(len(text) - (text.rfind("\n") + 1) + 1)
    else:
        return reason, ""
    return reason[:1].lower() + reason[1:], f", line {line}, column {column}"


def dumps(tree: dict[str, Any]) -> str:
    """Return a dict as TOML text, without keys whose value is None."""
    return "\n".join(_lines(tree, "", "")).removeprefix("\n") + "\n" if tree else ""


def _lines(table: dict[str, Any], path: str, header: str) -> Iterator[str]:
    """Yield the lines of a table: first its values, then its nested tables.

    Args:
        table: the table.
        path: dotted name of the table, "" at the top.
        header: line with the name in brackets, "" at the top.
    """
    given = {k: v for k, v in table.items() if v is not None}
    nested = {k: v for k, v in given.items() if isinstance(v, dict) or _tables(v)}
    own = [f"{key(k)} = {inline(v)}" for k, v in given.items() if k not in nested]
    if header and (own or not nested or header.startswith("[[")):
        yield ""
        yield header
    yield from own
    for k, value in nested.items():
        inner = f"{path}.{key(k)}" if path else key(k)
        if isinstance(value, dict):
            yield from _lines(value, inner, f"[{inner}]")
        else:
            for item in value:
                yield from _lines(item, inner, f"[[{inner}]]")


def _tables(value: Any) -> bool:
    """Return whether a value is an array of tables."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, dict) for item in value)


def key(name: Any) -> str:
    """Return a key as TOML, in quotes unless it has only A-Z, a-z, 0-9, - and _."""
    if not isinstance(name, str):
        raise Refusal(f"the key {name!r} cannot be written as TOML: a key is a text")
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def inline(value: Any) -> str:
    """Return a value as TOML on one line; raise Refusal if TOML has no such type."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return int.__repr__(value)
        case float():
            return float.__repr__(value)
        case str():
            return _text(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case list() | tuple():
            return "[" + ", ".join(inline(item) for item in value) + "]"
        case dict():
            pairs = ((k, v) for k, v in value.items() if v is not None)
            return "{" + ", ".join(f"{key(k)} = {inline(v)}" for k, v in pairs) + "}"
    raise Refusal(
        f"{value!r} cannot be written as TOML: it holds texts, numbers, true, false, "
        "dates, lists and tables"
    )


def is_unicode(text: str) -> bool:
    """Return whether a text is valid Unicode, which arguments of a shell may not be."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _text(value: str) -> str:
    """Return a string in quotes, with the escapes of JSON and one for DEL.

    JSON allows the character DEL in strings, and TOML does not.
    """
    if not is_unicode(value):
        raise Refusal(f"the text {value!r} cannot be written: it is not valid Unicode")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
