"""What is committed is found by the cells that it is of."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from troth.config import reader
from troth.reproduce import judging, kept, listing
from troth.reproduce.entry import experiment, key, merged
from troth.reproduce.store import Store
from troth.types import Refusal

ROOT = Path(__file__).parents[2] / "experiments"
CELLS = [entry for entry in listing.entries().values() if entry.cells]


def test_committed_results_are_of_the_very_cells_that_point_at_them():
    """The experiment that a file says it is of is the cell's, key by key."""
    shelf, seen = kept.Shelf(None, ROOT), 0
    aside = ("engine", "output", "resolved", "name", "checkpoint")
    for entry in CELLS:
        for cell in entry.everywhere():
            for choice, pattern in enumerate(cell.kept):
                result = shelf.find(cell, choice, 0)
                if result is None:
                    continue
                seen += 1
                own = reader.to_dict(experiment(cell.choices[choice], 0))
                theirs = _experiment(pattern.format(seed=0))
                for name in own.keys() - {*aside, "evaluate"}:
                    assert own[name] == theirs[name], (cell.label, name)
    assert seen > 80


def _experiment(name):
    home, _, rest = name.partition("/")
    if home == "natural":
        data, _, wanted = rest.partition("/")
        grid = reader.expand(reader.read(ROOT / home / f"{data}.toml"))
        (tree,) = (t for changed, t in grid if reader.label(changed) == wanted)
        return reader.to_dict(reader.from_dict(tree))
    said = Store(ROOT / home).records()[rest]
    tree = {k: v for k, v in reader.read(ROOT / home / "base.toml").items()}
    whole = merged(tree, {**said["changes"], "seed": said["seed"]})
    return reader.to_dict(reader.from_dict(whole))


def said(cell, summary, **more):
    return {"key": key(cell.choices[0], 0), "summary": summary, **more}


def test_of_several_results_the_newest_counts(tmp_path, made, put, whole):
    """Whatever their names: two cells may come to one experiment."""
    cell = made.cell("Ditto", small=True)
    for name, mean, day in (("a", 0.1, 2), ("b", 0.2, 3), ("c", 0.3, 1)):
        put(tmp_path, name, said(cell, whole(mean), when=f"2026-01-0{day}"))
    shelf = kept.Shelf(tmp_path, None)
    assert judging.table(made.table, [cell], shelf, 1)[0].mean == 0.2
    put(tmp_path, "d", said(cell, whole(0.4), when="2026-02-01", change="x"))
    shelf.look()  # cells with one thing changed are others
    assert judging.table(made.table, [cell], shelf, 1)[0].mean == 0.2
    changed = kept.Shelf(tmp_path, None, "x")
    assert judging.table(made.table, [cell], changed, 1)[0].mean == 0.4


def test_a_name_that_no_folder_can_have_is_refused(tmp_path):
    with pytest.raises(Refusal, match="cannot be read .*give another folder"):
        kept.Shelf(tmp_path / ("x" * 300), None)


def test_others_results_are_seen_when_looked_for_again(tmp_path, made, put, whole):
    cell = made.cell("Ditto", small=True)
    shelf = kept.Shelf(tmp_path, None)
    put(tmp_path, "a", said(cell, whole()))
    assert shelf.find(cell, 0, 0) is None
    shelf.look()
    assert shelf.find(cell, 0, 0) is not None


def test_a_folder_of_results_that_cannot_be_made(tmp_path, put):
    (tmp_path / "loose").touch()
    with pytest.raises(Refusal, match="loose cannot be written .*another --out"):
        put(tmp_path, "a", {})


BAD: dict[str, Any] = {
    "no summary": {"summary": ...},
    "null": {"summary": None},
    "a list": {"summary": [1]},
    "empty": {"summary": {}},
    "another's": {"key": "0123456789ab"},
    "no key": {"key": ...},
    "when": {"when": 5},
    "curve": {"curve": [1, 2]},
    "a column": {"curve": {"round": [1], "shared_weighted": 0.5}},
    "lengths": {"curve": {"round": [1, 2], "shared_weighted": [0.5]}},
    "no rounds": {"curve": {"shared_weighted": [0.5]}},
    "a look": {"curve": {"round": [1], "shared_weighted": [None]}},
}
NUMBERS: list[Any] = [None, "abc", "0.5", [], True, 1.5, -0.1, float("inf")]


COUNTS: list[dict[str, Any]] = [
    {"seconds": None},
    {"seconds": "long"},
    {"client_steps": float("nan")},
    {"clients": 5, "malicious": 5},
    {"malicious": -1},
    {"valid": {}},
    {"valid": {"personal": {"accuracy_mean": None}}},
]


@pytest.fixture
def good(made, whole):
    cell = made.cell(small=True)
    curve = {"round": [1, 2], "shared_weighted": [0.4, 0.5]}
    named = key(cell.choices[0], 0)
    return {"key": named, "summary": whole(), "curve": curve, "when": "2026"}


def believed(place, said, made):
    """As the command has it, and never with a traceback."""
    cell = made.cell(small=True)
    text = {k: v for k, v in said.items() if v is not ...}
    (place / "x~1.json").write_text(json.dumps({"name": "x", "version": 1, **text}))
    shelf = kept.Shelf(place, None)
    (one,) = judging.table(made.table, [cell], shelf, 1)
    assert kept.spent(shelf, [cell], 1) == (50.0 if one.seeds else 0)
    return shelf.find(cell, 0, 0) is not None


def test_a_result_is(tmp_path, good, made):
    assert believed(tmp_path, good, made)
    assert believed(tmp_path, {**good, "curve": ...}, made)
    assert believed(tmp_path, {**good, "curve": {}, "when": ...}, made)


def test_what_is_none_is_not_there(tmp_path, good, made):
    bad: list[dict[str, Any]] = [{**good, **changes} for changes in BAD.values()]
    names = ("accuracy_weighted", "accuracy_mean", "accuracy_std")
    for whose, name, value in itertools.product(("shared", "personal"), names, NUMBERS):
        model = {**good["summary"][whose], name: value}
        bad.append({**good, "summary": {**good["summary"], whose: model}})
    bad += [{**good, "summary": {**good["summary"], **one}} for one in COUNTS]
    assert [one for one in bad if believed(tmp_path, one, made)] == []


def test_a_result_without_what_a_cell_is_about_is_none_of_it(made, whole):
    found = kept.Result({"summary": whole()})
    cell = made.cell(small=True)
    assert found.has(cell) and not found.has(cell._replace(metric="worst10"))
    assert not found.has(cell._replace(whose=("tests", "old", "shared")))
