r"""Federated averaging.

References: mcmahan2017communication.
"""

from troth.client.solvers._steps import steps
from troth.types import Descent, Solver, Task


def fedavg(task: Task, descent: Descent) -> Solver:
    """Local steps on the client's own loss; the update is the change of the model.

    Ditto's Algorithm 2, lines 5 and 7: w_k ← w_k − η∇F_k(w_k) from w_k = wᵗ, and
    Δ_k = w_k − wᵗ. The optimizer's moments start anew every round.
    """
    return steps(descent, lambda broadcast, w, batch: task.grad(w, batch))
