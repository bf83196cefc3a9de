from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from troth import lookup
from troth.types import Messages, Refusal

MEMBERS = [(kind, name) for kind in lookup.FOLDERS for name in lookup.names(kind)]
EVERY = pytest.mark.parametrize(("kind", "name"), MEMBERS)
SOURCE = Path(lookup.__file__).parent


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize(("kind", "folder"), lookup.FOLDERS.items())
def test_names_are_the_files(kind: str, folder: str) -> None:
    files = {path.stem for path in (SOURCE / folder).glob("*.py")}
    assert lookup.names(kind) == sorted(f for f in files if not f.startswith("_"))
    assert lookup.names(kind)


def test_every_folder_of_members_is_a_kind() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(lookup.FOLDERS.values()) <= folders
    assert len(set(lookup.FOLDERS.values())) == len(lookup.FOLDERS)


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more file in the folder of aggregators."""
    (tmp_path / "zeroth.py").write_text(
        '"""Nothing."""\n\n\ndef zeroth(messages):\n    """The first."""\n'
        "    return messages.update[0]\n"
    )
    (tmp_path / "_shared.py").write_text("")
    package = importlib.import_module("troth.server.aggregators")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    yield
    sys.modules.pop("troth.server.aggregators.zeroth", None)
    vars(package).pop("zeroth", None)


def test_a_new_file_is_a_new_member(another: None) -> None:
    assert "zeroth" in lookup.names("aggregator")
    assert "_shared" not in lookup.names("aggregator")
    assert lookup.find("aggregator", "zeroth").__name__ == "zeroth"
    assert lookup.about("aggregator", "zeroth").summary == "The first."


def test_find() -> None:
    from troth.server.aggregators.median import median

    assert lookup.find("aggregator", "median") is median


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("aggregator", "meen", "no aggregator 'meen' (did you mean 'mean'?); there"),
        ("aggregator", "xyz", "no aggregator 'xyz'; there are: afl, bulyan, "),
        ("aggregator", "", "no aggregator ''; there are: "),
        ("aggregator", "Mean", "no aggregator 'Mean' (did you mean 'mean'?)"),
        ("personalizer", "_own", "no personalizer '_own'"),
        ("aggregator", "../servers/sgd", "no aggregator '../servers/sgd'"),
        ("aggregator", "os", "one of your own is named package.module:function"),
    ],
)
def test_refuses_unknown_names(kind: str, name: str, words: str) -> None:
    with pytest.raises(Refusal, match=re.escape(words)):
        lookup.find(kind, name)


def test_nearest() -> None:
    assert lookup.nearest("lamda", ["lr", "lam"]) == " (did you mean 'lam'?)"
    assert lookup.nearest("qqq", ["lr", "lam"]) == ""
    assert lookup.nearest("lam", []) == ""
    assert lookup.nearest("rounds", iter(["round", "lr"])).count("round") == 1


# ------------------------------------------------------------------- of other people

OWN = '''
"""A rule of someone else.

@article{someone2024rule,
  title={A rule},
  author={Someone, A.},
  journal={Nowhere}, year={2024}}
"""

from functools import wraps

number = 3


def first(messages, *, factor: float = 2.0, names: "list[str] | None" = None):
    """The first message, times a factor."""
    return factor * messages.update[0]


def wrapped(function):
    """Changes nothing."""

    @wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


second = wrapped(first)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package on the path: `troth_of_someone.rules`, and broken modules beside."""
    package = tmp_path / "troth_of_someone"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "rules.py").write_text(OWN)
    (package / "broken.py").write_text("def f(:\n")
    (package / "failing.py").write_text("raise RuntimeError('no licence')\n")
    (package / "needy.py").write_text("import no_such_module_anywhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "troth_of_someone"
    for name in [n for n in sys.modules if n.startswith("troth_of_someone")]:
        del sys.modules[name]


def messages(*rows: list[float]) -> Messages:
    update, n = torch.tensor(rows), len(rows)
    return Messages(
        update, torch.zeros(n, 0), torch.zeros(n), torch.ones(n), torch.arange(n)
    )


def test_a_member_of_another_package(own: str) -> None:
    name = f"{own}.rules:first"
    function = lookup.find("aggregator", name)
    full = lookup.check("aggregator", name, {"factor": 3})
    assert full == {"factor": 3.0, "names": None}
    found = lookup.call(function, full, messages=messages([1.0, 2.0]), key=None)
    assert found.tolist() == [3.0, 6.0]
    about = lookup.about("aggregator", name)
    assert about.summary == "The first message, times a factor."
    assert about.options == {"factor": 2.0, "names": None}
    assert about.citations[0].startswith("@article{someone2024rule")


def test_functions_beside_a_member(own: str) -> None:
    first = lookup.find("aggregator", f"{own}.rules:first")
    second = lookup.find("aggregator", f"{own}.rules:second")
    assert lookup.beside(first, "wrapped") is lookup.beside(second, "wrapped")
    assert lookup.beside(first, "wrapped").__doc__ == "Changes nothing."
    for name in ("number", "no_such", "first"):  # no function, nothing, itself
        assert lookup.beside(first, name) is None


def test_its_options_are_checked_like_ours(own: str) -> None:
    name = f"{own}.rules:first"
    with pytest.raises(Refusal, match="no option 'factr' .did you mean 'factor'"):
        lookup.check("aggregator", name, {"factr": 3})
    with pytest.raises(Refusal, match=r"aggregator\.factor = 'x'"):
        lookup.check("aggregator", name, {"factor": "x"})
    with pytest.raises(Refusal, match=r"aggregator\.names\[0\] = 1|names = \[1\]"):
        lookup.check("aggregator", name, {"names": [1]})


def test_a_decorated_member(own: str) -> None:
    name = f"{own}.rules:second"
    assert lookup.check("aggregator", name, {}) == {"factor": 2.0, "names": None}
    assert lookup.asks(lookup.find("aggregator", name)) == {"messages"}


@pytest.mark.parametrize(
    "name",
    [
        ":",
        ":first",
        "rules:",
        "{own}.rules:",
        "{own}.rules:third",
        "{own}.rules:first:second",
        "{own}.nothing:first",
        "{own}.needy:first",
        "no_such_package_anywhere:first",
        "{own}/rules.py:first",
        "{own}..rules:first",
        "a b:first",
    ],
)
def test_refuses_what_cannot_be_imported(own: str, name: str) -> None:
    name = name.format(own=own)
    with pytest.raises(Refusal) as refusal:
        lookup.find("aggregator", name)
    assert f"aggregator '{name}' " in str(refusal.value)
    assert "package.module:function" in str(refusal.value)


@pytest.mark.parametrize("name", [".rules:first", "..rules:first", ".:first"])
def test_refuses_relative_names(name: str) -> None:
    with pytest.raises(Refusal, match=re.escape(f"'{name}'")):
        lookup.find("aggregator", name)


@pytest.mark.parametrize("name", ["rules:number", "rules:__doc__"])
def test_refuses_what_is_no_function(own: str, name: str) -> None:
    with pytest.raises(Refusal, match=re.escape(f"'{own}.{name}'")):
        lookup.check("aggregator", f"{own}.{name}", {})


@pytest.mark.parametrize("module", ["broken", "failing"])
def test_refuses_a_module_that_fails(own: str, module: str) -> None:
    with pytest.raises(Refusal, match=f"'{own}.{module}:f' cannot be imported"):
        lookup.find("aggregator", f"{own}.{module}:f")


# ------------------------------------------------------------------------- options


def member(x: Any, key: Any, *, lam: float = 1.0, every: int) -> Any:
    return x, key, lam, every


def test_options_are_the_keyword_only_parameters() -> None:
    assert list(lookup.options(member)) == ["lam", "every"]
    assert lookup.asks(member) == {"x", "key"}


def test_a_call_gives_what_is_asked_for() -> None:
    given = {"lam": 2.0, "every": 3}
    assert lookup.call(member, given, x=1, key=4, more=5) == (1, 4, 2.0, 3)


def test_check_fills_in_what_is_not_given() -> None:
    assert lookup.check("solver", "fedprox", {"mu": 2}) == {"mu": 2.0}
    assert lookup.check("solver", "fedprox", {}) == {"mu": 0.01}


@pytest.mark.parametrize(
    ("kind", "name", "given", "words"),
    [
        (
            "personalizer",
            "ditto",
            {"lamda": 1.0},
            "personalizer 'ditto' has no option 'lamda' (did you mean 'lam'?); "
            "its options are: lam",
        ),
        (
            "aggregator",
            "mean",
            {"f": 1},
            "aggregator 'mean' has no option 'f'; it has none",
        ),
        ("personalizer", "ditto", {"task": 1}, "has no option 'task'"),
        ("schedule", "steps", {}, "'steps' needs the option 'every': set schedule."),
        ("personalizer", "ditto", {"lam": "1"}, "personalizer.lam = '1'"),
        ("personalizer", "ditto", {"lam": True}, "personalizer.lam = True"),
        ("personalizer", "ditto", {"lam": None}, "personalizer.lam = None"),
        ("schedule", "steps", {"every": 2.5}, "schedule.every = 2.5"),
    ],
)
def test_check_refuses(kind: str, name: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(Refusal, match=re.escape(words)):
        lookup.check(kind, name, given)


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3, int, 3),
        (3, float, 3.0),
        (2.5, float, 2.5),
        ("a", str, "a"),
        (True, bool, True),
        ({"a": 1}, dict, {"a": 1}),
        ({"a": 1}, dict[str, Any], {"a": 1}),
        ([1, "x"], list, [1, "x"]),
        ([1, 2], list[int], [1, 2]),
        ([1, 2.5], list[float], [1.0, 2.5]),
        ((1, 2), list[int], [1, 2]),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ([], list[int], []),
        ([[1], []], list[list[float]], [[1.0], []]),
        ("given", Literal["given", "none"], "given"),
        (2, Literal[1, 2], 2),
        (None, int | None, None),
        (3, int | None, 3),
        (3, float | None, 3.0),
        (3, int | float, 3),
        (3, float | int, 3),
        (3.5, int | float, 3.5),
        ("given", list[float] | Literal["given"], "given"),
        ([1], list[float] | Literal["given"], [1.0]),
        (object, Any, object),
        (None, Any, None),
    ],
)
def test_typed_converts(value: Any, hint: Any, expected: Any) -> None:
    found = lookup.typed("a.b", value, hint)
    assert found == expected
    assert type(found) is type(expected)
    if isinstance(found, list | tuple):
        assert [type(a) for a in found] == [type(b) for b in expected]


@pytest.mark.parametrize(
    ("value", "hint", "words"),
    [
        (True, int, "a.b = True"),
        (True, float, "it must be a number"),
        (False, str, "it must be a text"),
        (1, bool, "a.b = 1 is a whole number; it must be true or false"),
        (2.0, int, "a.b = 2.0 is a number; it must be a whole number"),
        ("3", int, "a.b = '3' is a text; it must be a whole number"),
        (3, str, "a.b = 3 is a whole number; it must be a text"),
        (None, int, "a.b = None"),
        ([1], dict, "a.b = [1] is a list; it must be a table"),
        ({"a": 1}, list[int], "it must be a list (each a whole number)"),
        ("ab", list[str], "it must be a list (each a text)"),
        ([1, "x"], list[int], "a.b[1] = 'x'"),
        ([1.5], tuple[int, ...], "a.b[0] = 1.5"),
        ([[1], ["x"]], list[list[int]], "a.b[1][0] = 'x'"),
        ("x", Literal["given", "none"], "a.b = 'x' is not one of 'given', 'none'"),
        (True, Literal[1, 2], "a.b = True is not one of 1, 2"),
        (["x"], Literal["x"], "is not one of 'x'"),
        ("x", int | None, "a.b = 'x' is a text; it must be a whole number"),
        ("x", int | float, "it must be a whole number or a number"),
        ("x", list[float] | Literal["given"], "(each a number) or 'given'"),
    ],
)
def test_typed_refuses(value: Any, hint: Any, words: str) -> None:
    with pytest.raises(Refusal) as refusal:
        lookup.typed("a.b", value, hint)
    assert words in str(refusal.value)


# --------------------------------------------------------------------- every member


@EVERY
def test_a_file_holds_a_function_of_its_name(kind: str, name: str) -> None:
    function = lookup.find(kind, name)
    assert inspect.isfunction(inspect.unwrap(function))
    assert function.__name__ == name
    assert function.__module__ == f"troth.{lookup.FOLDERS[kind]}.{name}"


@EVERY
def test_its_first_line_says_what_it_is(kind: str, name: str) -> None:
    about = lookup.about(kind, name)
    assert about.name == name
    assert about.summary[:1].strip()
    assert len(about.summary) <= 88
    module = inspect.getdoc(inspect.getmodule(lookup.find(kind, name)))
    assert module and module.split("\n")[0].strip()


@EVERY
def test_every_option_has_a_type_and_a_default_of_it(kind: str, name: str) -> None:
    function = lookup.find(kind, name)
    for key, parameter in lookup.options(function).items():
        assert parameter.annotation is not parameter.empty, key
        if parameter.default is not parameter.empty:
            given = lookup.check(kind, name, {key: parameter.default} | needs(function))
            assert given[key] == parameter.default


def needs(function: Any) -> dict[str, Any]:
    """Something for every option that a member cannot do without."""
    some = {"int": 1, "float": 1.0, "str": "x", "str | list[str]": "x"}
    found = lookup.options(function).values()
    return {p.name: some[p.annotation] for p in found if p.default is p.empty}


def parse(entry: str) -> tuple[str, str, dict[str, str]]:
    """Sort, key and fields of a BibTeX entry."""
    match = re.fullmatch(r"@(\w+)\{([^,\s{}]+),\s*(.*)\}", entry, re.S)
    assert match, entry
    sort, key, rest = match.groups()
    fields: dict[str, str] = {}
    while rest.strip():
        opening = re.match(r"\s*,?\s*(\w+)\s*=\s*\{", rest)
        assert opening, rest
        depth, at = 1, opening.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(rest[at], 0)
            at += 1
        assert opening[1] not in fields, opening[1]
        fields[opening[1]] = rest[opening.end() : at - 1]
        rest = rest[at:]
    return sort, key, fields


@EVERY
def test_references_are_bibtex(kind: str, name: str) -> None:
    doc = inspect.getdoc(inspect.getmodule(lookup.find(kind, name))) or ""
    entries = lookup.about(kind, name).citations
    assert len(entries) == len(re.findall(r"^\s*@\w+\s*\{", doc, re.M))
    for entry in entries:
        sort, key, fields = parse(entry)
        assert re.fullmatch(r"[a-z]+\d{4}[a-z]+", key)
        assert {"title", "author", "year"} <= set(fields)
        assert re.fullmatch(r"\d{4}", fields["year"])
        assert fields["year"] in key
        venue = {"article": "journal", "inproceedings": "booktitle"}.get(sort)
        assert venue is None or fields[venue]


def test_a_key_is_the_same_reference_everywhere() -> None:
    found: dict[str, str] = {}
    for kind, name in MEMBERS:
        for entry in lookup.about(kind, name).citations:
            text = " ".join(entry.split())
            assert found.setdefault(parse(entry)[1], text) == text


def test_citations_in_a_text() -> None:
    one = "@misc{a2020b,\n  title={The {X}},\n  year={2020}}"
    two = "@misc{c2021d, title={Y}, year={2021}}"
    assert lookup.citations(f"Words.\n\n{one}\n\nand\n\n{two}\n") == [one, two]
    assert lookup.citations("No reference; me@example.org {x}}") == []
    assert lookup.citations("") == []


def test_about_says_what_an_option_must_have() -> None:
    about = lookup.about("schedule", "steps")
    needed = inspect.Parameter.empty
    assert about.options == {"every": needed, "factor": 0.5, "floor": 0.0}
    assert about.citations == []


def test_a_new_file_is_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import troth.metrics

    folder = tmp_path / "more"
    folder.mkdir()
    monkeypatch.setattr(troth.metrics, "__path__", [*troth.metrics.__path__, folder])
    before = lookup.names("metric")
    (folder / "fresh.py").write_text("def fresh(values): ...\n")
    os.utime(folder, ns=(1, 1))  # some file systems count time in milliseconds
    assert set(lookup.names("metric")) - set(before) == {"fresh"}
    (folder / "fresh.py").unlink()
    os.utime(folder, ns=(2, 2))
    assert lookup.names("metric") == before
    lookup.names("metric").clear()  # a list of the caller's own
    assert lookup.names("metric") == before
