"""Docstrings of the library → reStructuredText.

They are written as Markdown is: code in single backticks, no escapes. Fields of a
`NamedTuple` are described by comments beside them.
"""

import ast
import inspect
import re
import textwrap
import tokenize
from collections.abc import Iterator

LABELS = "Departs|Facts|Guarantee|Limits|None|Objective|State|Threat model"
SECTIONS = "Args|Attributes|Example|Raises|Returns|Yields"
ATTRIBUTES = ("attribute", "data", "property")
_texts: dict[str, list[str]] = {}


def rst(text: str) -> str:
    """Escape what reStructuredText would read as markup, except in code."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        item = line.lstrip().startswith("- ")
        if line.lstrip().startswith((">>>", "...")):
            lines.append(line)
        elif item and before and not before.lstrip().startswith("- "):
            lines += ["", _escaped(line)]
        elif re.match(r"[^\s-].*[^:]$", before):  # goes on: an indent means nothing
            lines.append(_escaped(line.lstrip()))
        else:
            lines.append(_escaped(line))
    return re.sub(rf"^({LABELS}): ", r"**\1:** ", "\n".join(lines), flags=re.M)


def _escaped(line: str) -> str:
    parts = line.split("`")
    if len(parts) % 2 == 0:  # code that goes on in the next line
        return line
    parts[::2] = [re.sub(r"[*|\\]|_(?!\w)", r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)


def sections(doc: str) -> dict[str, str]:
    """Split a docstring: "" → its text, "Args" → the block below that word."""
    parts = re.split(rf"^({SECTIONS}):\n", doc, flags=re.M)
    found = {"": parts[0]}
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        inside = re.match(r"(?:(?: .*)?\n|(?: .*)?$)*", block).end()
        found[name] = textwrap.dedent(block[:inside]).strip()
        found[""] += block[inside:]
    return found


def arguments(block: str) -> dict[str, str]:
    """Split the text of `Args` or `Attributes`: name → what it is."""
    parts = re.split(r"^(\w+): ", block, flags=re.M)
    texts = (textwrap.dedent(f"    {text}").strip() for text in parts[2::2])
    return dict(zip(parts[1::2], texts, strict=True))


def fields(cls: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class and the comments beside them."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines = iter(source.splitlines(keepends=True))
    tokens = tokenize.generate_tokens(lambda: next(lines, ""))
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(source).body[0].body
    starts = [node.lineno for node in body] + [source.count("\n") + 2]
    for node, end in zip(body, starts[1:], strict=True):
        if isinstance(node, ast.AnnAssign):
            text = [comments[i] for i in range(node.lineno, end) if i in comments]
            yield node.target.id, " ".join(text)


def convert(app, what, name, obj, options, lines: list[str]) -> None:
    """Rewrite the docstring of one object in place."""
    doc = rst("\n".join(lines))
    if what == "class" and hasattr(obj, "_fields") and "Attributes:" not in doc:
        described = "\n".join(f"    {k}: {rst(v)}" for k, v in fields(obj))
        doc = f"{doc}\n\nArgs:\n{described}"
    lines[:] = doc.split("\n")
    if what in ATTRIBUTES:
        _texts[name] = lines[:]


def restore(app, what, name, obj, options, lines: list[str]) -> None:
    """Take the text of an attribute back: napoleon reads "Word: text" as a type."""
    if what in ATTRIBUTES:
        lines[:] = _texts.pop(name)


def skip(app, what, name, obj, skipped: bool, options) -> bool | None:
    """Leave out the fields of a `NamedTuple`: its own docstring has them."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", convert, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True}
