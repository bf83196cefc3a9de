"""docs/how-to/data.md has every data set, and says of each what its module says."""

import re
from pathlib import Path

import pytest

from troth import lookup
from troth.data import catalogue
from troth.data.datasets import _files

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "data.md").read_text("utf-8")
ROWS = {
    cells[1].strip().strip("`"): [cell.strip() for cell in cells[2:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| `") and (cells := line.split("|"))
}


def test_every_data_set_has_its_row():
    lacking = [name for name in lookup.names("data") if name not in ROWS]
    assert not lacking, f"docs/how-to/data.md lacks a row for {', '.join(lacking)}"
    assert list(ROWS) == lookup.names("data"), "rows are in the order of the names"


@pytest.mark.parametrize("name", lookup.names("data"))
def test_a_row_says_what_the_module_says(name):
    assert name in ROWS, f"docs/how-to/data.md lacks a row for {name}"
    entry = catalogue.entry(name)
    what, folder, licence, how = ROWS[name]
    assert what
    if entry.source is None:
        words = ("your file",) if entry.kind == "yours" else ("made", "comes with")
        assert (folder, licence) == ("–", "–") and how.startswith(words)
        return
    assert folder == f"`{entry.source.folder}`" and licence == entry.source.licence
    can = "yes" if entry.source.remotes else "by hand"
    assert how.startswith(f"[{can}]({entry.source.page})")


def test_sizes_of_downloads():
    """Where the publishers' sizes are known, the page has them, rounded."""
    units = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
    for name, (*_, how) in ROWS.items():
        source = catalogue.entry(name).source
        said = re.search(r"\), (\d+) (kB|MB|GB)$", how)
        if source and said and all(remote.size for remote in source.remotes):
            total = sum(remote.size for remote in source.remotes)
            assert int(said[1]) == round(total / units[said[2]]), name


def test_places_are_as_the_page_says(monkeypatch):
    monkeypatch.setenv("TROTH_DATA", "$TROTH_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", "$XDG_CACHE_HOME")
    looked = [str(place) for place in _files.places("FOLDER", "--data-dir")]
    places = PAGE.partition("## Where files are looked for")[2].partition("##")[0]
    roots = re.findall(r"^\d\. .*?`([^`]+)`", places, re.M)
    nested = [where for root in roots[:3] for where in (f"{root}/FOLDER", root)]
    nested = [w.replace("user's", "") for w in nested]
    assert looked == [*nested, roots[3]]
