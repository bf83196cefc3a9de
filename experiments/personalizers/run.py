"""Train Table 3 of the Ditto paper on stand-ins, and Fashion-MNIST under A3.

    python experiments/personalizers/run.py choose --seeds 1   # every value of a grid
    python experiments/personalizers/run.py table              # the best by validation
    python experiments/personalizers/run.py newcomers

Every run is `base.toml` with some keys changed. A method's options are those of its
grid with the highest mean accuracy of benign clients on their *validation* data, chosen
for each data set and threat in seed 0. A finished run is a file under `results/`; what
is there already is not trained again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from cells import Cell, Changes, main  # noqa: E402

HALF: Changes = {"adversary": {"fraction": 0.5}}  # A1: random labels
FIFTH: Changes = {"adversary": {"fraction": 0.2}, "attack": "model_replacement"}
DATA: dict[str, tuple[Changes, dict[str, Changes]]] = {
    "mnist": (
        {
            "data": {"name": "mnist_by_writer"},
            "model": {"name": "mlp", "widths": [64]},
        },
        {"clean": {}, "A1 50%": HALF},
    ),
    "celeba": (
        {
            "data": {"name": "celeba", "label": "Smiling", "side": 32},
            "partition": {"min_examples": 5},
            "model": {"name": "celeba_cnn", "channels": 16, "blocks": 3},
        },
        {"clean": {}, "A1 50%": HALF},
    ),
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
            "model": {"name": "mlp", "widths": [64], "normalise": "pixel"},
        },
        {"clean": {}, "A3 20%": FIFTH},
    ),
}


def grid(name: str, key: str, *values: float, **more: object) -> list[Changes]:
    """A method with each value of one option."""
    return [{"name": name, key: value, **more} for value in values]


METHODS: dict[str, list[Changes]] = {
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
    "pFedMe": grid("pfedme", "lam", 1.0, 5.0, 15.0),
    "mixture": grid("mixture", "lam", 0.1, 0.5, 0.9),
    "FedPer": grid("fedper", "last", 1, 2),
    "FedRep": [{"name": "fedrep"}],
}


def label(method: str, part: Changes) -> str:
    """A method and what was set of it."""
    options = [f"{k}={v}" for k, v in part.items() if k != "name"]
    return " ".join([method, *options])


def choices() -> Iterator[tuple[str, str, str, Changes]]:
    """Every value of every grid: figure, threat, method, changes."""
    for data, (sections, threats) in DATA.items():
        for threat, attack in threats.items():
            for method, parts in METHODS.items():
                for part in parts:
                    changes = {**sections, **attack, "personalizer": part}
                    yield data, threat, method, changes


def validated(data: str, threat: str, method: str, part: Changes) -> float | None:
    """Of the run that chooses, if it is there."""
    name = f"{label(method, part)}, {threat}, seed 0.json"
    file = ROOT / "results" / f"choose {data}" / name
    if not file.exists():
        return None
    found = json.loads(file.read_text())["summary"]["valid"]["personal"]
    return float(found["accuracy_mean"])


def chosen(data: str, threat: str, method: str) -> Changes | None:
    """The best of a method's grid by validation; None: not all of it is trained."""
    scores = [validated(data, threat, method, part) for part in METHODS[method]]
    if any(score is None for score in scores):
        return None
    pairs = zip(scores, METHODS[method], strict=True)
    return max(pairs, key=lambda pair: pair[0] or 0.0)[1]


def cells() -> Iterator[Cell]:
    """Every run; those of the table once their options are chosen."""
    for data, threat, method, changes in choices():
        name = f"{label(method, changes['personalizer'])}, {threat}"
        yield Cell(f"choose {data}", name, changes)
    for data, (sections, threats) in DATA.items():
        for threat, attack in threats.items():
            for method in METHODS:
                part = chosen(data, threat, method)
                if part is None:
                    continue
                changes = {**sections, **attack, "personalizer": part}
                yield Cell(f"table {data}", f"{method}, {threat}", changes)
    yield from newcomers()


def newcomers() -> Iterator[Cell]:
    """A tenth of the writers never took part; they have 5, 20 or all examples."""
    sections, _ = DATA["mnist"]
    for method in METHODS:
        part = chosen("mnist", "clean", method)
        for examples in (5, 20, 0) if part else ():
            late = {"newcomers": 0.1, "newcomer_examples": examples}
            changes = {**sections, "personalizer": part, "evaluate": late}
            yield Cell("newcomers", f"{method}, {examples or 'all'} examples", changes)


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells())
