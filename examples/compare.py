"""Compare three personalizers under attack, client by client.

`troth run` prints the same comparison for any experiment with a grid. This example
computes it in Python, for use in a notebook or a plot.
"""

from __future__ import annotations

import numpy as np

import troth
from troth.evaluation.paired import paired

EXPERIMENT = {
    "seed": 0,
    "data": "digits",
    "partition": {"name": "classes", "clients": 20, "per_client": 5},
    "model": {"name": "mlp", "widths": [32]},
    "train": {"cohort": 10, "batch": 16, "lr": 0.1},
    "adversary": {"fraction": 0.2},
    "attack": "model_replacement",
    "grid": {"personalizer": ["none", "local", {"name": "ditto", "lam": 0.1}]},
}


def benign(run: troth.Run) -> np.ndarray:
    """Return the accuracy of every benign client on its own test data."""
    table = run.clients  # the columns of clients.csv
    return table["accuracy"][table["malicious"] == 0]


def main(rounds: int = 60) -> None:
    """Train the three runs, which have the same clients and batches, and compare."""
    runs = troth.run(EXPERIMENT, settings=[f"train.rounds={rounds}"])
    for run in runs:
        own = run.summary["personal"]
        mean, worst = own["accuracy_mean"], own["accuracy_worst10"]
        print(f"{run.path.name:28s} mean {mean:.3f}, worst tenth {worst:.3f}")
    first, *others = runs
    for run in others:
        pair = paired(benign(first), benign(run))
        print(
            f"{run.path.name} against {first.path.name}: "
            f"{pair.mean_difference:+.3f} [{pair.low:+.3f}, {pair.high:+.3f}], "
            f"better for {pair.better} of {pair.n} clients, p = {pair.p_value:.3g}"
        )


if __name__ == "__main__":
    main()
