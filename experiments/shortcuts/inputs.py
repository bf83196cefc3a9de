"""Try what the paper leaves open of inputs, network and clients (coloured MNIST).

    python experiments/shortcuts/inputs.py inputs_shared   # the shared models, one seed
    python experiments/shortcuts/inputs.py inputs          # then fine-tuning from them

The question is what makes fine-tuning lose accuracy on conflicting data as in the
paper (.704). So these runs look at conflicting test data, and nothing is chosen by them
but the reading of the paper that is run in full: `mnist_fixed` in problems.py.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

from common import Cell, Changes, main, merged
from problems import FIXED, PROBLEMS, again, clients, saved, started
from tune import FINETUNE

from troth.runs.load import Run

INPUTS: dict[str, Changes] = {
    "x/255": {},
    "per pixel": {"normalize": "pixel"},
    "fixed": FIXED,
}
NETS: dict[str, Changes] = {
    "MLP": {},
    "CNN": {"name": "cnn", "channels": [16, 32], "widths": [128]},
}
OVERLAP: Changes = {"partition": {"size": 6000}, "train": {"epochs": 1}}
CLIENTS: dict[str, Changes] = {"1,200": {}, "6,000": OVERLAP}  # pictures of a client
RATES = (1e-4, 1e-3, 3e-3)
STEPS = 1000  # of fine-tuning; the last model is kept, and none is chosen


def variants() -> dict[str, Changes]:
    """Every combination, by name: a problem like those of problems.py."""
    made = {}
    for inputs, net, size in itertools.product(INPUTS, NETS, CLIENTS):
        model = (NETS[net] or PROBLEMS["mnist"]["model"]) | INPUTS[inputs]
        label = f"{inputs}, {net}, {size}"
        name = label.replace("/", " by ")  # of the file with the shared model
        problem = merged(PROBLEMS["mnist"], CLIENTS[size])
        made[label] = problem | {"model": model, "name": name}
    return made


def cells() -> Iterator[Cell]:
    """Train the shared models, then fine-tune them at every rate."""
    for label, problem in variants().items():
        yield Cell("inputs_shared", label, problem)
    own = {**FINETUNE, "keep": "last"}
    for label, problem in variants().items():
        for rate in RATES:
            changes = again(problem, own, rate=(rate, STEPS))
            yield Cell("inputs", f"{label}, lr={rate}", changes)


def look(run: Run) -> Changes:
    """Keep the shared model."""
    return saved(run) if run.experiment.train.lr > 0 else clients(run)


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), look, seeds=1, given_seed=started)
