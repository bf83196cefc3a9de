"""Personal state on disk: where, how much, and that a run does not notice it."""

import json
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch

import troth
from troth import devices, files
from troth.cli import tables
from troth.config import reader
from troth.engine import plan
from troth.runs import train
from troth.types import Refusal

SMALL = {
    "partition": {"name": "classes", "clients": 12, "per_client": 4},
    "model": {"name": "mlp", "widths": [16]},
    "train": {"rounds": 6, "cohort": 5, "steps": 2, "batch": 16},
    "personalizer": {"name": "ditto", "lam": 0.5},
    "engine": {"how": "loop", "store": "disk"},
    "checkpoint": {"every": 2},
}
D = (64 + 1) * 16 + (16 + 1) * 10
MOST = (12 + 10) * D * 4  # bytes of state: there are 12 clients, and 10 more may move
RESULTS = (files.ROUNDS, files.CLIENTS, files.SHARED, files.PERSONAL)


def process(program, *arguments):
    """Run a program with these arguments to its end."""
    words = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def changed(**sections):
    return SMALL | {k: SMALL.get(k, {}) | v for k, v in sections.items()}


def contents(path):
    summary = json.loads((path / files.SUMMARY).read_text())
    del summary["seconds"], summary["setup_seconds"]
    return summary, [(path / name).read_bytes() for name in RESULTS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run with its state in memory, never stopped."""
    path = tmp_path_factory.mktemp("whole") / "run"
    troth.run(changed(engine={"store": "host"}), out=path)
    return path


def test_state_on_disk_gives_the_bytes_of_state_in_memory(tmp_path, whole):
    said, seen = [], []

    def watch(p):
        if p.state is None:
            seen.append(p.done)
            assert (tmp_path / "run" / plan.FILE).exists()
        else:
            said.append(p.state)
            assert seen == [] and not (tmp_path / "run" / files.CHECKPOINT).exists()

    [run] = troth.run(SMALL, out=tmp_path / "run", watch=watch)
    assert contents(run.path) == contents(whole)
    assert said == [train.State(run.path / plan.FILE, MOST)]
    facts = run.experiment.resolved
    assert (facts["store"], facts["state_bytes"]) == ("disk", MOST)
    left = {p.name for p in run.path.iterdir()}
    assert left == {*RESULTS, files.EXPERIMENT, files.SUMMARY}  # no state, no more


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_resume_goes_on_bit_for_bit_from_its_state_file(tmp_path, whole, killed, stop):
    out, lost = tmp_path / "cut", tmp_path / "lost"
    killed(SMALL, stop, out)
    assert (out / plan.FILE).stat().st_size > 0
    if stop > 1:  # there is a checkpoint
        (out / plan.FILE).rename(lost)
        with pytest.raises(Refusal, match="has 0 bytes and the checkpoint needs"):
            troth.resume(out)
        lost.rename(out / plan.FILE)
    troth.resume(out)
    assert contents(out) == contents(whole)


FULL = """
import resource, sys
most = int(sys.argv.pop())
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
from troth.cli.app import main
main()
"""


@pytest.mark.slow("a real process, with a limit on its files")
def test_a_full_disk_stops_a_run_that_can_go_on(tmp_path, whole):
    """The system's own limit on files, of 15 rows, stands for a full disk."""
    file, out = tmp_path / "experiment.toml", tmp_path / "cut"
    file.write_text(reader.dumps(changed(checkpoint={"every": 1})))
    done = process(FULL, "run", file, "--out", out, 15 * D * 4)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "cannot be read or written (File too large)" in done.stderr
    troth.resume(out)
    assert contents(out) == contents(whole)


def test_finetuning_writes_all_clients_on_disk(tmp_path):
    """A last phase of all clients, group after group, is the same on disk."""
    own, found = {"name": "finetune", "steps": 2}, []
    for where in ("host", "disk"):
        tree = changed(engine={"store": where}, train={"rounds": 2})
        [run] = troth.run({**tree, "personalizer": own}, out=tmp_path / where)
        found.append(contents(run.path))
    assert found[0] == found[1]
    assert run.experiment.resolved["state_bytes"] == 2 * 12 * (D + 1) * 4


def test_state_may_lie_elsewhere(tmp_path, whole, killed):
    place = tmp_path / "scratch" / "deep"
    tree = changed(engine={"state_dir": str(place)})
    state = killed(tree, 3, tmp_path / "one").state
    assert state is not None and state.file.parent == place
    assert list(place.iterdir()) == [state.file]
    assert not (tmp_path / "one" / plan.FILE).exists()
    [other] = troth.run(tree, out=tmp_path / "two")  # does not disturb the first
    assert list(place.iterdir()) == [state.file]
    assert contents(other.path) == contents(whole)
    (tmp_path / "one").rename(tmp_path / "moved")
    troth.resume(tmp_path / "moved")
    assert contents(tmp_path / "moved") == contents(whole)
    assert list(place.iterdir()) == []


def test_leftovers_of_a_finished_run_are_removed(tmp_path):
    """As when it is killed between its last file and its tidying up."""
    [run] = troth.run(SMALL, out=tmp_path / "run")
    left = [run.path / name for name in (files.CHECKPOINT, plan.FILE)]
    for file in left:
        file.parent.mkdir()
        file.write_bytes(b"0" * 100)
    troth.resume(run.path)
    assert not any(file.parent.exists() for file in left)


def test_what_does_not_fit_goes_to_disk_and_stays_there(
    tmp_path, whole, killed, monkeypatch
):
    """`auto` decides by half of what is free, and a resumed run keeps its store."""
    need, half = 12 * D * 4, [0]
    monkeypatch.setattr(devices, "free", lambda device: 2 * half[0] + 1)
    tree = changed(engine={"store": "auto"})
    killed(tree, 3, tmp_path / "cut")
    for half[0], kept in ((need - 1, "disk"), (need, "device")):
        [run] = troth.run(tree, out=tmp_path / kept)
        assert run.experiment.resolved["store"] == kept
        assert run.experiment.engine.store == "auto"
    [run] = troth.resume(tmp_path / "cut")
    assert run.experiment.resolved["store"] == "disk"
    assert contents(run.path) == contents(whole)


COHORT = {"train": {"rounds": 30, "cohort": 10}}
OFTEN, NEVER = {"checkpoint": {"every": 5}}, {"output": {"checkpoint": False}}
FEW = {"train": {"rounds": 30}, "output": {"personal": False}}


def test_only_clients_that_are_asked_take_space():
    for more, n, finishes, clients in (
        ({}, 1000, False, (300, 300, 301)),
        ({}, 200, False, (200, 200, 201)),
        ({}, 1000, True, (1000, 1000, 1001)),
        (FEW, 70, False, (70, 70, 0)),
        (OFTEN, 1000, False, (300, 50, 301)),
        (OFTEN, 1000, True, (1000, 1000, 1001)),
        (NEVER, 1000, True, (1000, 0, 1001)),
    ):
        e, (rows, shadow, models) = reader.from_dict(COHORT | more), clients
        found = plan.need(e, n, row=40, model=8, finishes=finishes)
        assert found == (rows * 40, shadow * 40, models * 8)
        assert found.disk == (rows + shadow) * 40
        assert plan.need(e, n, 0, 8, finishes) == (0, 0, 0)


class Usage(NamedTuple):
    free: int


def test_a_disk_without_room_is_refused_before_the_start(tmp_path, monkeypatch):
    free = [MOST + 13 * D * 4 - 1]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free[0]))
    with pytest.raises(Refusal) as refused:
        troth.run(SMALL, out=tmp_path / "run")
    assert str(refused.value) == (
        "client state on disk may take 106.5 kB, the clients' models another 62.9 kB; "
        f"169.4 kB of this would be on the disk of {tmp_path}, which has 169.4 kB "
        "free; make room, or set engine.state_dir to a folder on a larger disk"
    )
    with pytest.raises(Refusal, match="169.4 kB free"):
        troth.run(SMALL | {"grid": {"seed": [0, 1]}}, out=tmp_path / "grid")
    assert list(tmp_path.iterdir()) == []
    free[0] += 1
    troth.run(SMALL, out=tmp_path / "run")
    free[0] = 0  # in memory it does not matter
    troth.run(changed(engine={"store": "host"}), out=tmp_path / "host")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_place_that_cannot_be_written(tmp_path, kind):
    place = tmp_path / "no"
    if kind == "file":
        place.write_text("")
    elif os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    else:
        place.mkdir(mode=0o500)
        place = place / "x"
    tree = changed(engine={"state_dir": str(place)})
    words = r"no is not a folder that you may write to; set engine\.state_dir to such"
    with pytest.raises(Refusal, match=words):
        troth.run(tree, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_dry_run_says_where_and_how_much(capsys):
    [cost] = troth.cost(SMALL)
    [inside] = troth.cost(changed(engine={"store": "host"}))
    assert (cost.disk, inside.disk) == (MOST, 0)
    assert inside.memory == cost.memory + 12 * D * 4
    tables.costs([inside], "a", as_json=False)
    assert "on disk" not in capsys.readouterr().out
    tables.costs([inside, cost], "a", as_json=False)
    assert "106.5 kB" in (said := capsys.readouterr().out)
    assert "Client state is stored on disk in the folder of the run." in said


def test_sizes_for_people_and_the_place_of_a_store():
    counts = (0, 999, 1000, 8_883_120_000, 3 * 10**16)
    said = ["0 bytes", "999 bytes", "1.0 kB", "8.9 GB", "30000.0 TB"]
    assert [plan.size(count) for count in counts] == said
    cuda, cpu = torch.device("cuda:1"), torch.device("cpu")
    found = [plan.place(name, cuda) for name in ("device", "host", "disk")]
    assert found == [cuda, cpu, None]


LIMITED = """
import json, resource, sys, troth
from pathlib import Path
tree, out = json.loads(sys.argv[1]), Path(sys.argv[2])
def size():
    [line] = [s for s in open("/proc/self/status") if s.startswith("VmData")]
    return int(line.split()[1]) * 1024
def limit(p):
    if p.done == 1:
        resource.setrlimit(resource.RLIMIT_DATA, (size() + 160 * 2**20,) * 2)
[run] = troth.run(tree, out=out / "disk", watch=limit)
run.model(0)
print("disk")
tree["engine"]["store"] = "host"
troth.run(tree, out=out / "host")
print("host")
"""


@pytest.mark.slow("600 clients in a process of its own")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_state_on_disk_takes_no_memory(tmp_path):
    """Rows of 0.6 MB, 86 % of 600, in a process that may grow by 160 MB after round 1:
    on disk they fit, and in memory they do not."""
    tree = {
        "partition": {"name": "iid", "clients": 600},
        "model": {"name": "mlp", "widths": [2000]},
        "train": {"rounds": 60, "cohort": 20, "steps": 1, "batch": 2},
        "evaluate": {"clients": 5, "every": 60},
        "personalizer": {"name": "ditto", "lam": 0.5},
        "engine": {"how": "loop", "store": "disk"},
        "output": {"checkpoint": False},
    }
    done = process(LIMITED, json.dumps(tree), tmp_path)
    assert done.stdout == "disk\n", done.stderr
    assert "can't allocate memory" in done.stderr
