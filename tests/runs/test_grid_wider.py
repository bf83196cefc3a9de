import numpy as np
import pytest

import troth
from troth import files
from troth.runs.load import Run

TREE = {
    "partition": {"name": "iid", "clients": 4},
    "train": {"rounds": 2},
    "engine": {"how": "loop"},
    "grid": {"seed": [0]},
}
TWO = ["grid.seed=[0, 1]"]


@pytest.fixture
def grid(tmp_path):
    troth.run(TREE, out=tmp_path / "grid")
    return tmp_path / "grid"


def test_seeds_are_added_to_a_finished_grid(grid, tmp_path):
    """The runs are those of a grid that had them from the beginning."""
    before = {p: p.read_bytes() for p in (grid / "seed=0").iterdir() if p.is_file()}
    first, second = troth.resume(grid, settings=TWO)
    assert [run.experiment.seed for run in (first, second)] == [0, 1]
    assert before == {p: p.read_bytes() for p in before}
    whole = troth.run(TREE, settings=TWO, out=tmp_path / "whole")
    assert second.path.name == whole[1].path.name == "seed=1"
    for name in (files.SHARED, files.CLIENTS):
        assert (second.path / name).read_bytes() == (whole[1].path / name).read_bytes()
    assert len(troth.resume(grid)) == 2  # the grid's file has the new axis


def test_earlier_runs_must_stay(grid, refuses):
    sections = (grid / files.GRID).read_bytes()
    for settings in (["grid.seed=[1, 2]"], ["train.rounds=3"], ["grid.train.lr=[1]"]):
        refuses(
            "would change the run seed=0 of .* must keep the earlier values",
            lambda settings=settings: troth.resume(grid, settings=settings),
        )
    assert (grid / files.GRID).read_bytes() == sections
    words = "is a single run, whose settings cannot change"
    refuses(words, lambda: troth.resume(grid / "seed=0", settings=TWO))


def test_new_runs_have_the_data_of_the_old_ones(tmp_path, refuses):
    def save(shift):
        x = np.arange(60, dtype="float32").reshape(30, 2) + shift
        np.savez(tmp_path / "d.npz", x=x, y=np.arange(30) % 2)

    save(0)
    own = {"name": "npz", "path": str(tmp_path / "d.npz")}
    troth.run({**TREE, "data": own}, out=tmp_path / "grid")
    save(1)
    refuses(
        "the data 'npz' have changed since the run seed=0",
        lambda: troth.resume(tmp_path / "grid", settings=TWO),
    )
    save(0)
    assert Run(troth.resume(tmp_path / "grid", settings=TWO)[1].path).finished
