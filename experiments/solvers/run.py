"""Train Ditto's two solvers under the model replacement attack: Figures 7–9.

    python experiments/solvers/run.py                 # three seeds
    python experiments/solvers/run.py --part 0/2      # every second: for two processes

Every run is `base.toml` with some keys changed. Finished runs are saved in the table of
results and are not trained again. Batches and cohorts depend only on the seed and the
round, so that a run of fewer rounds is the beginning of a longer one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from common import Cell, Changes, curve, main

from troth import build
from troth.config.schema import PersonalizerPart
from troth.engine.local_training import Plan
from troth.evaluation import evaluate
from troth.networks import flat
from troth.runs.load import Run

LAMS = (0.1, 1.0)
EPOCHS = (1, 5, 20, 50)
STOPS = (5, 10, 20, 40, 70, 100, 150, 200, 300)


def two_stage(lam: float, epochs: int) -> Changes:
    """Return the second solver: h_k from w, after the last round."""
    part = {"name": "ditto_finetune", "lam": lam, "epochs": epochs}
    return {"personalizer": part}


def cells() -> Iterator[Cell]:
    """Yield every run."""
    for lam in LAMS:
        joint = {"personalizer": {"name": "ditto", "lam": lam}}
        yield Cell("joint", f"joint λ={lam}", joint)
        for epochs in EPOCHS:
            label = f"two-stage λ={lam}, epochs={epochs}"
            yield Cell("two_stage", label, two_stage(lam, epochs))
        for rounds in STOPS:
            stop = {**two_stage(lam, 20), "train": {"rounds": rounds}}
            yield Cell("stopped", f"stopped λ={lam} at {rounds} rounds", stop)


@torch.no_grad()
def look(run: Run) -> Changes:
    """Record the curve, and the training loss and validation accuracy of w.

    These are what a server sees if all clients report, malicious ones too.
    """
    e = replace(run.experiment, personalizer=PersonalizerPart("none"))
    if not e.partition.valid:
        return curve(run)
    built = build.build(e, plan=Plan("loop", 1))
    engine, data = built.federation.engine, built.data
    w = flat.flatten(run.shared()).to(engine.device)
    pooled: Changes = {}
    for name, split in (("train", data.train), ("valid", data.valid)):
        sizes = split.size.cpu().numpy()
        some = np.flatnonzero(sizes)
        table = evaluate.shared(engine, w, split, some)
        for score in ("loss", "accuracy"):
            value = np.average(table[score], weights=sizes[some])
            pooled[f"{name}_{score}"] = round(float(value), 5)
    return {**curve(run), "pooled": pooled}


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), look)
