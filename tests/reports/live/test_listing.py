"""Which runs lie in a folder, what a line says of each, and a curve that grows."""

import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from troth import files
from troth.reports.live import listing
from troth.reports.live.listing import Growing, Listing, lasting, pace


def unfinished(place, journal):
    """The same run without its end."""
    (place / files.SUMMARY).unlink()
    (place / files.ROUNDS).write_text(journal)
    return place


def test_runs_are_known_by_their_paths(told, tmp_path):
    root = tmp_path / "runs"
    for name in ("b", "a", "grid/x", "1/2/3", "1/2/4/5", "a/inside", ".hidden"):
        told(root / name, [0.5, 1.0])
    told(tmp_path / "outside", [0.5, 1.0])
    os.symlink(tmp_path / "outside", root / "link")
    found = Listing(root).paths()
    assert [*found] == ["1/2/3", "a", "b", "grid/x"]
    assert found["grid/x"] == root.resolve() / "grid" / "x"


def test_a_folder_that_may_not_be_entered_is_passed_over(told, tmp_path, monkeypatch):
    told(tmp_path / "mine", [0.5, 1.0])
    told(tmp_path / "theirs", [0.5, 1.0])
    stat = os.stat

    def denied(path, **more):
        if Path(path).parent.name == "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", denied)
    assert [*Listing(tmp_path).paths()] == ["mine"]


def test_the_folder_may_be_a_run_or_a_link(told, tmp_path):
    place = told(tmp_path / "r", [0.5, 1.0])
    os.symlink(place, tmp_path / "link")
    for folder in (place, tmp_path / "link"):
        assert Listing(folder).paths() == {".": place.resolve()}
    assert Listing(tmp_path / "nowhere").entries() == []


def test_a_finished_run(told, tmp_path):
    more = {"personalizer": "local", "attack": "random_update"}
    place = tmp_path / "g" / "r"
    told(place, [0.5, 1.0, 0.0], shared=[0.25, 0.5, 0], **more)
    (entry,) = Listing(tmp_path).entries()
    assert entry[:5] == ("g/r", "g", "r", "finished", "")
    assert entry.begun == (place / files.EXPERIMENT).stat().st_mtime
    assert entry[6:10] == ("4", "–", "–", "accuracy")
    assert entry[10:15] == ("0.500", "0.408", "0.000", "0.250", "1.2")
    assert entry[-3:] == ("local", "random_update", "mean")
    own = {"error_mean": 123.456, "error_std": None, "error_worst10": 1.0}
    summary = {"personal": own, "shared": {"error_mean": 2}, "rounds": 3}
    (place / files.SUMMARY).write_text(json.dumps(summary))
    (place / files.EXPERIMENT).write_bytes(b"\xff")
    (entry,) = Listing(tmp_path).entries()
    assert entry[9:15] == ("error", "123.5", "–", "1", "2", "–")
    assert entry.state == "finished" and entry[-3:] == ("–",) * 3


def test_an_unfinished_run(told, tmp_path):
    journal = '{"round": 0}\n{"round": 1}\n{"round":'
    place = unfinished(told(tmp_path / "r", [0.5, 1.0]), journal)
    here = Listing(tmp_path)
    (entry,) = here.entries()
    assert (entry.state, entry.rounds) == ("killed", "2 of 4")
    assert entry[7:15] == ("–",) * 8 and entry.personalizer == "ditto"
    with (place / files.ROUNDS).open("ab") as held:
        assert files.hold(held)
        assert here.entries()[0].state == "running"
    assert here.entries()[0].state == "killed"


def test_how_a_run_ended(told, tmp_path):
    place = unfinished(told(tmp_path / "r", [0.5, 1.0]), '{"round": 0}\n')
    here = Listing(tmp_path)
    for said, state, why in (
        ('{"state": "failed", "why": "ValueError: no"}', "failed", "ValueError: no"),
        ('{"state": "interrupted", "why": ""}', "interrupted", ""),
        ('{"state": "<b>", "why": ""}', "killed", ""),
        ('{"state": ["failed"], "why": ""}', "killed", ""),
        ("nonsense", "killed", ""),
    ):
        (place / files.ENDED).write_text(said)
        (entry,) = here.entries()
        assert (entry.state, entry.why) == (state, why)


def test_results_so_far_are_those_of_the_last_evaluation(told, tmp_path):
    journal = line(0, personal=0.5, shared=0.25) + line(1, personal=0.75, shared=0.5)
    unfinished(told(tmp_path / "r", [0.5, 1.0]), journal.decode())
    (entry,) = Listing(tmp_path).entries()
    assert (entry.mean, entry.shared, entry.worst10) == ("0.750", "0.500", "–")


def test_rate_and_time_left_are_those_of_the_rounds_seen(tmp_path, monkeypatch):
    """Ten rounds in five seconds, and ninety that are left."""
    growing = Growing(tmp_path)
    assert pace(growing.rate()) == lasting(growing.left(100)) == "–"
    for done, time in ((0, 1000), (10, 1005)):
        add(tmp_path, b"".join(line(k) for k in range(max(0, done - 9), done + 1)))
        os.utime(tmp_path / files.ROUNDS, (time, time))
        growing.look()
    monkeypatch.setattr(listing.time, "time", lambda: 1006.0)
    assert growing.rate() == 2.0 and growing.left(101) == 44.0
    growing.pause()  # it was killed: the pause does not count
    assert pace(growing.rate()) == "–"


@pytest.mark.parametrize(
    ("rate", "text"),
    [(2.0, "2 / s"), (0.5, "30 / min"), (0.01, "36 / h"), (0.0, "–")],
)
def test_rates_are_written_in_a_unit_that_fits(rate, text):
    assert pace(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")]
    + [(200_000, "2 d 7 h"), (float("nan"), "–")],
)
def test_times_have_two_units(seconds, text):
    assert lasting(seconds) == text


def test_files_are_read_when_they_change(told, tmp_path, monkeypatch):
    place = told(tmp_path / "r", [0.5, 1.0])
    counted = Mock(wraps=listing._summary)
    monkeypatch.setattr(listing, "_summary", counted)
    here = Listing(tmp_path)
    assert here.entries() == here.entries() and counted.call_count == 1
    said = json.loads((place / files.SUMMARY).read_text())
    said["personal"]["accuracy_mean"] = 0.125
    (place / files.SUMMARY).write_text(json.dumps(said))
    assert here.entries()[0].mean == "0.125" and counted.call_count == 2


@pytest.mark.parametrize("summary", ["", "[]", "{}", '{"personal": {}, "shared": {}}'])
def test_a_summary_that_says_nothing_is_none(summary, told, tmp_path):
    (told(tmp_path / "r", [0.5, 1.0]) / files.SUMMARY).write_text(summary)
    (entry,) = Listing(tmp_path).entries()
    assert (entry.state, entry.rounds, entry.std) == ("killed", "4 of 4", "–")


def line(number, metric="accuracy", **means):
    """What a round writes, with an evaluation where there are means."""
    said = {"round": number, "cohort": []}
    if means:
        said["evaluation"] = {k: {f"{metric}_mean": v} for k, v in means.items()}
    return json.dumps(said).encode() + b"\n"


def add(place, content):
    with (place / files.ROUNDS).open("ab") as journal:
        journal.write(content)


def test_a_run_from_its_first_line_to_its_last(told, tmp_path):
    place = told(tmp_path / "r", [0.5, 1.0], shared=[0.25, 0.5])
    growing = Growing(place)
    assert (growing.rounds, growing.metric, growing.points) == (0, "", [])
    growing.look()
    assert (growing.rounds, growing.metric) == (4, "accuracy")
    assert growing.points == [[k, 0.75, 0.375] for k in (1, 2, 3, 4)]
    (place / files.ROUNDS).unlink()  # which leaves the curve
    growing.look()
    assert growing.rounds == 4 and len(growing.points) == 4


def test_half_a_line_waits_for_its_end_and_what_was_read_is_not_read_again(tmp_path):
    growing, whole = Growing(tmp_path), line(1, personal=0.5, shared=0.25)
    for part in (line(0), whole[:20], whole[20:-1]):
        add(tmp_path, part)
        growing.look()
        assert (growing.rounds, growing.points) == (1, [])
    add(tmp_path, b"\n")
    growing.look()
    assert (growing.rounds, growing.points) == (2, [[2, 0.5, 0.25]])
    changed = (tmp_path / files.ROUNDS).read_bytes().replace(b"0.5", b"0.9")
    (tmp_path / files.ROUNDS).write_bytes(changed + line(2, personal=0.7, shared=0.6))
    growing.look()
    assert growing.points == [[2, 0.5, 0.25], [3, 0.7, 0.6]]


def test_a_journal_that_was_cut_back_is_read_anew(tmp_path):
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


def test_errors_are_a_metric_too_and_what_is_no_number_stays_empty(tmp_path):
    """Of a run that had not begun when it was looked at first."""
    growing = Growing(tmp_path)
    growing.look()
    assert (growing.rounds, growing.points) == (0, [])
    add(tmp_path, line(0, "error", personal=2.0, shared=None))
    growing.look()
    assert growing.metric == "error" and growing.points == [[1, 2.0, None]]


ODD = (b"nonsense", b"\xff", b"[1]", b"{}", b'{"round": null}', b"")
ODD += (b'{"round": 7, "evaluation": {"personal": {}, "shared": null}}',)


def test_lines_of_nobody_are_passed_over(tmp_path):
    last = line(1, personal=0.75, shared=0.25)
    odd = b"\n".join(ODD) + b"\n"
    add(tmp_path, line(0, personal=0.5, shared=0.5) + odd + last)
    growing = Growing(tmp_path)
    growing.look()
    assert growing.rounds == 2
    assert growing.points == [[1, 0.5, 0.5], [2, 0.75, 0.25]]
