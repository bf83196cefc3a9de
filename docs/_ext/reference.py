"""Write the reference from the library itself: docs/reference/**/*.rst.

Written when Sphinx starts and not committed: the Python API, every kind with its
members, the command line and the experiment file.
"""

import dataclasses
import importlib
import inspect
import json
import re
import textwrap
import typing
import unicodedata
from pathlib import Path

import typer
from docstrings import arguments, rst, sections

import troth
from troth import lookup
from troth.cli import app as cli
from troth.config import schema

MODULES = ("troth", "troth.types", "troth.plot", "troth.theory", "troth.poison")
MODULES += ("troth.sklearn",)
EXPERIMENT = """
An experiment is a TOML file, or in Python a dictionary of the same shape. What is left
out has the default given here. Keys without a default need not be set. A section
``[grid]`` has lists of values, such as ``train.lr = [0.1, 0.01]``: every combination of
values is a run.
"""
COMMANDS = "Every command prints this by `--help`, or `-h`."
TREE = "\n.. toctree::\n   :hidden:\n   :glob:\n\n"
OWN = "A function of your own is a {kind} too: name it ``package.module:function``.\n"
WHERE = ("journal", "booktitle", "howpublished", "institution")


def heading(text: str, line: str = "=") -> str:
    """Return a heading."""
    return f"{text}\n{line * len(text)}\n"


def below(text: str, by: int = 3) -> str:
    """Indent a text, so that it belongs to the directive above."""
    return textwrap.indent(text.strip(), " " * by) + "\n"


def setting(name: str, kind: object, default: str, text: str, *flags: str) -> str:
    """Return a key of the experiment file or an option of a member."""
    lines = [f".. confval:: {name}", f"   :type: {words(kind)}"]
    lines += [f"   :default: {default}"] if default else []
    lines += [f"   :{flag}:" for flag in flags]
    return "\n".join(lines) + "\n\n" + below(text)


def words(kind: object) -> str:
    """Name a type as the error messages do."""
    text = re.sub(r"'([^']+)'", r'``"\1"``', lookup._word(kind))
    return re.sub(
        r"\bPart\b", "the name of a method, or a table with name and options", text
    )


def value(default: object) -> str:
    """Return a default as it is written in the experiment file."""
    if isinstance(default, schema.Part):
        default = default.name
    if default is inspect.Parameter.empty or default is None:
        return ""
    return f"``{json.dumps(default, ensure_ascii=False)}``"


def paper(entry: str) -> str:
    """Return a BibTeX entry as a sentence."""
    pattern = r"(\w+)=\{(.*?)\}(?=, *\w+=\{|\}$)"
    pairs = re.findall(pattern, " ".join(entry.split()))
    of = {key: _plain(text) for key, text in pairs}
    names = [" ".join(reversed(n.split(", "))) for n in of["author"].split(" and ")]
    authors = ", ".join(names).replace(", others", " and others")
    title = of["title"] + ("" if of["title"].endswith("?") else ".")
    where = [of[k] for k in WHERE if k in of] + [of["year"]]
    if "eprint" in of:
        where.insert(0, f"arXiv:{of['eprint']}")
    text = f"{authors}. *{title}* {', '.join(where)}."
    arxiv = r"`arXiv:\1 <https://arxiv.org/abs/\1>`__"
    text = re.sub(r"(?:arXiv preprint )?arXiv:([\d.]+\d)", arxiv, text)
    if "doi" in of:
        text += f" `doi:{of['doi']} <https://doi.org/{of['doi']}>`__"
    return text


ACCENTS = {"'": "\u0301", "`": "\u0300", '"': "\u0308", "^": "\u0302", "~": "\u0303"}
ACCENTS |= {"c": "\u0327", "v": "\u030c", "=": "\u0304", "H": "\u030b", "u": "\u0306"}


def _plain(text: str) -> str:
    """Return text without the markup of LaTeX."""
    accent = r"\\(?:([\"'`^~=])|([cvHu])(?=[ {]))\s*\{?\\?(\w)\}?"
    text = re.sub(accent, lambda m: m[3] + ACCENTS[m[1] or m[2]], text)
    text = text.replace(r"\&", "&").replace("--", "–").replace("~", " ")
    return unicodedata.normalize("NFC", re.sub(r"[{}]|\\(?=\w)", "", text))


def member(kind: str, name: str) -> str:
    """Return what there is to say of one member."""
    function = lookup.find(kind, name)
    parts = sections(inspect.getdoc(function))
    texts = arguments(parts.get("Args", ""))
    hints = lookup.hints(inspect.unwrap(function))
    lines = [f".. _{kind}-{name}:\n", heading(name, "-"), rst(parts[""])]
    page = f"reference/{kind}s/{name}"
    if (Path(__file__).parents[1] / f"{page}.md").exists():
        lines += [f":doc:`Objective, cost and picture of {name} </{page}>`\n"]
    options = lookup.options(function)
    lines += [".. rubric:: Options\n"] if options else []
    for key, parameter in options.items():
        text = rst(texts.get(key, ""))
        default = value(parameter.default) or "none; set it"
        lines += [setting(key, hints[key], default, text, "no-index")]
    if "Example" in parts:
        lines += [".. rubric:: Example\n", parts["Example"] + "\n"]
    papers = [paper(entry) for entry in lookup.about(kind, name).citations]
    if papers:
        title = "Papers" if len(papers) > 1 else "Paper"
        lines += [f".. rubric:: {title}\n", *(f"- {text}" for text in papers), ""]
    lines += [f"*In Python:* ``{function.__module__}.{name}``\n"]
    return "\n".join(lines)


def kinds() -> dict[str, str]:
    """Return one page per kind, and one that lists them."""
    pages, rows = {}, []
    for kind, folder in lookup.FOLDERS.items():
        names = lookup.names(kind)
        about = rst(inspect.getdoc(importlib.import_module(f"troth.{folder}")))
        links = [f":ref:`{name} <{kind}-{name}>`" for name in names]
        rows += [f"   * - :doc:`kinds/{kind}`", f"     - {', '.join(links)}"]
        lines = [heading(kind), about, ""]
        for name, link in zip(names, links, strict=True):
            lines += [f"- {link}: {rst(lookup.about(kind, name).summary)}"]
        lines += ["", OWN.format(kind=kind), *(member(kind, name) for name in names)]
        pages[f"kinds/{kind}"] = "\n".join(lines)
    pages["kinds/personalizer"] += TREE + "   ../personalizers/*\n"
    table = ".. list-table::\n   :header-rows: 1\n\n   * - kind\n     - members\n"
    text = "Every method by its kind, with its options, their defaults and its paper."
    tree = TREE + "\n".join(f"   {page}" for page in pages)
    pages["kinds"] = "\n".join([heading("Methods"), text, "", table, *rows, "", tree])
    return pages


def experiment() -> dict[str, str]:
    """Return the page of the experiment file: every section and key."""
    lines = [heading("The experiment file"), EXPERIMENT]
    texts, hints = described(schema.Experiment)
    inner = {}
    for field in dataclasses.fields(schema.Experiment):
        default = made(field)
        if dataclasses.is_dataclass(default) or field.name in ("filter", "track"):
            inner[field.name] = default
        elif field.name != "resolved":
            text = texts[field.name]
            lines += [setting(field.name, hints[field.name], value(default), text)]
    for name, default in inner.items():
        lines += [section(name, default)]
    return {"experiment": "\n".join(lines)}


def described(cls: type) -> tuple[dict[str, str], dict[str, object]]:
    """Return texts and types of the keys of a section."""
    texts = {}
    for base in reversed(cls.__mro__):
        attributes = sections(inspect.getdoc(base) or "").get("Attributes", "")
        texts |= arguments(attributes)
    return {k: rst(v) for k, v in texts.items()}, typing.get_type_hints(cls)


def made(field: dataclasses.Field) -> object:
    """Return the default of a field."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def section(name: str, default: object) -> str:
    """Return one section of the experiment file."""
    title = f"[[{name}]]" if isinstance(default, list) else f"[{name}]"
    lines = [f".. _section-{name}:\n", heading(title, "-")]
    cls = type(default)
    if cls not in (schema.Part, list):
        lines += [rst(sections(inspect.getdoc(cls))[""])]
    kind = "tracker" if name == "track" else name
    if kind in lookup.FOLDERS:
        given = value(default) if not isinstance(default, list) else ""
        text = f"One of the members of :doc:`{kind} <kinds/{kind}>`, and its options."
        if getattr(default, "options", None):
            options = [f"``{k}`` = {value(v)}" for k, v in default.options.items()]
            text += f" The default has {', '.join(options)}."
        lines += [setting(f"{name}.name", str, given, text)]
    if isinstance(default, list):
        return "\n".join(lines)
    texts, hints = described(cls)
    for field in dataclasses.fields(cls):
        if field.name not in ("name", "options"):
            text = texts[field.name]
            if field.name in lookup.FOLDERS:
                text += f" See :doc:`kinds/{field.name}`."
            key, kind = f"{name}.{field.name}", hints[field.name]
            lines += [setting(key, kind, value(made(field)), text)]
    return "\n".join(lines)


def commands() -> dict[str, str]:
    """Return the page of the command line."""
    group = typer.main.get_command(cli.app)
    lines = [heading("The command line"), f"{rst(group.help)} {COMMANDS}\n"]
    parent = group.make_context("troth", [], resilient_parsing=True)
    for name, command in group.commands.items():
        lines += [_command(name, command, parent)]
    return {"cli": "\n".join(lines)}


def _command(name: str, command, parent) -> str:
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    usage = " ".join(["troth", name, *command.collect_usage_pieces(context)])
    lines = [f".. _troth-{name}:\n", heading(f"troth {name}", "-")]
    lines += [rst(inspect.cleandoc(command.help or "")), ""]
    lines += [f".. code-block:: text\n\n   {usage}\n", f".. program:: troth {name}\n"]
    for parameter in command.params:
        text = getattr(parameter, "help", None) or ""
        if parameter.param_type_name == "argument":
            if not text:  # the usage above says it all
                continue
            names = parameter.make_metavar(context)
        else:
            flags = parameter.opts + parameter.secondary_opts
            flag = getattr(parameter, "is_flag", False)
            metavar = "" if flag else f" {parameter.make_metavar(context)}"
            names = ", ".join(f"{f}{metavar}" for f in flags)
            default = parameter.get_default(context)
            if not flag and default not in (None, ""):
                text += f" Default: ``{default}``."
        lines += [f".. option:: {names}\n", below(rst(text)) if text else ""]
    return "\n".join(lines)


def python() -> dict[str, str]:
    """Return one page per public module."""
    pages = {}
    for name in MODULES:
        directive = f".. automodule:: {name}\n   :members:\n"
        if name == "troth.types":  # what is in `troth` has its place there
            directive += f"   :exclude-members: {', '.join(troth.__all__)}\n"
        if name == "troth.sklearn":  # scikit-learn writes these
            methods = ("fit", "predict", "predict_proba", "score")
            made = ", ".join(f"set_{method}_request" for method in methods)
            directive += f"   :exclude-members: {made}\n"
        pages[f"python/{name}"] = f"{heading(name)}\n{directive}"
    return pages


def write(app) -> None:
    """Write all pages that changed, and remove what is no page any more."""
    folder = Path(app.srcdir) / "reference"
    pages = kinds() | experiment() | commands() | python()
    for old in folder.rglob("*.rst"):
        if old.relative_to(folder).with_suffix("").as_posix() not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        file.parent.mkdir(exist_ok=True)
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


def setup(app) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
