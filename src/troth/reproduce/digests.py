"""What a result depends on: the experiment, and the code that computes it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from troth import build, lookup
from troth.config import reader
from troth.config.schema import Experiment

SOURCE = Path(build.__file__).parent
_ALWAYS = ("build", "results", "runs", "evaluation", "stacked")


def code(experiment: Experiment) -> str:
    """Twelve hex digits of the code that matters to an experiment.

    That is all that training imports, and the members that the experiment names with
    what they import: another aggregator may change without a trace. Comments, layout
    and docstrings do not count.
    """
    named = {f"{lookup.FOLDERS[kind]}.{part.name}" for kind, part in _own(experiment)}
    return _of(frozenset(named))


@cache
def _of(named: frozenset[str]) -> str:
    """The same, by the members that an experiment names."""
    ahead, seen = [*_ALWAYS, *sorted(named)], set[str]()
    while ahead:
        module = ahead.pop()
        if module not in seen:
            seen.add(module)
            ahead += _imports(module)
    text = "\n".join(f"{module} {_digest(module)}" for module in sorted(seen))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _own(experiment: Experiment) -> Iterator[tuple[str, reader.Part]]:
    """Members of ours; others' code is named by its module and not looked into."""
    for kind, part in reader.parts(experiment):
        if kind in lookup.FOLDERS and ":" not in part.name:
            yield kind, part


def _file(module: str) -> Path | None:
    base = SOURCE.joinpath(*module.split("."))
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.is_file():
            return file
    return None


@cache
def _parsed(module: str) -> ast.Module:
    file = _file(module)
    return ast.parse(file.read_text("utf-8") if file else "")


@cache
def _imports(module: str) -> tuple[str, ...]:
    """The modules of troth that a module imports."""
    found: list[str] = []
    for node in ast.walk(_parsed(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("troth"):
            inside = str(node.module).removeprefix("troth").removeprefix(".")
            names = [f"{inside}.{a.name}".removeprefix(".") for a in node.names]
            found += [n if _file(n) else inside for n in names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.startswith("troth.")]
            found += [name.removeprefix("troth.") for name in names]
    return tuple(sorted({name for name in found if name and _file(name)}))


@cache
def _digest(module: str) -> str:
    tree = ast.parse(ast.unparse(_parsed(module)))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _says(body[0]):
            body[0] = ast.Pass()
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _says(node: ast.AST) -> bool:
    """Whether a statement is only a text."""
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant and isinstance(node.value.value, str)  # type: ignore[attr-defined]
