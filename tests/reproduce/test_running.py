"""Cells are run once, kept whole, and found again by what was trained."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from troth.reproduce import kept, listing, running, settings, store
from troth.reproduce.entry import Cell, merged
from troth.reproduce.kept import Shelf
from troth.reproduce.store import Store

TINY = {"train": {"rounds": 2, "steps": 1}, "engine": {"how": "vmap", "chunk": 10}}
TINY = merged(settings.SMALL.tree, TINY)
ATTACKS = {
    "clean": {},
    "A1": {"adversary": {"clients": [0, 1]}},
    "A3": {"adversary": {"clients": [2]}, "attack": "model_replacement"},
}


def cells(rounds=2):
    base = merged(TINY, {"train": {"rounds": rounds}})
    return [
        Cell("P", "row", name, (merged(base, attack),), settings.SMALL)
        for name, attack in ATTACKS.items()
    ]


def run(some, place, seeds=1, **more):
    """Run cells as another process would that finds what is there."""
    return running.run(some, Shelf(place, None), seeds, device="cpu", **more)


def files(out):
    found = Store(out).loose()
    return {file.name: file.stat().st_mtime_ns for file in found}


def test_what_is_done_is_not_done_again(tmp_path):
    three = cells()
    assert run(three, tmp_path, 2) == 6
    before = files(tmp_path)
    assert len(before) == 6
    assert run(three, tmp_path, 2) == 0
    assert files(tmp_path) == before
    shelf = Shelf(tmp_path, None)
    assert [len(shelf.settled(cell, 2)) for cell in three] == [2, 2, 2]
    (said,) = (r.record for r in shelf.settled(three[1], 1))
    assert sum(said["malicious"]) == 2 and said["seed"] == 0 and said["when"]
    assert len(said["accuracy"]) == 20 and said["summary"]["rounds"] == 2
    assert said["curve"]["round"] == [2]


def test_another_version_is_run_again(tmp_path, monkeypatch):
    one = cells()[:1]
    assert run(one, tmp_path) == 1
    Store(tmp_path).pack()
    assert run(one, tmp_path) == 0
    monkeypatch.setattr(store, "RESULTS", store.RESULTS + 1)
    store._table.cache_clear()
    assert not Shelf(tmp_path, None).settled(one[0], 1)
    assert run(one, tmp_path) == 1
    assert len(Shelf(tmp_path, None).settled(one[0], 1)) == 1
    store._table.cache_clear()


def test_together_and_apart_are_the_same(tmp_path):
    three, shelves = cells(), []
    for apart in (False, True):
        assert run(three, tmp_path / f"{apart}", apart=apart) == 3
        shelves.append(Shelf(tmp_path / f"{apart}", None))
    for cell in three:
        a, b = (shelf.settled(cell, 1)[0].summary["shared"] for shelf in shelves)
        for name in ("accuracy_weighted", "accuracy_std", "loss_mean"):
            assert a[name] == pytest.approx(b[name], abs=1e-5)


def test_what_memory_does_not_hold_is_trained_in_halves(tmp_path, monkeypatch):
    real, sizes = running.train_many.held, []

    def held(experiments, paths, **how):
        sizes.append(len(experiments))
        return len(experiments) < 3 and real(experiments, paths, **how)

    monkeypatch.setattr(running.train_many, "held", held)
    assert run(cells(), tmp_path) == 3 and sizes == [3, 2]
    assert all(Shelf(tmp_path, None).settled(cell, 1) for cell in cells())


def test_groups():
    def sizes(jobs, **more):
        return [len(group) for group in running.groups(jobs, **more)]

    nothing = Shelf(None, None)
    wanted = [(cell, 0, seed) for seed in (0, 1) for cell in cells()]
    jobs = running.missing(wanted, nothing, "cpu")
    assert sizes(jobs) == [6]  # seeds, too
    assert sizes(jobs, apart=True) == [1] * 6
    assert sizes([jobs[0]] * 23) == [10, 10, 3]
    plain = merged(TINY, {"engine": {"how": "auto"}})
    cell = cells()[0]._replace(choices=(plain,))
    assert sizes(running.missing([(cell, 0, 0)], nothing, "cpu") * 2) == [1, 1]


def test_cells_of_one_experiment_are_trained_once(tmp_path):
    one = cells()[0]
    again = one._replace(row="other", whose=("shared",))
    assert run([one, again], tmp_path) == 1
    assert len(Shelf(tmp_path, None).settled(again, 1)) == 1


@pytest.mark.parametrize("split", [[0.7, 0.1, 0.2], [0.8, 0.0, 0.2]])
def test_validation_data_choose(tmp_path, split):
    """The first of two learns nothing; later seeds are of the chosen one alone.

    Where there are none, test data do.
    """
    base = merged(TINY, {"partition": {"split": split}})
    choices = [merged(base, {"train": {"lr": lr, "rounds": 4}}) for lr in (1e-9, 0.3)]
    cell = Cell("P", "row", "clean", (*choices,), settings.SMALL)
    shelf = Shelf(tmp_path, None)
    assert shelf.chosen(cell) is None
    assert running.run([cell], shelf, 3, device="cpu") == 4
    assert shelf.chosen(cell) == 1
    results = shelf.settled(cell, 3)
    assert [r.record["experiment"]["train"]["lr"] for r in results] == [0.3] * 3


def test_what_is_not_whole_does_not_count(tmp_path):
    one = cells()[:1]
    run(one, tmp_path)
    (file,) = Store(tmp_path).loose()
    file.write_text(file.read_text()[:100])
    assert not Shelf(tmp_path, None).settled(one[0], 1)
    assert run(one, tmp_path) == 1
    assert len(Shelf(tmp_path, None).settled(one[0], 1)) == 1


def test_what_another_process_made_meanwhile_is_not_made_again(tmp_path):
    def meanwhile(p):
        if p.label.startswith("[1/3]") and p.done == 1:
            assert run(cells()[1:], tmp_path, apart=True) == 2

    assert run(cells(), tmp_path, apart=True, watch=meanwhile) == 1
    assert len(files(tmp_path)) == 3


KILLED = """
import sys
sys.path.insert(0, {here!r})
from test_running import cells
from troth.reproduce import running
from troth.reproduce.kept import Shelf
from pathlib import Path
def watch(p):
    print(p.label, flush=True)
shelf = Shelf(Path(sys.argv[1]), None)
running.run(cells(8), shelf, 2, device="cpu", apart={apart}, watch=watch)
"""


@pytest.mark.slow("kills real processes while they train")
@pytest.mark.parametrize(("part", "apart"), [(0, False), (1, True), (2, False)])
def test_kill_repeats_at_most_one_group(tmp_path, apart, part):
    """`kill -9` at a random moment of a part of the rounds keeps all earlier groups."""
    rounds = 8 * (6 if apart else 2)  # two seeds of three cells, a group or a run each
    after = random.randint(1 + part * rounds // 3, (part + 1) * rounds // 3)
    code = KILLED.format(here=str(Path(__file__).parent), apart=apart)
    command = [sys.executable, "-c", code, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for _ in range(after):
        label = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = files(tmp_path)
    for file in Store(tmp_path).loose():
        json.loads(file.read_text())
    done = int(re.match(r"\[(\d+)/3\]", label)[1]) - 1
    done += 3 if label.strip().endswith("seed 1") else 0
    assert len(before) >= done, (after, label)
    assert run(cells(8), tmp_path, 2, apart=apart) == 6 - len(before) <= 6 - done
    assert before.items() <= files(tmp_path).items()


@pytest.mark.slow("trains two cells of a paper")
@pytest.mark.data
@pytest.mark.parametrize("row", ["median", "global"])
def test_committed_results_hold_with_todays_code(tmp_path, row):
    """A cell trained anew gives every client the accuracy that is committed."""
    if not (Path(os.environ.get("TROTH_DATA", "")) / "vehicle").is_dir():
        pytest.skip("no vehicle under $TROTH_DATA")
    cells = listing.find("ditto/table6").at("full", patterns=[f"{row} / A1 20%"])
    assert run(cells, tmp_path) == len(cells) == 1
    shelves = Shelf(tmp_path, None), Shelf(None, kept.experiments())
    new, old = (shelf.settled(cells[0], 1)[0].record for shelf in shelves)
    for name in ("malicious", "accuracy", "shared_accuracy", "test", "curve"):
        assert new[name] == old[name], name
