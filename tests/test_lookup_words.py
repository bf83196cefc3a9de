"""Refusals of `troth.lookup`, in the words of whoever wrote the file."""

from __future__ import annotations

import datetime
import sys
import types
from typing import Any, Literal

import pytest

from troth import lookup
from troth.types import Refusal

HINTS: dict[str, Any] = {
    "table": dict[str, Any],
    "flag": bool,
    "texts": list[str],
    "pair": tuple[int, int],
    "anything": list[Any],
    "lists": list[list[float]],
    "share": float | None,
    "split": list[float] | Literal["given"],
}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("share", True, "share = True is a truth value; it must be a number"),
        ("flag", 1, "flag = 1 is a whole number; it must be true or false"),
        ("flag", None, "flag = None is nothing; it must be true or false"),
        ("table", 3, "table = 3 is a whole number; it must be a table"),
        ("table", True, "table = True is a truth value; it must be a table"),
        ("texts", {}, "texts = {} is a table; it must be a list (each a text)"),
        ("texts", ["a", 2.5], "texts[1] = 2.5 is a number; it must be a text"),
        ("pair", "a", "pair = 'a' is a text; it must be a list (each a whole number)"),
        ("anything", "a", "anything = 'a' is a text; it must be a list"),
        (
            "lists",
            1.5,
            "lists = 1.5 is a number; it must be a list (each a list (each a number))",
        ),
        (
            "split",
            "all",
            "split = 'all' is a text; it must be a list (each a number) or 'given'",
        ),
        (
            "share",
            datetime.date(2024, 5, 1),
            "share = datetime.date(2024, 5, 1) is a date; it must be a number",
        ),
        (
            "share",
            slice(1),
            "share = slice(None, 1, None) is a slice; it must be a number",
        ),
        ("flag", (1,), "flag = (1,) is a list; it must be true or false"),
    ],
)
def test_values_of_another_type(key: str, value: Any, words: str) -> None:
    with pytest.raises(Refusal) as caught:
        lookup.typed(key, value, HINTS[key])
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "name",
    [
        "math:pi",
        ".x:y",
        "..x:y",
        ":y",
        "math:",
        "math:sqrt:x",
        "os.:path",
        "a b:c",
        "builtins:range",
    ],
)
def test_what_is_no_function(name: str) -> None:
    with pytest.raises(Refusal) as caught:
        lookup.find("solver", name)
    assert str(caught.value) == (
        f"solver '{name}' is not a function; one of your own is named "
        "package.module:function"
    )


@pytest.mark.parametrize("name", ["no.such.module:f", "math:nothing"])
def test_what_cannot_be_imported(name: str) -> None:
    with pytest.raises(Refusal, match=f"solver '{name}' cannot be imported"):
        lookup.find("solver", name)


def test_functions_and_classes_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    other = types.ModuleType("other")
    monkeypatch.setitem(sys.modules, "other", other)

    class Rule:
        def __init__(self, messages: object, *, f: int = 1) -> None: ...

    other.Rule = Rule  # type: ignore[attr-defined]
    found = lookup.find("aggregator", "other:Rule")
    assert found is Rule and set(lookup.options(found)) == {"f"}
    assert lookup.asks(found) == {"messages"}
