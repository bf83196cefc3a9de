"""Train the shared models that everything else on the page begins with.

    python experiments/shortcuts/train.py              # all of them, three seeds
    python experiments/shortcuts/train.py --part 0/4   # every fourth

A finished run is kept in the table of results; its shared model lies under `models/`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import Cell, Changes, main, merged
from problems import PROBLEMS, clients, saved

from troth.runs.load import Run

EPOCHS = {"mnist": 50, "coil20": 76}
"""Of central training: as many steps as 500 rounds have, one client after another."""


def fixed(problem: str) -> dict[str, Changes]:
    """Fig. 4: one map for all, in one place and among the same clients."""
    same: Changes = {"data": {"maps": "fixed"}, "name": "fixed"}
    whole = {"name": "iid", "clients": 1, "split": [0.72, 0.08, 0.2]}
    central = merged(PROBLEMS[problem], same) | {"partition": whole}
    central["train"] = {"rounds": EPOCHS[problem], "epochs": 1, "cohort": 1}
    central["evaluate"] = {"every": EPOCHS[problem]}
    return {
        "central": merged(central, {"engine": {"chunk": 1}}),
        "federated, fixed map": merged(PROBLEMS[problem], same),
    }


def cells() -> Iterator[Cell]:
    """Every run: the shared models, then what Fig. 4 has beside them."""
    for problem, sections in PROBLEMS.items():
        yield Cell("shared", problem, sections)
    for problem in EPOCHS:
        for label, sections in fixed(problem).items():
            yield Cell("fig4", f"{problem}, {label}", sections)


def look(run: Run) -> Changes:
    """Keep the shared model, unless it is one of Fig. 4."""
    return clients(run) if run.experiment.name == "fixed" else saved(run)


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), look)
