import importlib
import inspect
import os
import re
import sys
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch

from troth import lookup
from troth.server import aggregators
from troth.types import Refusal

MEMBERS = [(kind, name) for kind in lookup.FOLDERS for name in lookup.names(kind)]
SOURCE = Path(lookup.__file__).parent
EMPTY = inspect.Parameter.empty


def test_names_are_the_files():
    assert len({*lookup.FOLDERS.values()}) == len(lookup.FOLDERS)
    for kind, folder in lookup.FOLDERS.items():
        files = SOURCE.joinpath(*folder.split(".")).glob("[!_]*.py")
        assert lookup.names(kind) == sorted(f.stem for f in files) != [], kind


def test_a_new_file_is_a_new_member_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(aggregators, "__path__", [*aggregators.__path__, str(tmp_path)])
    before = lookup.names("aggregator")
    (tmp_path / "_shared.py").write_text("")
    (tmp_path / "zeroth.py").write_text('def zeroth(x):\n    """The first."""\n')
    os.utime(tmp_path, ns=(1, 1))  # some file systems count time in milliseconds
    importlib.invalidate_caches()
    assert {*lookup.names("aggregator")} - {*before} == {"zeroth"}
    assert lookup.find("aggregator", "zeroth").__name__ == "zeroth"
    assert lookup.about("aggregator", "zeroth").summary == "The first."
    (tmp_path / "zeroth.py").unlink()
    os.utime(tmp_path, ns=(2, 2))
    assert lookup.names("aggregator") == before
    lookup.names("aggregator").clear()  # a list of the caller's own
    assert lookup.names("aggregator") == before
    del sys.modules["troth.server.aggregators.zeroth"], vars(aggregators)["zeroth"]


def test_names_of_other_systems():
    with pytest.raises(Refusal, match="FedAvg's mean, weighted by size, is 'weighted_"):
        lookup.find("aggregator", "FedAvg")
    with pytest.raises(Refusal, match="the shared model alone: 'none'"):
        lookup.find("personalizer", "fedavg")


def test_refuses_unknown_names():
    for name, words in (
        ("meen", "no aggregator 'meen' (did you mean 'mean'?); there"),
        ("xyz", "no aggregator 'xyz'; there are: afl, bulyan, "),
        ("", "no aggregator ''; there are: "),
        ("Mean", "no aggregator 'Mean' (did you mean 'mean'?)"),
        ("_around", "no aggregator '_around'"),
        ("../steps/sgd", "no aggregator '../steps/sgd'"),
        ("os", "one of your own is named package.module:function"),
    ):
        with pytest.raises(Refusal, match=re.escape(words)):
            lookup.find("aggregator", name)


def test_nearest():
    assert lookup.nearest("rounds", iter(["round", "lr"])) == " (did you mean 'round'?)"
    assert lookup.nearest("qqq", ["lr", "lam"]) == lookup.nearest("lam", []) == ""


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


class Rule:
    def __init__(self, messages: object, *, f: int = 1) -> None: ...
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
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


def test_a_member_of_another_package(own):
    name = f"{own}.rules:first"
    full = lookup.check("aggregator", name, {"factor": 3})
    assert full == {"factor": 3.0, "names": None}
    messages = SimpleNamespace(update=torch.tensor([[1.0, 2.0]]))
    function = lookup.find("aggregator", name)
    found = lookup.call(function, full, messages=messages, key=None)
    assert found.tolist() == [3.0, 6.0]
    about = lookup.about("aggregator", name)
    assert about.summary == "The first message, times a factor."
    assert about.options == {"factor": 2.0, "names": None}
    assert about.citations[0].startswith("@article{someone2024rule")
    for given, words in (
        ({"factr": 3}, "no option 'factr' .did you mean 'factor'"),
        ({"names": [1]}, r"aggregator\.names = \[1\] is a list; it must be"),
    ):
        with pytest.raises(Refusal, match=words):
            lookup.check("aggregator", name, given)


def test_functions_beside_a_member(own):
    first, second = (
        lookup.find("aggregator", f"{own}.rules:{name}") for name in ("first", "second")
    )
    assert lookup.companion(first, "wrapped") is lookup.companion(second, "wrapped")
    assert lookup.companion(first, "wrapped").__doc__ == "Changes nothing."
    for name in ("number", "no_such", "first"):  # no function, nothing, itself
        assert lookup.companion(first, name) is None


def test_a_decorated_member_and_a_class(own):
    name = f"{own}.rules:second"
    assert lookup.check("aggregator", name, {}) == {"factor": 2.0, "names": None}
    assert lookup.asks(lookup.find("aggregator", name)) == {"messages"}
    found = lookup.find("aggregator", f"{own}.rules:Rule")
    assert set(lookup.options(found)) == {"f"} and lookup.asks(found) == {"messages"}


NO_FUNCTION = """
    : :first :y rules: math: math:sqrt:x os.:path .x:y ..x:y .:first math:pi
    builtins:range {own}.rules: {own}.rules:first:second {own}/rules.py:first
    {own}..rules:first {own}.rules:number {own}.rules:__doc__
"""
NO_MODULE = """
    {own}.rules:third {own}.nothing:first {own}.needy:first {own}.broken:f math:nothing
    {own}.failing:f no_such_package_anywhere:first no.such.module:f
"""


def test_refuses_what_is_no_function_or_cannot_be_imported(own):
    for names, words in (
        (NO_FUNCTION, r"is not a function; one of your own is named "),
        (NO_MODULE, r"cannot be imported \((.|\n)*"),
    ):
        for name in names.format(own=own).split():
            said = rf"^aggregator '{re.escape(name)}' {words}package.module:function"
            with pytest.raises(Refusal, match=said):
                lookup.find("aggregator", name)
    with pytest.raises(Refusal, match="'a b:first' is not a function"):
        lookup.find("aggregator", "a b:first")


def member(x: Any, key: Any, *, lam: float = 1.0, every: int) -> Any:
    return x, key, lam, every


def test_options_are_the_keyword_only_parameters():
    assert list(lookup.options(member)) == ["lam", "every"]
    assert lookup.asks(member) == {"x", "key"}
    given = {"lam": 2.0, "every": 3}
    assert lookup.call(member, given, x=1, key=4, more=5) == (1, 4, 2.0, 3)


def test_check_fills_in_what_is_not_given():
    assert lookup.check("solver", "fedprox", {"mu": 2}) == {"mu": 2.0}
    assert lookup.check("solver", "fedprox", {}) == {"mu": 0.01}


def test_check_refuses():
    for kind, name, given, words in (
        ("personalizer", "ditto", {"lamda": 1.0}, "mean 'lam'?); its options are: lam"),
        ("aggregator", "mean", {"f": 1}, "'mean' has no option 'f'; it has none"),
        ("personalizer", "ditto", {"task": 1}, "has no option 'task'"),
        ("schedule", "steps", {}, "'steps' needs the option 'every': set schedule."),
        ("personalizer", "ditto", {"lam": None}, "personalizer.lam = None"),
        ("schedule", "steps", {"every": 2.5}, "schedule.every = 2.5"),
    ):
        with pytest.raises(Refusal, match=re.escape(words)):
            lookup.check(kind, name, given)


CONVERTED = [
    *[(3, int, 3), (3, float, 3.0), (2.5, float, 2.5), ("a", str, "a")],
    *[(True, bool, True), ({"a": 1}, dict, {"a": 1})],
    *[({"a": 1}, dict[str, Any], {"a": 1}), ([1, "x"], list, [1, "x"])],
    *[([1, 2], list[int], [1, 2]), ([1, 2.5], list[float], [1.0, 2.5])],
    *[((1, 2), list[int], [1, 2]), ([1, 2], tuple[float, ...], (1.0, 2.0))],
    *[([], list[int], []), ([[1], []], list[list[float]], [[1.0], []])],
    *[("given", Literal["given", "none"], "given"), (2, Literal[1, 2], 2)],
    *[(None, int | None, None), (3, int | None, 3), (3, float | None, 3.0)],
    *[(3, int | float, 3), (3, float | int, 3), (3.5, int | float, 3.5)],
    ("given", list[float] | Literal["given"], "given"),
    ([1], list[float] | Literal["given"], [1.0]),
    *[(object, Any, object), (None, Any, None)],
]


def test_typed_converts():
    rows = [(lookup.typed("a.b", v, hint), expected) for v, hint, expected in CONVERTED]
    assert not [(a, b) for a, b in rows if repr(a) != repr(b)]  # types as well


def test_typed_takes_numbers_of_numpy():
    found = (
        lookup.typed("a.b", np.int64(2), int),
        lookup.typed("a.b", np.bool_(1), bool),
    )
    assert [*map(type, found)] == [int, bool]
    with pytest.raises(Refusal):
        lookup.typed("a.b", np.float64(2), int)


def test_typed_refuses():
    for value, hint, words in (
        (True, float, "a.b = True is a truth value; it must be a number"),
        (1, bool, "a.b = 1 is a whole number; it must be true or false"),
        (None, bool, "a.b = None is nothing; it must be true or false"),
        (2.0, int, "a.b = 2.0 is a number; it must be a whole number"),
        ([1], dict, "a.b = [1] is a list; it must be a table"),
        (True, dict[str, Any], "a.b = True is a truth value; it must be a table"),
        ({"a": 1}, list[int], "it must be a list (each a whole number)"),
        ("a", list[Any], "a.b = 'a' is a text; it must be a list"),
        ("a", tuple[int, int], "it must be a list (each a whole number)"),
        (1.5, list[list[float]], "it must be a list (each a list (each a number))"),
        (["a", 2.5], list[str], "a.b[1] = 2.5 is a number; it must be a text"),
        ([1.5], tuple[int, ...], "a.b[0] = 1.5"),
        ([[1], ["x"]], list[list[int]], "a.b[1][0] = 'x'"),
        ("x", Literal["given", "none"], "a.b = 'x' is not one of 'given', 'none'"),
        (True, Literal[1, 2], "a.b = True is not one of 1, 2"),
        ("x", int | None, "a.b = 'x' is a text; it must be a whole number"),
        (date(2024, 5, 1), float | None, "is a date; it must be a number"),
        (slice(1), float | None, "slice(None, 1, None) is a slice; it must be a num"),
        ("x", list[float] | Literal["given"], "(each a number) or 'given'"),
    ):
        with pytest.raises(Refusal) as refusal:
            lookup.typed("a.b", value, hint)
        assert words in str(refusal.value)


def test_its_first_line_is_short():
    summaries = {name: lookup.about(kind, name).summary for kind, name in MEMBERS}
    assert not {name: s for name, s in summaries.items() if not 0 < len(s) <= 88}


SOME = {"int": 1, "float": 1.0, "str": "x", "str | list[str]": "x", "list[int]": [1]}


def test_every_option_has_a_type_and_a_default_of_it():
    wrong = []
    for kind, name in MEMBERS:
        options = lookup.options(lookup.find(kind, name))
        needed = {
            key: SOME[inspect.formatannotation(p.annotation).strip("'")]
            for key, p in options.items()
            if p.default is EMPTY
        }
        for key, parameter in options.items():
            given = {**needed, key: needed.get(key, parameter.default)}
            right = lookup.check(kind, name, given)[key] == given[key]
            if parameter.annotation is EMPTY or not right:
                wrong.append((kind, name, key))
    assert not wrong


FIELD = r"\s*(\w+)\s*=\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\},?"


def parse(entry):
    """Sort, key and fields of a BibTeX entry."""
    match = re.fullmatch(r"@(\w+)\{([^,\s{}]+),\s*(.*)\}", entry, re.S)
    assert match, entry
    sort, key, rest = match.groups()
    assert not re.sub(FIELD, "", rest).strip(), entry
    fields = re.findall(FIELD, rest)
    assert len({name for name, _ in fields}) == len(fields), entry
    return sort, key, dict(fields)


def test_references_are_bibtex():
    for named, entry in lookup.references().items():
        sort, key, fields = parse(entry)
        assert key == named and re.fullmatch(r"[a-z]+\d{4}[a-z]+", key)
        assert {"title", "author", "year"} <= set(fields), key
        assert re.fullmatch(r"\d{4}", fields["year"]) and fields["year"] in key
        venue = {"article": "journal", "inproceedings": "booktitle"}.get(sort)
        assert venue is None or fields[venue], key


def test_citations_in_a_text():
    one = "@misc{a2020b,\n  title={The {X}},\n  year={2020}}"
    two = "@misc{c2021d, title={Y}, year={2021}}"
    assert lookup.citations(f"Words.\n\n{one}\n\nand\n\n{two}\n") == [one, two]
    assert lookup.citations("No reference; me@example.org {x}}") == []
    assert lookup.citations("") == []
    words = "refers to 'li2021dito', .* not have .did you mean 'li2021ditto'"
    with pytest.raises(Refusal, match=words):
        lookup.citations("References: li2021dito.")


def test_about_says_what_an_option_must_have():
    about = lookup.about("schedule", "steps")
    assert about.options == {"every": EMPTY, "factor": 0.5, "floor": 0.0}
    assert about.citations == []


def test_a_function_without_a_module_has_no_name(refuses):
    """Such as one that `exec` made."""
    made = {}
    exec("def f(x): return x", made)
    refuses("the function f cannot be found by its name", lookup.by_name, made["f"])
