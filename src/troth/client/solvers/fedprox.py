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

    F_k is the client's loss, wᵗ the shared model of the round, and w_k the client's
    copy. The proximal term keeps w_k near wᵗ when clients have dissimilar data or take
    different numbers of steps. The term leaves out running statistics of batch
    normalization.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of `[train]`.
        mu: Weight μ ≥ 0 of the proximal term. 0 is exactly `fedavg`; with μ → ∞, w_k
            stays at wᵗ. lr·mu must be below the optimizer's limit of stability (2 for
            `sgd`); otherwise Refusal is raised.
    """
    _pull.check("fedprox", mu, descent, 1.0, "mu", "train")
    if mu == 0:
        return fedavg(task, descent)

    def gradient(broadcast: Broadcast, w: Tensor, batch: Batch) -> Tensor:
        pull = numerics.off_tail(w - broadcast.w, task.tail)
        return task.grad(w, batch) + mu * pull

    return steps(descent, gradient)
