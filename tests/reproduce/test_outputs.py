"""The files of an entry."""

import csv
from pathlib import Path

import pytest

from troth.reproduce import judging, listing, outputs, tables
from troth.reproduce.entry import Entry
from troth.types import Refusal

ROOT = Path(__file__).parents[2] / "experiments"
TEXTS = [".md", ".csv"]
PICTURES = [".png", ".svg"]
SCRIPT = Entry("p/figure7", "a title", script=("x.py",), results=("place/*",))


@pytest.fixture
def root(tmp_path, put):
    """What a script left: two labels, of which one has a number more."""
    place = tmp_path / "experiments" / "place"
    put(place, "a", {"label": "a", "end": {"error": 0.5}})
    put(place, "b", {"label": "b", "end": {"error": 0.25, "radius": 2.0}})
    return place.parent


def test_a_table_is_two_texts(tmp_path, made):
    found, out = made.judged({"global": 0.9, "local": 0.8}), tmp_path / "new" / "out"
    files = outputs.write(made.table, found, out)
    assert files == [out / f"ditto-table8{suffix}" for suffix in TEXTS]
    assert sorted(out.iterdir()) == sorted(files)
    texts = [file.read_text("utf-8") for file in files]
    assert texts[0] == tables.markdown(made.table, found)
    assert texts[1] == tables.as_csv(found) and "local" in texts[1]


def test_what_a_script_made(tmp_path, root):
    out = tmp_path / "new" / "out"
    files = outputs.of_script(SCRIPT, root, out)
    assert files == [out / f"p-figure7{suffix}" for suffix in TEXTS]
    lines = files[0].read_text("utf-8").splitlines()
    assert lines[0] == "# p/figure7: a title"
    assert lines[2] == "| | error | seeds | radius |"
    assert lines[4:] == ["| a | 0.5 | 1 |  |", "| b | 0.25 | 1 | 2 |"]
    with files[1].open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert [row["label"] for row in rows] == ["a", "b"]
    assert [row["radius"] for row in rows] == ["", "2.0"]
    drawn = outputs.of_script(SCRIPT._replace(form="lines"), root, out)
    assert [file.suffix for file in drawn] == TEXTS + PICTURES
    assert sorted(out.iterdir()) == sorted(drawn)


def test_a_script_s_table_stands_beside_the_paper_s(tmp_path):
    """As one that is made of cells: theirs, the difference and a verdict."""
    entry = listing.find("equivalence/table1")
    files = outputs.of_script(entry, ROOT, tmp_path)
    found = judging.of_script(entry, ROOT)
    assert files[0].read_text("utf-8") == tables.markdown(entry, found)
    assert "| idle user's model | .423 [.520, −.097] ↓ |" in files[0].read_text("utf-8")
    with files[1].open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    assert [row["theirs"] for row in rows] == [str(one.theirs.mean) for one in found]
    assert {row["verdict"] for row in rows} == {"reproduced", "worse"}


@pytest.mark.parametrize("suffix", [".csv", ".svg"])
def test_what_cannot_be_written_is_refused(suffix, tmp_path, made):
    (tmp_path / f"ditto-table8{suffix}").mkdir()
    found = made.judged({"global": 0.9, "local": 0.8}, "A1 20%")
    with pytest.raises(Refusal, match=f"{suffix} cannot be written .*another"):
        outputs.write(made.table._replace(form="lines"), found, tmp_path)
    assert {one.stem for one in tmp_path.iterdir()} == {"ditto-table8"}
