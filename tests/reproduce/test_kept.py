"""What is committed is found by the cells that it is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from troth.config import reader
from troth.reproduce import digests, judging, kept, listing
from troth.reproduce.entry import experiment, key, merged
from troth.reproduce.settings import SMALL
from troth.types import Refusal

ROOT = Path(__file__).parents[2] / "experiments"
CELLS = [entry for entry in listing.entries().values() if entry.cells]


def test_committed_results_are_of_the_very_cells_that_point_at_them() -> None:
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
                theirs = _experiment(ROOT / pattern.format(seed=0))
                for name in own.keys() - {*aside, "evaluate"}:
                    assert own[name] == theirs[name], (cell.label, name)
    assert seen > 80


def _experiment(file: Path) -> dict[str, object]:
    if file.name == "summary.json":
        tables = [t for _, t in reader.expand(reader.read(_base(file)))]
        wanted = file.parent.name
        for changed, tree in reader.expand(reader.read(_base(file))):
            if reader.label(changed) == wanted:
                return reader.to_dict(reader.from_dict(tree))
        raise AssertionError((file, len(tables)))
    said = json.loads(file.read_text())
    folder = ROOT / file.relative_to(ROOT).parts[0]
    base = next(
        f for f in (folder / "base.toml", folder / "experiment.toml") if f.exists()
    )
    tree = {k: v for k, v in reader.read(base).items() if k != "grid"}
    whole = merged(tree, {**said["changes"], "seed": said["seed"]})
    return reader.to_dict(reader.from_dict(whole))


def _base(file: Path) -> Path:
    return ROOT / "natural" / f"{file.parent.parent.name}.toml"


def test_a_file_has_a_line_a_key() -> None:
    said = {"label": "a / b", "accuracy": [0.5, 1.0], "summary": {"x": {"y": None}}}
    text = kept._text(said)
    assert json.loads(text) == said and len(text.splitlines()) == 2 + len(said)
    assert json.loads(kept._text({})) == {}


def said(cell: Any, summary: dict[str, Any], choice: int = 0, **more: object) -> Any:
    named = key(cell.choices[choice], 0)
    return {"key": named, "summary": summary, "code": "older", **more}


def test_of_several_results_that_of_todays_code_counts(
    tmp_path: Path, made: Any, put: Any, whole: Any
) -> None:
    """Whatever their names: two cells may come to one experiment."""
    cell = made.cell("Ditto", small=True)
    named = key(cell.choices[0], 0)
    today = digests.code(experiment(cell.choices[0], 0))
    put(tmp_path, f"a~{named}", said(cell, whole(0.1), when="2026-01-02"))
    put(tmp_path, f"b~{named}", said(cell, whole(0.2), when="2026-01-03"))
    put(tmp_path, f"c~{named}", said(cell, whole(0.3), when="2026-01-01"))
    shelf = kept.Shelf(tmp_path, None)

    def shown() -> float:
        return judging.table(made.table, [cell], kept.Shelf(tmp_path, None), 1)[0].mean

    assert shown() == 0.2  # the newest
    assert kept.other_code(shelf, [cell], 1) == [True]
    put(tmp_path, f"d~{named}", said(cell, whole(0.4), when="2025-01-01", code=today))
    shelf.look()
    assert shown() == 0.4 and kept.other_code(shelf, [cell], 1) == [False]
    put(tmp_path, f"0~{named}", said(cell, whole(0.5), when="2026-09-09"))
    assert shown() == 0.4
    assert kept.other_code(kept.Shelf(None, None), [cell], 1) == [False]


def test_choices_are_made_by_the_results_that_count(
    tmp_path: Path, made: Any, put: Any, whole: Any
) -> None:
    one = made.cell("Ditto", small=True)
    trees = tuple(merged(one.choices[0], {"train": {"lr": lr}}) for lr in (0.1, 0.2))
    cell = one._replace(choices=trees)
    today = digests.code(experiment(trees[0], 0))
    for choice, (old, new) in enumerate([(0.9, 0.1), (0.1, 0.2)]):
        named = key(trees[choice], 0)
        put(tmp_path, f"a~{named}", said(cell, whole(old), choice, when="2026-05-05"))
        put(tmp_path, f"b~{named}", said(cell, whole(new), choice, code=today))
    assert kept.Shelf(tmp_path, None).chosen(cell) == 1


def test_a_name_that_no_folder_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be looked into .*give another folder"):
        kept.Shelf(tmp_path / ("x" * 300), None)


def test_others_results_are_seen_when_looked_for_again(
    tmp_path: Path, made: Any, put: Any, whole: Any
) -> None:
    cell = made.cell("Ditto", small=True)
    shelf = kept.Shelf(tmp_path, None)
    put(tmp_path, f"a~{key(SMALL.tree, 0)}", said(cell, whole()))
    assert shelf.find(cell, 0, 0) is None
    shelf.look()
    assert shelf.find(cell, 0, 0) is not None


def test_a_folder_of_results_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "Fashion-MNIST").touch()
    with pytest.raises(Refusal, match="Fashion-MNIST cannot be made .*another --out"):
        kept._made(tmp_path / "Fashion-MNIST")
