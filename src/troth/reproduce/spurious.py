"""Spurious features: Table 1 and Figures 4 to 8.

@inproceedings{wang2021robust,
  title={Robust and Personalized Federated Learning with Spurious Features: an
    Adversarial Approach},
  author={Wang, Xiaoyang and Zhao, Han and Nahrstedt, Klara and Koyejo, Sanmi},
  booktitle={NeurIPS Workshop on New Frontiers in Federated Learning}, year={2021}}
"""

from __future__ import annotations

from troth.reproduce.entry import Cell, Entry, Pick, merged
from troth.reproduce.settings import Federation, Setting, Tree

_PART = "coloured MNIST, CelebA and Coil20"
_TESTS = {"Acc_B": ("personal",), "Acc_BC": ("tests", "conflicting", "personal")}


def _federation(name: str, base: Tree, classes: int, examples: float) -> Federation:
    """50 clients of five classes, coloured; Adam 1e-4, 500 rounds of five clients."""
    tree: Tree = {
        "data": {"name": "colored", **base},
        "partition": {
            "name": "classes",
            "clients": 50,
            "per_client": 5,
            "split": [0.72, 0.08, 0.2],
        },
        "model": {"name": "cnn", "channels": [32, 64], "widths": [128]},
        "train": {
            "rounds": 500,
            "cohort": 5,
            "epochs": 5,
            "batch": 32,
            "lr": 1e-4,
            "optimizer": "adam",
        },
        "evaluate": {"every": 100},
        "output": {"personal": False, "checkpoint": False},
    }
    return Federation(name, str(base["base"]), 50, examples, tree)


MNIST = Setting("MNIST", _federation("coloured MNIST", {"base": "mnist"}, 10, 864.0))
COIL20 = Setting(
    "Coil20",
    _federation(
        "coloured Coil20",
        {"base": "coil20", "base_options": {"side": 64}, "correlation": 1.0}
        | {"pool": "all"},
        20,
        21.0,
    ),
)
_SMALL: Tree = {
    "data": {"name": "colored", "base": "digits", "pool": "all"},
    "train": {"rounds": 5},
}
BATCHES = (10, 20, 50, 100, 200)
_ROWS: dict[str, Tree] = {
    "Global": {"name": "finetune", "steps": 200},
    "FT": {"name": "finetune", "steps": 200},
    "UW": {"name": "upweight", "steps": 200, "without": "finetune"},
    "Ours": {"name": "transfer", "steps": 200, "w1": "auto", "w2": "auto"},
}


def _cells(
    pick: Pick, settings: tuple[Setting, ...], rows: dict[str, Tree]
) -> list[Cell]:
    """Each method on both test sets of each data set."""
    found = []
    for row, part in rows.items():
        for setting in settings:
            f = pick(setting)
            base = merged(f.tree, _SMALL) if f.kind == "small" else f.tree
            if row == "UW" and setting is COIL20:
                continue  # no conflicting example to weigh, in the paper neither
            tree = merged(base, {"personalizer": part})
            for test, whose in _TESTS.items():
                own = (*whose[:-1], "shared") if row == "Global" else whose
                column = f"{setting.name} {test}"
                cell = Cell(_PART, row, column, (tree,), f, (), own, "mean")
                found.append(cell)
    return found


def _table1(pick: Pick) -> list[Cell]:
    return _cells(pick, (MNIST, COIL20), _ROWS)


def _batches(pick: Pick) -> list[Cell]:
    every = {f"{n} batches": {"name": "finetune", "steps": n} for n in BATCHES}
    return _cells(pick, (MNIST, COIL20), every)


def _waiting(number: int, title: str, steps: int, seconds: float) -> Entry:
    """A figure that has no cells yet."""
    name = f"spurious/figure{number}"
    work = (steps, seconds)
    return Entry(name, title, note="no cells yet", data=("mnist",), work=work)


_TRAINED = (500 * 5 * 135, 7_000.0)  # client-steps and seconds of a shared model

ENTRIES = (
    Entry(
        "spurious/table1",
        "Accuracy on biased and on conflicting test data",
        (MNIST, COIL20),
        _table1,
        note="its CelebA columns need all identities and are not run; colours, network "
        "and batch are ours, for the paper names none",
    ),
    _waiting(4, "Federated beside central training", *_TRAINED),
    Entry(
        "spurious/figure5",
        "Fine-tuning for some batches",
        (MNIST, COIL20),
        _batches,
        form="lines",
    ),
    _waiting(6, "Disparity and adversarial accuracy", *_TRAINED),
    _waiting(7, "Loss disparity and transferability", *_TRAINED),
    _waiting(8, "Up-weighting few conflicting examples", 5 * 50 * 200, 1_000.0),
)
