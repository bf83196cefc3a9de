"""What is trained on what, and how a saved shared model is gone on from."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

import common
from common import Cell, Changes, merged

from troth.runs.load import Run

MODELS = ROOT / "models"  # shared models, not committed
CHOICE = ROOT / "choice.json"  # written by decide.py, before the final seeds
TUNING = 100  # the seed in which options are chosen; the final ones are 0, 1 and 2
RATE = (1e-4, 200)  # learning rate and steps of personalization that we began with

_CLASSES: Changes = {
    "name": "classes",
    "clients": 50,
    "per_client": 5,
    "split": [0.72, 0.08, 0.2],
    "leakage": "allow",
}
PROBLEMS: dict[str, Changes] = {
    "mnist": {
        "data": {"name": "colored", "base": "mnist", "correlation": 0.98},
        "partition": _CLASSES,
        "model": {"name": "mlp", "widths": [100, 100, 100]},
    },
    "coil20": {
        "data": {
            "name": "colored",
            "base": "coil20",
            "base_options": {"side": 32},
            "correlation": 1.0,
        },
        "partition": _CLASSES,
        "model": {"name": "cnn", "channels": [16, 32], "widths": [128]},
    },
    "celeba": {
        "data": {"name": "celeba", "label": "Male", "shortcut": "Blond_Hair"},
        "partition": {
            "name": "identities",
            "per_client": 20,
            "conflicting": "held_out",
            "split": [0.72, 0.08, 0.2],
            "leakage": "allow",
        },
        # LEAF's network without its batch normalisation
        "model": {
            "name": "cnn",
            "channels": [32, 32, 32, 32],
            "widths": [],
            "kernel": 3,
        },
    },
}
FIXED: Changes = {"normalize": "fixed", "mean": [0.1307], "std": [0.3081]}
"""Inputs as users of MNIST standardize them; the paper does not state its scaling."""
PROBLEMS["mnist_fixed"] = merged(PROBLEMS["mnist"], {"model": FIXED})
for _name, _sections in PROBLEMS.items():
    _sections["name"] = _name  # the file that its shared model is kept in


def marked(problem: str) -> bool:
    """Whether clients have conflicting examples to train on."""
    return problem != "coil20"


def again(
    problem: Changes,
    personalizer: Changes,
    seed: int = 0,
    rate: tuple[float, int] = RATE,
) -> Changes:
    """Only the personalization, from the shared model that was saved.

    Rounds with a learning rate of 0 leave w as it is, and their number keys the draws
    of what comes after them: it stands for a seed of personalization.

    Args:
        problem: its `name` says which shared model.
        personalizer: its section, but for the learning rate and the steps.
        seed: of personalization.
        rate: those two.
    """
    # all are asked, so that all step at once afterwards
    still = {"rounds": 1 + seed, "lr": 0.0, "epochs": 0, "steps": 1, "cohort": 0}
    own = {"lr": rate[0], "steps": rate[1], **personalizer}
    more = {"train": still, "personalizer": own, "engine": {"chunk": 50}}
    return merged(problem, more)


def model(name: str, seed: int) -> Path:
    """Where a shared model is kept."""
    return common.place(MODELS, name, seed)


def started(cell: Cell, seed: int) -> Changes | None:
    """The cell's changes, and the shared model of this seed where it begins with one.

    None where that is still to be trained.
    """
    if cell.changes.get("train", {}).get("lr") != 0:
        return cell.changes
    return common.begun(MODELS, cell, seed)


def saved(run: Run) -> Changes:
    """Keep a run's shared model for what is made of it later."""
    common.keep(MODELS, run)
    return clients(run)


def clients(run: Run) -> Changes:
    """What else a row says: each client on conflicting examples, and how many."""
    table = run.clients
    said: Changes = {}
    for name in ("conflicting_accuracy", "shared_conflicting_accuracy"):
        if name in table:
            said[name] = [None if a != a else round(float(a), 6) for a in table[name]]
    if "conflicting" in table:
        said["conflicting"] = [int(c) for c in table["conflicting"]]
        said["train_size"] = [int(c) for c in table["train"]]
    return said


def choice() -> dict[str, Any]:
    """What was chosen on validation data; nothing before it was."""
    return json.loads(CHOICE.read_text()) if CHOICE.exists() else {}


def ours(problem: str) -> Changes:
    """How strong x_adv is."""
    found = choice().get(problem)
    return {"adversarial": {"eps": found["eps"]}} if found else {}
