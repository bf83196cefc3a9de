"""Train every method of Table 3 with every value of its grid, in seed 0.

    python experiments/personalizers/choose.py

Every run is `base.toml` with some keys changed. `chosen` gives the options of a method
with the highest mean accuracy of benign clients on their *validation* data, for each
data set and threat; `run.py` trains those with more seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from common import Cell, Changes, main

from troth.reproduce.rows import GRIDS, label
from troth.reproduce.store import Store

HALF: Changes = {"adversary": {"fraction": 0.5}}  # A1: random labels
FIFTH: Changes = {"adversary": {"fraction": 0.2}, "attack": "model_replacement"}
MLP: Changes = {"name": "mlp", "widths": [64]}
PICTURES: Changes = {
    "data": {"name": "celeba", "label": "Smiling", "side": 32},
    "partition": {"min_examples": 5},
    "model": {"name": "celeba_cnn", "channels": 8, "blocks": 3},
    "train": {"rounds": 100},
    "evaluate": {"every": 100},
}
DATA: dict[str, tuple[Changes, dict[str, Changes]]] = {
    "mnist": (
        {
            "data": {"name": "mnist_by_writer"},
            "model": MLP,
        },
        {"clean": {}, "A1 50%": HALF},
    ),
    "celeba": (PICTURES, {"clean": {}, "A1 50%": HALF}),
    "fashion": (
        {
            "data": {"name": "fashion_mnist"},
            "partition": {
                "name": "classes",
                "clients": 100,
                "per_client": 5,
                "recipe": "ditto",
                "split": "given",
                "valid": 0.1,
            },
            "model": MLP | {"normalize": "pixel"},
        },
        {"clean": {}, "A3 20%": FIFTH},
    ),
}


def grid(name: str, key: str, *values: float) -> list[Changes]:
    """Return a method with each value of one option."""
    return [{"name": name, key: value} for value in values]


METHODS: dict[str, list[Changes]] = {
    **GRIDS,
    "pFedMe": grid("pfedme", "lam", 1.0, 5.0, 15.0),
    "mixture": grid("mixture", "lam", 0.1, 0.5, 0.9),
    "FedPer": grid("fedper", "last", 1, 2),
    "FedRep": [{"name": "fedrep"}],
}
"""Those of Ditto's Table 3, and more."""


def cell(data: str, threat: str, method: str, part: Changes) -> Cell:
    """Return a run of a method with these options on a data set under a threat."""
    sections, threats = DATA[data]
    changes = {**sections, **threats[threat], "personalizer": part}
    return Cell(data, f"{label(method, part)}, {threat}", changes)


def problems() -> Iterator[tuple[str, str]]:
    """Yield every data set and threat."""
    return ((data, threat) for data, (_, threats) in DATA.items() for threat in threats)


def trained(data: str, threat: str, method: str, part: Changes) -> Changes | None:
    """Return the summary of a run of the grid; `None` if it is missing."""
    name = f"{data}/{cell(data, threat, method, part).label}, seed 0"
    run = Store(ROOT).get(name)
    return run["summary"] if run else None


def ready(data: str, threat: str) -> bool:
    """Return whether every value of every grid was trained."""
    every = ((method, part) for method, parts in METHODS.items() for part in parts)
    return all(trained(data, threat, *one) for one in every)


def chosen(data: str, threat: str, method: str) -> Changes:
    """Return the best options of a method by validation; the first of equal ones."""

    def validated(part: Changes) -> float:
        found = trained(data, threat, method, part)
        assert found is not None
        return float(found["valid"]["personal"]["accuracy_mean"])

    return max(METHODS[method], key=validated)


def grids() -> Iterator[Cell]:
    """Yield every method with every value of its grid."""
    for data, threat in problems():
        for method, parts in METHODS.items():
            for part in parts:
                yield cell(data, threat, method, part)


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", grids(), seeds=1)
