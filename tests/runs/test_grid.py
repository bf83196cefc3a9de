"""A grid as a folder: its parts, and what may not be divided."""

import sys
import types

import pytest

import troth
from troth import Spread, files
from troth.runs import grid, train_many
from troth.server.aggregators import mean

TINY = {
    "partition": {"name": "iid", "clients": 3},
    "train": {"rounds": 2, "steps": 1},
    "engine": {"how": "loop"},
}
SIX = TINY | {"grid": {"seed": [0, 1, 2], "personalizer": ["local", "ditto"]}}
KINDS = [[0, 2, 4], [1, 3], [5]]


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_the_parts_are_a_partition_of_the_runs(n):
    parts = [Spread(part=f"{k}/{n}").chosen(KINDS) for k in range(1, n + 1)]
    assert sum(parts, []) == [0, 2, 4, 1, 3, 5] == Spread().chosen(KINDS)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "a/b", "1/2/3", "-1/2", "1/0"])
def test_a_part_is_one_of_several(part, refuses):
    refuses("must be K/N", Spread(part=part).check)


@pytest.mark.parametrize(
    ("spread", "given", "words"),
    [
        (Spread(devices="cpu"), {}, "must be a list of names"),
        (Spread(devices=["cpu"], ray="local"), {}, "Ray chooses the devices"),
        (Spread(per_device=2), {}, "without devices"),
        (Spread(devices=["cpu"], per_device=0), {}, "at least 1"),
        (Spread(devices=["cpu"]), {"grid": False}, "a single run is not divided"),
        (Spread(devices=["cpu"]), {"in_memory": True}, "objects in memory"),
        (Spread(ray="local"), {"in_memory": True}, "objects in memory"),
    ],
)
def test_refusals(spread, given, words, refuses):
    refuses(words, spread.check, **given)
    Spread().check(grid=False, in_memory=True)


def test_parts_make_the_files_of_the_whole_grid_and_start_again(tmp_path, contents):
    whole = troth.run(SIX, out=tmp_path / "whole")
    for part in ("2/2", "1/2", "1/2"):  # the last finds its runs finished
        found = troth.run(SIX, out=tmp_path / "parts", spread=Spread(part=part))
        assert len(found) == 3
    runs = troth.resume(tmp_path / "parts")
    for a, b in zip(whole, runs, strict=True):
        assert contents(a.path) == contents(b.path)


@pytest.mark.parametrize("together", [(None, False), (False, None)])
def test_machines_with_other_devices_agree_on_the_parts(tmp_path, together):
    """On a GPU, runs train together; on a CPU, they do not."""
    labels = []
    for k, apart in enumerate(together, 1):
        part = Spread(part=f"{k}/2")
        found = troth.run(SIX, out=tmp_path / "grid", spread=part, apart=apart)
        labels += [run.path.name for run in found]
    assert sorted(labels) == sorted(one.label for one in grid.plan(SIX, None))


def test_parts_may_begin_at_the_same_moment(tmp_path, monkeypatch, refuses):
    """Another part has made the folder since this one looked; or something else has."""
    root, create = tmp_path / "parts", files.create

    def late(path, name, text):
        create(path, name, text)
        create(path, name, text)

    monkeypatch.setattr(files, "create", late)
    refuses("exists already", grid.begin, root, SIX, Spread())
    (root / files.GRID).unlink()
    root.rmdir()
    grid.begin(root, SIX, Spread(part="1/2"))
    grid.begin(root, SIX, Spread(part="2/2"))


def test_another_grid_is_no_part_of_this_one(tmp_path, refuses):
    part = Spread(part="1/2")
    troth.run(SIX, out=tmp_path / "grid", spread=part)
    other = SIX | {"train": {"rounds": 3, "steps": 1}}
    refuses("another grid", troth.run, other, out=tmp_path / "grid", spread=part)
    refuses("exists already", troth.run, SIX, out=tmp_path / "grid")
    before = (tmp_path / "grid" / files.GRID).read_bytes()
    troth.run(SIX, out=tmp_path / "grid", spread=part, device="cpu")  # as on a machine
    assert (tmp_path / "grid" / files.GRID).read_bytes() == before


def test_no_part_sends_the_grid_to_a_tracker(tmp_path, refuses):
    tree = SIX | {"track": {"name": "tensorboard"}}
    part = Spread(part="1/2")
    refuses("every part would send", troth.run, tree, out=tmp_path / "g", spread=part)
    assert not (tmp_path / "g").exists()
    grid.begin(tmp_path / "g", tree, Spread())
    refuses("every part would send", troth.resume, tmp_path / "g", spread=part)
    assert [file.name for file in (tmp_path / "g").iterdir()] == [files.GRID]


def test_other_processes_do_not_have_functions_of_a_script(tmp_path, refuses):
    tree = SIX | {"aggregator": {"name": "__main__:mine"}}
    one, words = Spread(devices=["cpu"]), "functions of the main script"
    monkey = types.SimpleNamespace(mine=mean.mean)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", monkey)
        refuses(words, troth.run, tree, out=tmp_path / "g", spread=one)
        assert not (tmp_path / "g").exists()
        grid.begin(tmp_path / "g", tree, Spread())
        refuses(words, troth.resume, tmp_path / "g", spread=one)


def test_groups_are_the_runs_that_train_together():
    planned = grid.plan(SIX, None)
    every = [one.experiment for one in planned]
    assert train_many.groups(every) == [[k] for k in range(6)]
    assert train_many.groups(every, False) == [[0, 2, 4], [1, 3, 5]]


def test_some_runs_of_a_grid_train_together(tmp_path, contents):
    """What a process does with its group: as if apart."""
    grid.begin(tmp_path / "g", dict(SIX), Spread())
    labels = ["seed=0,personalizer=local", "seed=1,personalizer=local"]
    runs = grid.some(tmp_path / "g", labels, None)
    assert [run.path.name for run in runs] == labels
    assert not (tmp_path / "g" / "seed=2,personalizer=local").exists()
