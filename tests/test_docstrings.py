"""Examples in docstrings run, and members and functions that need them have them."""

import doctest
import inspect
import re

import pytest

import troth
from troth import lookup, theory
from troth.evaluation import paired

WITH_EXAMPLE = [
    "aggregator",
    "attack",
    "filter",
    "metric",
    "sampler",
    "score",
    "server",
]
MEMBERS = {
    f"{kind} {name}": lookup.find(kind, name)
    for kind in lookup.FOLDERS
    for name in lookup.names(kind)
}
PUBLIC = {
    name: getattr(troth, name)
    for name in troth.__all__
    if inspect.isfunction(getattr(troth, name)) or name == "ProgressBar"
}
THEORY = {
    f"theory.{name}": getattr(theory, name)
    for name in theory.__all__
    if inspect.isfunction(getattr(theory, name))
}
TESTS = {
    f"paired.{f.__name__}": f for f in (paired.interval, paired.paired, paired.holm)
}
EXPLAINED = PUBLIC | THEORY | TESTS
EVERY = MEMBERS | EXPLAINED


def examples(function):
    """The examples of a docstring; names in them are those of the function's module."""
    source = inspect.unwrap(function)
    names = dict(vars(inspect.getmodule(source)))
    return doctest.DocTestFinder(recurse=False).find(source, globs=names)


@pytest.mark.parametrize(
    "name", [name for name, function in EVERY.items() if ">>>" in function.__doc__]
)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = []
    for test in examples(EVERY[name]):
        doctest.DocTestRunner().run(test, out=said.append)
    assert not said, "".join(said)


def test_every_rule_and_metric_has_an_example():
    lacking = [
        name
        for name, function in MEMBERS.items()
        if name.split()[0] in WITH_EXAMPLE
        and not any(test.examples for test in examples(function))
    ]
    assert not lacking


def test_every_closed_form_and_every_test_has_an_example():
    lacking = {name for name, f in (THEORY | TESTS).items() if ">>>" not in f.__doc__}
    assert not lacking


def test_every_public_function_says_what_it_takes_and_returns():
    lacking = {
        name
        for name, function in EXPLAINED.items()
        if not _documented(function, inspect.getdoc(function) or "")
    }
    assert not lacking


def _documented(function, doc):
    """Whether Args names every parameter, and Returns what comes back."""
    said = re.search(r"\nArgs:\n(.*?)(?=\n\w+:\n|\Z)", doc, re.S)
    named = re.findall(r"^    \*{0,2}(\w+):", said[1] if said else "", re.M)
    wanted = [*inspect.signature(function).parameters]
    returns = inspect.signature(function).return_annotation not in (None, "None")
    return named == wanted and (not returns or "\nReturns:\n" in doc)
