"""Runs in trackers: what they are sent, and that training does not notice them."""

import json
import logging
import shutil
import subprocess
import sys
import threading
import time

import pytest

import troth
from troth.config.schema import Part
from troth.runs import track
from troth.runs.load import Tail
from troth.types import Refusal

TINY = {
    "partition": {"name": "iid", "clients": 3},
    "train": {"rounds": 4, "steps": 1, "batch": 8},
    "evaluate": {"every": 2},
    "engine": {"how": "vmap", "chunk": 3, "device": "cpu"},
}
OWN = """
import time

sent = []

class Kept:
    def __init__(self, run, parent):
        self.run, self.parent, self.rounds, self.files = run, parent, {}, {}
        self.ended, self.where = [], "the list `sent`"
        sent.append(self)

    def log(self, rounds):
        for step, values in rounds.items():
            assert step not in self.rounds or "final/clients" in values
            self.rounds.setdefault(step, {}).update(values)

    def save(self, files):
        self.files |= {file.name: file.read_text() for file in files}

    def close(self, finished):
        self.ended.append(finished)

def kept(run, parent, *, loud=False):
    return Kept(run, parent)

def raising(run):
    raise KeyError("no such project")

def hanging(run):
    time.sleep(20)

def full(run):
    with open("/dev/full", "w") as file:
        file.write("x" * 100_000)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module with trackers."""
    (tmp_path / "own_trackers.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    import own_trackers

    yield own_trackers
    del sys.modules["own_trackers"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return troth.run(TINY, out=tmp_path_factory.mktemp("run") / "one")[0]


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    place = tmp_path_factory.mktemp("grid") / "many"
    return troth.run(TINY | {"grid": {"seed": [0, 1]}}, out=place)


KEPT = Part("own_trackers:kept")


def test_a_tracker_gets_the_values_and_files_of_a_run(run, own):
    assert track.track([run.path], KEPT) == (1, ("the list `sent`",))
    (got,) = own.sent
    assert {*got.rounds} == {1, 2, 3, 4} and got.ended == [True]
    for record in run.rounds:
        values = got.rounds[record["round"] + 1]
        assert values["round/asked"] == 3 and values["round/dropped"] == 0
        assert values["round/moved"] == record["moved"]
        if "evaluation" in record:
            mean = record["evaluation"]["personal"]["loss_mean"]
            assert values["personal/loss_mean"] == mean
        else:
            assert "personal/loss_mean" not in values
    final = got.rounds[4]["final/shared/accuracy_mean"]
    assert final == run.summary["shared"]["accuracy_mean"]
    assert got.run.settings["train.rounds"] == "4" and got.run.name == "one"
    assert {*got.files} == {"experiment.toml", "summary.json", "clients.csv"}
    text = (run.path / "clients.csv").read_text()
    assert got.files["clients.csv"] == text


def test_a_grid_is_the_parent_of_its_runs(grid, own):
    root = grid[0].path.parent
    assert track.track([root], KEPT).runs == 2
    parent, *children = own.sent
    assert parent.run.is_grid and {*parent.files} == {"grid.toml"}
    assert [c.run.name for c in children] == ["many/seed=0", "many/seed=1"]
    assert all(c.parent is parent and c.run.grid == "many" for c in children)
    assert [c.ended for c in own.sent] == [[True]] * 3


def test_every_run_has_an_id_of_its_own(grid, own):
    track.track([grid[0].path.parent], KEPT)
    first = [kept.run.id for kept in own.sent]
    track.track([grid[0].path.parent], KEPT)
    assert len({*first}) == 3 and [k.run.id for k in own.sent[3:]] == first


def test_following_a_run_that_is_resumed(run, own, tmp_path):
    """Lines come in parts, the file is shortened, and the summary is the end."""
    place = tmp_path / "grows"
    lines = (run.path / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    follow = {"follow": True, "over": threading.Event()}
    done = threading.Thread(target=track.track, args=([place], KEPT), kwargs=follow)
    done.start()
    time.sleep(0.1)  # the folder does not exist yet
    shutil.copytree(run.path, place, ignore=lambda *_: ["summary.json"])
    growing = place / "rounds.jsonl"
    for content in (lines[0] + lines[1][:9], lines[0], b"".join(lines[:3])):
        growing.write_bytes(content)
        time.sleep(1.5 * track.PAUSE)
    growing.write_bytes(b"".join(lines))
    shutil.copy(run.path / "summary.json", place)
    done.join(20)
    (got,) = own.sent
    assert not done.is_alive() and {*got.rounds} == {1, 2, 3, 4}
    assert got.ended == [True]


def test_a_run_that_stops_is_closed_as_unfinished(run, own, tmp_path):
    place = tmp_path / "stopped"
    shutil.copytree(run.path, place, ignore=lambda *_: ["summary.json"])
    track.track([place], KEPT)
    assert own.sent[0].ended == [False] and {*own.sent[0].rounds} == {1, 2, 3, 4}


def test_a_failure_is_one_sentence(run, own):
    words = "'own_trackers:raising' failed .KeyError: 'no.*troth track .* --to own_tra"
    with pytest.raises(Refusal, match=words):
        track.track([run.path], Part("own_trackers:raising"))
    with pytest.raises(Refusal, match="there is no tracker 'mlfow'.*mlflow"):
        track.track([run.path], Part("mlfow"))
    with pytest.raises(Refusal, match="has no option 'a'"):
        troth.run(TINY | {"track": {"name": "mlflow", "a": 1}})


def test_tail_reads_every_round_once(tmp_path):
    file = tmp_path / "rounds.jsonl"
    tail = Tail(file)
    assert tail.read() == [] and not tail.shortened
    file.write_text('{"round": 0}\nno json\n[1]\n{"round": 1')
    assert tail.read() == [{"round": 0}]
    file.write_text('{"round": 0}\nno json\n[1]\n{"round": 12}\n')
    assert tail.read() == [{"round": 12}] and tail.read() == []
    file.write_text('{"round": 0}\n')
    assert tail.shortened and tail.read() == [{"round": 0}]


def content(path):
    """All files of a run, without the section that names trackers and without times."""
    found = {file.name: file.read_bytes() for file in path.iterdir()}
    summary = json.loads(found["summary.json"])
    del summary["seconds"], summary["setup_seconds"]
    settings = found["experiment.toml"].split(b"[[track]]")
    tail = settings[-1].partition(b"\n\n[")[2] if len(settings) > 1 else b""
    return found | {"summary.json": summary, "experiment.toml": settings[0] + tail}


@pytest.mark.slow("starts a process per tracker")
def test_no_tracker_changes_a_run(run, own, tmp_path, monkeypatch, caplog):
    """Neither one that raises, nor one that hangs, nor one without space."""
    monkeypatch.setattr(track, "PATIENCE", 15.0)
    names = [f"own_trackers:{how}" for how in ("raising", "hanging", "full")]
    with caplog.at_level(logging.WARNING, "troth"):
        (tracked,) = troth.run(TINY | {"track": names}, out=tmp_path / "one")
    mine, without = content(tracked.path), content(run.path)
    for name in without:
        if name != "experiment.toml":
            assert mine[name] == without[name], name
    said = "\n".join(caplog.messages)
    assert "KeyError: 'no such project'" in said
    assert "No space left on device" in said
    assert "own_trackers:hanging is still sending" in said


@pytest.mark.slow("starts processes")
def test_without_a_handler_of_logs_a_failure_is_a_warning(run, own, tmp_path):
    """From Python, a tracker that fails is not silent; errors do not reach the run."""
    code = f"import troth; troth.run({TINY | {'track': 'own_trackers:raising'}!r}, out="
    for options, said in (([], 1), (["-W", "error"], 0)):
        place = tmp_path / str(said)
        script = tmp_path / "mine.py"
        script.write_text(f"{code}{str(place)!r})\n")
        ran = subprocess.run([sys.executable, *options, script], capture_output=True)
        text = ran.stderr.decode()
        assert ran.returncode == 0 and (place / "summary.json").exists(), text
        found = text.count("own_trackers:raising does not track")
        assert found == said and ("mine.py:1: Notice" in text) == bool(said)


def test_what_handles_logs_hears_of_failures(monkeypatch):
    log = logging.getLogger("troth.track.alone")
    log.propagate = False
    monkeypatch.setattr(track, "_log", log)
    assert not track._heard()
    log.addHandler(logging.NullHandler())
    assert not track._heard()
    log.addHandler(logging.StreamHandler())
    assert track._heard()


@pytest.mark.slow("starts a process")
def test_a_run_is_tracked_while_it_trains(tmp_path):
    pytest.importorskip("tensorboard")
    tracked = TINY | {"track": {"name": "tensorboard", "folder": str(tmp_path / "t")}}
    troth.run(tracked, out=tmp_path / "one")
    deadline = time.monotonic() + 60
    while not (tmp_path / "t/one/artifacts/report.html").exists():
        assert time.monotonic() < deadline
        time.sleep(0.2)


GUARDED = """
import sys, time
from pathlib import Path
from troth.runs import track
track.LIMIT, track.PAUSE = {limit}, 0.1
track.RESERVE = {reserve}
track.until_closed(Path({root!r}))
time.sleep(60)
"""


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(
    ("limit", "reserve", "why"),
    [(600, 2**80, "the disk is almost full"), (0.1, 0, "it took longer than")],
)
def test_a_live_tracker_gives_up(limit, reserve, why, tmp_path):
    code = GUARDED.format(limit=limit, reserve=reserve, root=str(tmp_path / "no" / "x"))
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, input=b"", capture_output=True, timeout=40)
    assert ran.returncode == 1 and why in ran.stderr.decode()
