"""Only what is a result is believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from troth.reproduce import judging, kept, result
from troth.reproduce.entry import key

BAD: dict[str, Any] = {
    "no summary": {"summary": ...},
    "null": {"summary": None},
    "a list": {"summary": [1]},
    "empty": {"summary": {}},
    "another's": {"key": "0123456789ab"},
    "no key": {"key": ...},
    "when": {"when": 5},
    "code": {"code": ["x"]},
    "curve": {"curve": [1, 2]},
    "a column": {"curve": {"round": [1], "shared_weighted": 0.5}},
    "lengths": {"curve": {"round": [1, 2], "shared_weighted": [0.5]}},
    "no rounds": {"curve": {"shared_weighted": [0.5]}},
    "a look": {"curve": {"round": [1], "shared_weighted": [None]}},
}
NUMBERS: list[Any] = [None, "abc", "0.5", [], True, 1.5, -0.1, float("inf")]


@pytest.fixture
def good(made: Any, whole: Any) -> dict[str, Any]:
    cell = made.cell(small=True)
    curve = {"round": [1, 2], "shared_weighted": [0.4, 0.5]}
    named = key(cell.choices[0], 0)
    return {"key": named, "summary": whole(), "curve": curve, "when": "2026"}


def believed(place: Path, said: dict[str, Any], made: Any) -> bool:
    """As the command has it, and never with a traceback."""
    cell = made.cell(small=True)
    named = key(cell.choices[0], 0)
    text = json.dumps({k: v for k, v in said.items() if v is not ...})
    (place / f"x~{named}.json").write_text(text)
    shelf = kept.Shelf(place, None)
    (one,) = judging.table(made.table, [cell], shelf, 1)
    assert kept.spent(shelf, [cell], 1) == (50.0 if one.seeds else 0)
    return shelf.find(cell, 0, 0) is not None


def test_a_result_is(tmp_path: Path, good: dict[str, Any], made: Any) -> None:
    assert believed(tmp_path, good, made)
    assert believed(tmp_path, {**good, "curve": ...}, made)
    assert believed(tmp_path, {**good, "curve": {}, "when": ...}, made)


@pytest.mark.parametrize("changes", BAD.values(), ids=BAD)
def test_what_is_none_is_not_there(
    tmp_path: Path, good: dict[str, Any], made: Any, changes: dict[str, Any]
) -> None:
    assert not believed(tmp_path, {**good, **changes}, made)


@pytest.mark.parametrize("value", NUMBERS, ids=str)
@pytest.mark.parametrize("whose", ["shared", "personal"])
def test_accuracies_are_shares(
    tmp_path: Path, good: dict[str, Any], made: Any, whose: str, value: Any
) -> None:
    for name in ("accuracy_weighted", "accuracy_mean", "accuracy_std"):
        model = {**good["summary"][whose], name: value}
        said = {**good, "summary": {**good["summary"], whose: model}}
        assert not believed(tmp_path, said, made)


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": None},
        {"seconds": "long"},
        {"client_steps": float("nan")},
        {"clients": 5, "malicious": 5},
        {"malicious": -1},
        {"valid": {}},
        {"valid": {"personal": {"accuracy_mean": None}}},
    ],
    ids=str,
)
def test_counts_and_validation(
    tmp_path: Path, good: dict[str, Any], made: Any, changes: dict[str, Any]
) -> None:
    said = {**good, "summary": {**good["summary"], **changes}}
    assert not believed(tmp_path, said, made)


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "null", "1", "", "\udcff"])
def test_texts_that_are_no_results(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x~k.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert result.read(file) is None and result.read(file, "k") is None


def test_a_folder_of_that_name_is_none(tmp_path: Path, made: Any) -> None:
    cell = made.cell(small=True)
    (tmp_path / f"x~{key(cell.choices[0], 0)}.json").mkdir()
    assert kept.Shelf(tmp_path, None).find(cell, 0, 0) is None
    assert result.read(tmp_path / "nowhere") is None


def test_a_bare_summary_is_one_where_no_key_is_promised(
    tmp_path: Path, whole: Any
) -> None:
    file = tmp_path / "summary.json"
    file.write_text(json.dumps(whole()))
    found = result.read(file)
    assert found is not None and found.summary == whole()
    assert result.read(file, "0123456789ab") is None


def test_a_result_without_what_a_cell_is_about_is_none_of_it(
    made: Any, whole: Any
) -> None:
    found = result.Result(Path("x"), {"summary": whole()})
    cell = made.cell(small=True)
    assert found.has(cell) and not found.has(cell._replace(metric="worst10"))
    assert not found.has(cell._replace(whose=("tests", "old", "shared")))
