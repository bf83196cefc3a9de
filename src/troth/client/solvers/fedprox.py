"""Local steps with a proximal term that keeps w_k near the shared model.

References: li2020federated.
"""

from torch import Tensor

from troth import numerics
from troth.client.regularizers import _pull
from troth.client.solvers._steps import steps
from troth.client.solvers.fedavg import fedavg
from troth.types import Batch, Broadcast, Descent, Solver, Task


def fedprox(task: Task, descent: Descent, *, mu: float = 0.01) -> Solver:
    """Take local steps on F_k(w_k) + (μ/2)‖w_k − wᵗ‖² (FedProx, Eq. 2 of its paper).

    The proximal term keeps w_k near wᵗ when clients have dissimilar data or take
    different numbers of steps. It leaves out running statistics of batch normalization.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer of `[train]`.
        mu: Weight μ ≥ 0 of the proximal term. 0 is exactly `fedavg`; with μ → ∞, w_k
            never leaves wᵗ. lr·mu must stay below the optimizer's limit of stability (2
            for `sgd`).
    """
    _pull.check("fedprox", mu, descent, 1.0, "mu", "train")
    if mu == 0:
        return fedavg(task, descent)

    def gradient(broadcast: Broadcast, w: Tensor, batch: Batch) -> Tensor:
        pull = numerics.off_tail(w - broadcast.w, task.tail)
        return task.grad(w, batch) + mu * pull

    return steps(descent, gradient)
