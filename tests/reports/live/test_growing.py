"""The curve of a run that goes on, from a journal that grows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from troth import files
from troth.reports.live.listing import Growing


def line(number: int, metric: str = "accuracy", **means: float | None) -> bytes:
    """What a round writes, with an evaluation where there are means."""
    said: dict[str, Any] = {"round": number, "cohort": []}
    if means:
        said["evaluation"] = {k: {f"{metric}_mean": v} for k, v in means.items()}
    return json.dumps(said).encode() + b"\n"


def add(place: Path, content: bytes) -> None:
    with (place / files.ROUNDS).open("ab") as journal:
        journal.write(content)


def test_a_run_from_its_first_line_to_its_last(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "r", [0.5, 1.0], shared=[0.25, 0.5])
    growing = Growing(place)
    assert (growing.rounds, growing.metric, growing.points) == (0, "", [])
    growing.look()
    assert (growing.rounds, growing.metric) == (4, "accuracy")
    assert growing.points == [[k, 0.75, 0.375] for k in (1, 2, 3, 4)]


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    growing.look()
    assert (growing.rounds, growing.points) == (0, [])
    add(tmp_path, line(0, personal=0.5, shared=0.25))
    growing.look()
    assert growing.points == [[1, 0.5, 0.25]]


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    growing, whole = Growing(tmp_path), line(1, personal=0.5, shared=0.25)
    for part in (line(0), whole[:20], whole[20:-1]):
        add(tmp_path, part)
        growing.look()
        assert (growing.rounds, growing.points) == (1, [])
    add(tmp_path, b"\n")
    growing.look()
    assert (growing.rounds, growing.points) == (2, [[2, 0.5, 0.25]])


def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    first = line(0, personal=0.5, shared=0.5)
    add(tmp_path, first)
    growing = Growing(tmp_path)
    growing.look()
    changed = first.replace(b"0.5", b"0.9")
    (tmp_path / files.ROUNDS).write_bytes(changed + line(1, personal=0.7, shared=0.6))
    growing.look()
    assert growing.points == [[1, 0.5, 0.5], [2, 0.7, 0.6]]


def test_a_journal_that_was_cut_back_is_read_anew(tmp_path: Path) -> None:
    for k in range(3):
        add(tmp_path, line(k, personal=0.5, shared=0.5))
    add(tmp_path, b'{"round"')  # the run was killed here
    growing = Growing(tmp_path)
    growing.look()
    assert growing.rounds == 3
    again = line(0, personal=0.5, shared=0.5) + line(1, personal=0.75, shared=0.25)
    (tmp_path / files.ROUNDS).write_bytes(again)
    growing.look()
    assert growing.rounds == 2
    assert growing.points == [[1, 0.5, 0.5], [2, 0.75, 0.25]]


def test_errors_are_a_metric_too_and_what_is_no_number_stays_empty(
    tmp_path: Path,
) -> None:
    add(tmp_path, line(0, "error", personal=2.0, shared=None))
    growing = Growing(tmp_path)
    growing.look()
    assert growing.metric == "error" and growing.points == [[1, 2.0, None]]


@pytest.mark.parametrize(
    "odd",
    [
        *(b"nonsense", b"\xff", b"[1]", b"{}", b'{"round": null}', b""),
        b'{"round": 7, "evaluation": {"personal": {}, "shared": {}}}',
        b'{"round": 7, "evaluation": {"personal": null, "shared": null}}',
    ],
)
def test_lines_of_nobody_are_passed_over(odd: bytes, tmp_path: Path) -> None:
    last = line(1, personal=0.75, shared=0.25)
    add(tmp_path, line(0, personal=0.5, shared=0.5) + odd + b"\n" + last)
    growing = Growing(tmp_path)
    growing.look()
    assert growing.rounds == 2
    assert growing.points == [[1, 0.5, 0.5], [2, 0.75, 0.25]]


def test_a_journal_that_is_gone_leaves_the_curve(told: Any, tmp_path: Path) -> None:
    place = told(tmp_path / "r", [0.5, 1.0])
    growing = Growing(place)
    growing.look()
    (place / files.ROUNDS).unlink()
    growing.look()
    assert growing.rounds == 4 and len(growing.points) == 4
