"""Use your own aggregator, named in the experiment as `module:function`.

The names of a rule's parameters determine which values it gets (`messages`,
`broadcast`, `loss`, `key`, `memory` …). Its keyword-only parameters are its options in
the experiment file.
"""

from __future__ import annotations

import torch
from torch import Tensor

import troth
from troth.types import Messages, Refusal


def trimmed(messages: Messages, *, trim: int = 1) -> Tensor:
    """Average every coordinate without its `trim` largest and smallest values.

    Args:
        messages: The messages of the round, with one update per row.
        trim: Number of values that are removed at each end; 0 gives the mean.
    """
    n = len(messages.update)
    if not 0 <= 2 * trim < n:
        raise Refusal(
            f"trimmed's trim = {trim} must be 0 to {(n - 1) // 2} for {n} rows"
        )
    rows = messages.update.sort(dim=0).values
    return rows[trim : n - trim].mean(dim=0)


EXPERIMENT = {
    "data": "digits",
    "partition": {"name": "classes", "clients": 10, "per_client": 5},
    "train": {"rounds": 40, "batch": 16, "lr": 0.1},
    "adversary": {"count": 3},
    "attack": {"name": "model_replacement", "factor": 20.0},
    "grid": {"aggregator": ["mean", {"name": "own_rule:trimmed", "trim": 3}]},
}


def main(rounds: int = 40) -> None:
    """Apply the rule to a matrix, then compare it with the mean in a federation."""
    updates = torch.tensor([[1.0], [2.0], [3.0], [1000.0]])
    print("of 1, 2, 3, 1000:", troth.aggregate("own_rule:trimmed", updates).item())

    for run in troth.run(EXPERIMENT, settings=[f"train.rounds={rounds}"]):
        accuracy = run.summary["shared"]["accuracy_mean"]
        print(f"{run.experiment.aggregator.name:16s} {accuracy:.3f}  {run.path}")


if __name__ == "__main__":
    main()
