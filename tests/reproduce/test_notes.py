"""Notes have their numbers from results."""

import json
from pathlib import Path

import notes
import pytest

from troth.reproduce import judging, kept, listing

ROOT = Path(__file__).parents[2] / "experiments"


def test_ours():
    shelf = kept.Shelf(None, ROOT)
    for text, name, column, after in (
        ("{global / A1 80%}", "ditto/table8", "A1 80%", 0),
        ("{global / A3 20% @ 2900}", "ditto/table8", "A3 20%", 2900),
        ("{ditto/figure5: global / clean}", "ditto/figure5", "clean", 0),
    ):
        entry = listing.find(name)
        cells = entry.at("full", patterns=[f"global / {column}"], needed=False)
        (one,) = judging.table(entry, cells, shelf, 3)
        value = one.way[after] if after else one.mean
        said = notes.filled(f"It is {text}, so.", "ditto/table8", shelf, 3)
        assert said == f"It is {value:.3f}, so.".replace("0.", ".")


def test_theirs_and_what_was_not_run():
    nothing = kept.Shelf(None, None)
    text = "{theirs Ditto, λ=1 / A3 50%} and {median / clean} {as it is}"
    said = notes.filled(text, "ditto/table8", nothing, 1)
    assert said == ".740 and (not run) {as it is}"
    with pytest.raises(StopIteration):  # a cell that does not exist
        notes.filled("{median / A9}", "ditto/table8", nothing, 1)


def test_ways_and_devices():
    shelf, entry = kept.Shelf(None, ROOT), listing.find("ditto/table8")
    cells = entry.at("full", patterns=["k-loss / A3 50%"], needed=False)
    (one,) = judging.table(entry, cells, shelf, 3)
    assert one.late is not None
    text = "{looks k-loss / A3 50%} looks, {late k-loss / A3 50%}"
    within = " to ".join(f"{value:.3f}"[1:] for value in one.late)
    said = f"{len(one.inside)} of 50 looks, {within}"
    assert notes.filled(text, "ditto/table8", shelf, 3) == said
    batches = json.loads((ROOT / "reproduce" / "device.json").read_text())["batches"]
    first = [b for b in batches if b["what"] == "first seeds"]
    text = "{device runs, first seeds} in {device seconds, first seeds} s"
    said = f"{sum(b['runs'] for b in first)} in {sum(b['seconds'] for b in first):,} s"
    assert notes.filled(text, "ditto/table8", shelf, 3) == said
    assert (
        notes.filled(text, "x", kept.Shelf(None, None), 1) == "(not run) in (not run) s"
    )


def test_where_they_are(tmp_path):
    assert notes.read(tmp_path) == {}
    (tmp_path / "reproduce").mkdir()
    said = {"ditto/table8": {"fair": "because"}}
    (tmp_path / "reproduce" / "notes.json").write_text(json.dumps(said))
    assert notes.read(tmp_path) == said
