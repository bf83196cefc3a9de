"""Train Ditto's two solvers with the CNN at full scale (Ditto Fig. 7, FMTL Fig. 4).

    python experiments/solvers/full.py full_shared   # the shared model under A3, 20 %
    python experiments/solvers/full.py             # then all runs that start from it

The federation is that of Ditto's Table 8 (`full.toml`). The joint solver trains
together with the shared model. The two-stage solver and plain fine-tuning (FMTL's
second baseline) start from the last shared model, which one round with learning rate 0
leaves unchanged. Finished runs are saved in the table of results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

import common
from common import Cell, Changes, curve, main

from troth.runs.load import Run

MODELS = ROOT / "models"  # shared models, not committed
LAMS = (0.1, 1.0)
EPOCHS = (1, 5, 20, 30, 50)
STILL: Changes = {"train": {"rounds": 1, "lr": 0.0}, "engine": {"chunk": 50}}


def after(label: str, personalizer: Changes) -> Cell:
    """Return a cell that starts from the shared model."""
    own = {"lr": 0.05, **personalizer}
    changes = {**STILL, "attack": "none", "personalizer": own, "name": "full"}
    return Cell("full_two_stage", label, changes)


def cells() -> Iterator[Cell]:
    """Return every run."""
    yield Cell("full_shared", "shared", {"personalizer": "none", "name": "full"})
    for lam in LAMS:
        own = {"personalizer": {"name": "ditto", "lam": lam}}
        yield Cell("full_joint", f"joint λ={lam}", own)
        for epochs in EPOCHS:
            part = {"name": "ditto_finetune", "lam": lam, "epochs": epochs}
            yield after(f"two-stage λ={lam}, epochs={epochs}", part)
    for epochs in EPOCHS:
        part = {"name": "finetune", "epochs": epochs}
        yield after(f"fine-tuning, epochs={epochs}", part)


def look(run: Run) -> Changes:
    """Save the shared model for runs that start from it, and record the curve."""
    if run.experiment.name == "full" and run.experiment.train.lr > 0:
        common.keep(MODELS, run)
    return curve(run)


def started(cell: Cell, seed: int) -> Changes | None:
    """Return a cell's changes, with the shared model if the cell starts from it."""
    if cell.figure != "full_two_stage":
        return cell.changes
    return common.begun(MODELS, cell, seed)


if __name__ == "__main__":
    main(__doc__, ROOT / "full.toml", cells(), look, seeds=2, given_seed=started)
