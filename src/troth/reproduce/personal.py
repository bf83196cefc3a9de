"""Ditto's Table 3 on what stands in: every method with the best of its grid.

Benign clients' validation data choose, in seed 0; the federations and the grids are
those of `experiments/personalizers`.
"""

from collections.abc import Sequence
from typing import Any

from troth.reproduce.entry import Cell, Pick, merged
from troth.reproduce.settings import SETTINGS, Tree


def grid(name: str, key: str, *values: float, **more: object) -> list[Tree]:
    """A method with each value of one option."""
    return [{"name": name, key: value, **more} for value in values]


METHODS: dict[str, list[Tree]] = {
    "global": [{"name": "none"}],
    "local": [{"name": "local"}],
    "plain finetuning": grid("finetune", "epochs", 1, 5, 20),
    "L2SGD": grid("l2sgd", "lam", 0.1, 1.0, 10.0),
    "EWC": grid("ewc", "lam", 1.0, 10.0, 100.0, epochs=5),
    "SKL": grid("skl", "lam", 0.1, 1.0, 10.0, epochs=5),
    "Per-FedAvg (HF)": grid(
        "per_fedavg", "alpha", 0.01, 0.03, 0.1, variant="hessian_free", epochs=5
    ),
    "mapper": [{"name": "mapper"}],
    "APFL": [
        *grid("apfl", "alpha", 0.3, 0.5, 0.8),
        {"name": "apfl", "alpha": 0.5, "adaptive": True},
    ],
    "Ditto": grid("ditto", "lam", 0.1, 1.0, 2.0),
}
"""What each is chosen from; `experiments/personalizers` has more methods."""

_PART = "FEMNIST and CelebA"
_THREATS: dict[str, Tree] = {"clean": {}, "A1 50%": {"adversary": {"fraction": 0.5}}}


def label(method: str, part: Tree) -> str:
    """A method and what was set of it."""
    options = [f"{k}={v}" for k, v in part.items() if k != "name"]
    return " ".join([method, *options])


def _file(folder: str, method: str, part: Tree, column: str) -> str:
    return f"personalizers/{folder}/{label(method, part)}, {column}, seed {{seed}}"


def grids(paper: str, tables: Sequence[str], pick: Pick) -> list[Cell]:
    """Every method on two data sets, clean and under A1."""
    found = []
    for method, parts in METHODS.items():
        for threat, attack in _THREATS.items():
            for setting, folder in (("FEMNIST", "mnist"), ("CelebA", "celeba")):
                f = pick(SETTINGS[setting])
                base = merged(f.tree, attack)
                trees = tuple(merged(base, {"personalizer": p}) for p in parts)
                kept = tuple(_file(folder, method, p, threat) for p in parts)
                column = f"{setting} {threat}"
                known: Any = kept if f.kind == "stand-in" else ()
                found.append(Cell(_PART, method, column, trees, f, known))
    return found
