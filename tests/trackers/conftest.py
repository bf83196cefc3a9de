"""A grid of two runs, which trackers show."""

import pytest

import troth
from troth.runs import track

GRID = {
    "partition": {"name": "iid", "clients": 3},
    "train": {"rounds": 4, "steps": 1, "batch": 8},
    "evaluate": {"every": 2},
    "engine": {"how": "vmap", "chunk": 3, "device": "cpu"},
    "grid": {"seed": [0, 1]},
}


@pytest.fixture(scope="session")
def grid(tmp_path_factory):
    return troth.run(GRID, out=tmp_path_factory.mktemp("grid") / "many")


@pytest.fixture(scope="session")
def expected():
    """The values of a run by name and step, from its files."""

    def of(run):
        found = {}
        for record in run.rounds:
            values = track.numbers(record)
            if record["round"] + 1 == run.summary["rounds"]:
                final = track.values(run.summary).items()
                values |= {f"final/{name}": value for name, value in final}
            for name, value in values.items():
                found.setdefault(name, {})[record["round"] + 1] = value
        return found

    return of
