r"""Federated averaging.

References: mcmahan2017communication.
"""

from troth.client.solvers._steps import steps
from troth.types import Descent, Solver, Task


def fedavg(task: Task, descent: Descent) -> Solver:
    """Take local steps on the client's own loss (federated averaging).

    Lines 5 and 7 of Ditto's Algorithm 2: w_k ← w_k − η∇F_k(w_k), starting from the
    shared model wᵗ of the round. F_k is the client's loss and η the learning rate. The
    client sends the update Δ_k = w_k − wᵗ. The optimizer's moments start anew in every
    round.
    """
    return steps(descent, lambda broadcast, w, batch: task.grad(w, batch))
