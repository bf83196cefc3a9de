"""docs/results.md says what committed files say, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from troth.reproduce import judging, kept, listing, page, papers, scripts

ROOT = Path(__file__).parents[2]
EXPERIMENTS = ROOT / "experiments"
PAGE = ROOT / "docs" / "results.md"


@pytest.fixture(scope="module")
def made() -> str:
    return page.page(EXPERIMENTS)


@pytest.fixture(scope="module")
def sources() -> list[Path]:
    return page.sources(EXPERIMENTS)


def test_the_page_is_made_from_the_files(made: str) -> None:
    assert PAGE.read_text("utf-8") == made, "write it anew: troth reproduce --page"


def test_every_source_is_committed(sources: list[Path]) -> None:
    known = subprocess.run(
        ["git", "ls-files", "-z", "experiments"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if known.returncode:
        pytest.skip("not a git checkout")
    tracked = {ROOT / name for name in known.stdout.split("\0")}
    assert len(sources) > 100 and {*sources} <= tracked


def numbers(value: object) -> set[float]:
    """All numbers in a file, and the last of every curve among them."""
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values()))
    if isinstance(value, list):
        return (
            set().union(*map(numbers, value)) if len(value) < 30 else numbers(value[-1])
        )
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return {float(value)} if plain else set()  # type: ignore[arg-type]


def test_every_accuracy_is_in_a_file(made: str, sources: list[Path]) -> None:
    """Ours of one seed and theirs, to the digits that are shown."""
    found: set[float] = set()
    for file in sources:
        found |= numbers(json.loads(file.read_text("utf-8")))
    ours = {f"{value:.3f}"[1:] for value in found if 0 <= value < 1}
    cells = re.findall(r"(?<= )(\.\d{3}) \((?:\.\d\d)\) \[", made)
    assert len(cells) > 15  # ± follows where there are several seeds
    assert {*cells} <= ours
    printed = {
        f"{value.mean:.3f}"[1:]
        for paper in papers.PAPERS
        for name in papers.read(paper)["tables"]
        for part in papers.table(paper, name).parts  # type: ignore[union-attr]
        for row in part.rows.values()
        for value in row
        if value
    }
    theirs = re.findall(r"\[(\.\d{3}) ", made)
    assert theirs and {*theirs} <= printed


def test_a_changed_file_changes_the_page(made: str, tmp_path: Path) -> None:
    place = tmp_path / "experiments"
    (file,) = EXPERIMENTS.glob("reproduce/Fashion-MNIST/global, clean, seed 0~*.json")
    name = file.relative_to(EXPERIMENTS)
    (place / name.parent).mkdir(parents=True)
    said = json.loads((EXPERIMENTS / name).read_text("utf-8"))
    (place / name).write_text(json.dumps(said))
    alone = page.page(place)
    assert ".946 (.06) [.946 (.06), −.000] =" in alone and "Not run: `ditto/t" in alone
    said["summary"]["personal"]["accuracy_weighted"] = 0.5
    (place / name).write_text(json.dumps(said))
    assert ".500 (.06) [.946 (.06), −.446] ↓" in page.page(place)
    shutil.rmtree(place)
    place.mkdir()
    empty = page.page(place)
    assert "reproduced:" not in empty and "λ, ours | not all cells are run" in empty
    for entry in listing.entries():
        assert f"`{entry}`" in empty.partition("Not run")[2]


def test_what_was_not_run_is_named_so(made: str) -> None:
    shelf = kept.Shelf(None, EXPERIMENTS)
    for entry in listing.entries().values():
        ran = any(shelf.settled(cell, 1) for cell in entry.everywhere())
        ran = ran or bool(scripts.files(entry, EXPERIMENTS))
        assert (f"### `{entry.name}`" in made) == ran


def test_the_glance_leads_to_every_section(made: str) -> None:
    glance = made.partition("## At a glance")[2].partition("\n## ")[0]
    links = re.findall(r"^\| \[`(.*?)`\]\(#(.*?)\)", glance, re.MULTILINE)
    assert [name for name, _ in links] == re.findall(
        r"^### `(.*?)`", made, re.MULTILINE
    )
    for name, anchor in links:
        assert f'<a id="{anchor}"></a>\n\n### `{name}`' in made
    for name, share in re.findall(r"`(ditto/.*?)`\].* (\d+ of \d+) \|$", glance, re.M):
        section = made.partition(f"### `{name}`")[2].partition("\n### ")[0]
        assert f"reproduced: {share} judged" in section


def test_the_front_page_says_the_same() -> None:
    """How much of Ditto's Table 8 is reproduced, and of its personal models."""
    shelf, entry = kept.Shelf(None, EXPERIMENTS), listing.find("ditto/table8")
    found = judging.table(entry, entry.everywhere(), shelf, page.SEEDS)
    own = [one for one in found if one.cell.whose[0] == "personal"]
    front = " ".join((ROOT / "README.md").read_text("utf-8").split())
    said = "in {} of {} cells, and in {} of the {} that are about clients' own models"
    assert said.format(*judging.share(found), *judging.share(own)) in front
