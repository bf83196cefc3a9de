"""The documentation builds without warnings, is complete, and works offline."""

import re
import subprocess
import sys
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer

import troth
from troth import lookup
from troth.cli import app

DOCS = Path(__file__).parents[1] / "docs"
LOADS = {"img": "src", "script": "src", "iframe": "src", "link": "href"}


class Page(HTMLParser):
    """The anchors of a page, where it leads, and what a browser loads with it."""

    def __init__(self, file):
        super().__init__()
        self.anchors, self.links, self.loads = {""}, set(), set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values.get("id"), values.get("name")}
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        if tag in LOADS and values.get(LOADS[tag]):
            self.loads.add(values[LOADS[tag]])


def test_a_newcomer_finds_each_task_on_the_front_page():
    page = (DOCS / "index.md").read_text("utf-8")
    guides = {*re.findall(r"\(how-to/([\w-]+)\.md\)", page)}
    found = {"install", "first-run", "own-data", "own-network", "own-method"}
    assert found | {"resume", "certificates", "deployment"} <= guides


def test_pages_that_docstrings_name_exist():
    root = DOCS.parent
    for file in (root / "src").rglob("*.py"):
        for page in re.findall(r"\bdocs/[\w/-]+\.md", file.read_text("utf-8")):
            assert (root / page).exists(), f"{file}: {page}"


@pytest.mark.slow("builds the documentation")
def test_the_site(tmp_path):
    """One test, because each of its parts needs the whole site."""
    pytest.importorskip("sphinx")
    options = ["-W", "--keep-going", "-n", "-q", "-E", "-d", str(tmp_path / "trees")]
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(site)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {file: Page(file) for file in site.rglob("*.html")}
    links_lead_somewhere(pages)
    nothing_comes_from_elsewhere(site, pages)
    search_has_an_index(site)
    all_is_there(site, pages)
    every_page_is_near(site, pages)


def targets(file, page):
    """Yield the file and the anchor of every link that stays on the site."""
    for link in page.links | page.loads:
        parts = urlsplit(link)
        if not parts.scheme:
            path = file.parent / unquote(parts.path) if parts.path else file
            yield path.resolve(), unquote(parts.fragment)


def links_lead_somewhere(pages):
    for file, page in pages.items():
        for target, anchor in targets(file, page):
            assert target.is_file(), f"{file}: {target}"
            if target in pages:
                assert anchor in pages[target].anchors, f"{file}: {target}#{anchor}"


def nothing_comes_from_elsewhere(site, pages):
    for file, page in pages.items():
        outside = [load for load in page.loads if urlsplit(load).scheme != ""]
        assert all(load.startswith("data:") for load in outside), file
    for file in site.rglob("*.css"):
        text = file.read_text("utf-8")
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text), file


def search_has_an_index(site):
    index = (site / "searchindex.js").read_text("utf-8")
    assert index.startswith("Search.setIndex(")
    assert all(word in index for word in ("krum", "trim", "lambda", "certif"))


def all_is_there(site, pages):
    """Every member, command, key and function has its place in the reference."""
    reference = site / "reference"
    for kind in lookup.FOLDERS:
        expected = {f"{kind}-{name}" for name in lookup.names(kind)}
        found = pages[reference / "kinds" / f"{kind}.html"].anchors
        assert {name.replace("_", "-") for name in expected} <= found
    commands = typer.main.get_command(app.app).commands  # type: ignore[attr-defined]
    assert {f"troth-{name}" for name in commands} <= pages[
        reference / "cli.html"
    ].anchors
    keys = {"seed", "train.rounds", "personalizer.name", "deployment.sites"}
    found = pages[reference / "experiment.html"].anchors
    assert {f"confval-{key}" for key in keys} <= found
    functions = {f"troth.{name}" for name in troth.__all__}
    assert functions <= pages[reference / "python" / "troth.html"].anchors


def every_page_is_near(site, pages):
    """Three clicks from the front page are enough for everything."""
    clicks, waiting = {site / "index.html": 0}, deque([site / "index.html"])
    while waiting:
        file = waiting.popleft()
        for target, _ in targets(file, pages[file]):
            if target in pages and target not in clicks:
                clicks[target] = clicks[file] + 1
                waiting.append(target)
    assert {*pages} == {*clicks}
    assert max(clicks.values()) <= 3
