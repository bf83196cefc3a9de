"""Pages as they are written → pages that Sphinx reads.

In the checkout links lead to files; those outside of docs/ get the address of the
project's source. Notebooks are shown as they were executed, and are not run.
"""

import json
import re
import tomllib
from pathlib import Path

from myst_parser.parsers.sphinx_ import MystParser

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SOURCE = PROJECT["urls"]["Source"]


def relink(app, docname: str, source: list[str]) -> None:
    """Point links out of docs/ to the source, and make anchors targets."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return

    def link(match: re.Match[str]) -> str:
        target = (page.parent / match[1]).resolve()
        if ":" in match[1] or target.is_relative_to(app.srcdir):
            return match[0]
        return f"]({SOURCE}/{target.relative_to(ROOT).as_posix()}{match[2] or ''})"

    text = re.sub(r"\]\(([^)\s#]+)(#[^)\s]+)?\)", link, source[0])
    source[0] = re.sub(r'^<a id="(.+)"></a>$', r"(\1)=", text, flags=re.M)


class Notebook(MystParser):
    """Read an executed notebook as the page that it shows."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document) -> None:
        """Parse the Markdown that a notebook amounts to."""
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(map(shown, cells)), document)


def shown(cell: dict) -> str:
    """Return a cell and its outputs as Markdown."""
    text = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return text
    shell = text.startswith(("!", "%%sh", "%%bash"))
    alt = cell["metadata"].get("alt", "output of the cell above")
    outputs = [_output(output, alt) for output in cell["outputs"]]
    return "\n\n".join([_fenced("sh" if shell else "python", text), *outputs])


def _output(output: dict, alt: str) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        image = "".join(data["image/png"]).replace("\n", "")
        return f"![{alt}](data:image/png;base64,{image})"
    text = "".join(output.get("text") or data.get("text/plain") or "")
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    return _fenced("{code-block} text\n:class: output\n", text) if text else ""


def _fenced(language: str, text: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"


def focusable(app, pagename, templatename, context, doctree) -> None:
    """Let the keyboard reach what scrolls sideways: code and wide tables."""
    if "body" in context:
        scrolls = r"<(pre|div class=\"table-wrapper[^>]*)>"
        context["body"] = re.sub(scrolls, r'<\1 tabindex="0">', context["body"])


def setup(app) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", relink)
    app.connect("html-page-context", focusable)
    app.add_source_parser(Notebook)
    return {"parallel_read_safe": True}
