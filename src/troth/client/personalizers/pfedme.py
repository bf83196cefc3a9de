r"""Personal models from Moreau envelopes of the clients' losses.

References: dinh2020personalized.
"""

import torch
from torch import Tensor

from troth import numerics
from troth.client.personalizers._owner import owner
from troth.client.regularizers import _pull
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Client,
    Descent,
    Refusal,
    Reply,
    Solver,
    Task,
)


def pfedme(
    task: Task,
    descent: Descent,
    solving: Descent,
    budget: Budget | None,
    work: Budget,
    *,
    lam: float = 1.0,
    inner: int = 5,
    tol: float = 0.0,
) -> Client:
    """Solve a proximal problem around w for each personal model (pFedMe, Algorithm 1).

    The objective is minimized over the shared model w, near which every client k should
    have a personal model θ with a low loss F_k:

        min_w (1/n) Σ_k min_θ F_k(θ) + (λ/2)‖θ − w‖²

    A client starts a round with w_k = wᵗ, the shared model, and does two things in
    every step. First, it minimizes F(θ; batch) + (λ/2)‖θ − w_k‖² over θ approximately,
    by at most `inner` steps with `personalizer.lr` and `personalizer.optimizer`. These
    begin at the θ of the previous step (in the first step, at wᵗ). Second, w_k ← w_k −
    ηλ(w_k − θ) with η = `train.lr` and `train.optimizer`; λ(w_k − θ) is the gradient of
    the Moreau envelope min_θ(…). The update is w_k − wᵗ, and the client predicts with
    the last θ. The paper's β is `server.lr`: w ← (1 − β)w + β·mean w_k.

    The server learns the personal model. With one step per round, the update is ηλ(θ −
    wᵗ), from which θ follows exactly. With more steps, wᵗ plus the update is a weighted
    mean of wᵗ and the θ of all steps.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of θ, from `[personalizer]` or else from
            `[train]`. The moments start anew in every step of w_k.
        solving: Learning rate and optimizer of w_k, from `[train]`.
        budget: Number of steps or epochs of w_k in a round, if `[personalizer]` sets
            it.
        work: The same, as set by `[train]`; used if `budget` is None.
        lam: Weight λ > 0 of the pull. With λ → ∞, all clients have the same model. With
            λ → 0, every client trains alone, and w does not change. The authors'
            scripts on MNIST have 15 with personalizer.lr = 0.1 and train.lr = 0.005.
        inner: Largest number of steps of θ for one step of w_k, at least 1.
        tol: θ is not changed any more in a step once the norm of its gradient is at
            most `tol` (the paper's ν is the square). 0 takes all steps, as the authors'
            code does. All gradients are computed in any case, because many clients are
            computed at once.

    Departs: only the clients of the cohort train. In the paper all clients train, and
    the server receives the models of some. Weight decay acts on both θ and w_k, and is
    not part of the gradient that `tol` limits. Running statistics of batch
    normalization are not pulled: w_k takes those of θ.

    Guarantee: personalizer.lr·λ and train.lr·λ must be below the limits of stability of
    their optimizers (2 for `sgd`). With larger values, the steps diverge on any data,
    and Refusal is raised.
    """
    if not 0 < lam < float("inf"):
        raise Refusal(
            f"pfedme's lam = {lam} must be a finite number above 0; without a pull the "
            "shared model would not move (personalizer 'local' has none)"
        )
    if inner < 1:
        raise Refusal(
            f"pfedme's inner = {inner} must be at least 1: the steps towards a "
            "personal model; the paper has 5"
        )
    if not 0 <= tol < float("inf"):
        raise Refusal(
            f"pfedme's tol = {tol} must be a finite number of at least 0; 0 takes all "
            "of the inner steps"
        )
    _pull.stable("pfedme", descent, {"lam": lam})
    _pull.stable("pfedme", solving, {"lam": lam}, "train")
    tail, head = task.tail, task.d - task.tail

    def nearest(theta: Tensor, w: Tensor, batch: Batch, scale: Tensor) -> Tensor:
        moments = descent.init(theta)
        for _ in range(inner):
            pull = numerics.off_tail(theta - w, tail)
            g = _pull.plus(task.grad(theta, batch), pull, lam)
            moved, moments = descent.step(theta, g, moments, scale)
            if tol > 0:  # its gradient then stays the same, so θ stays unchanged
                near = torch.linalg.vector_norm(g[:head]) <= tol
                moved = torch.where(near, theta, moved)
            theta = moved
        return theta

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return broadcast.w, broadcast.w, *solving.init(broadcast.w)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch) -> Carry:
        w, theta, *moments = carry
        theta = nearest(theta, w, batch, broadcast.scale)
        g = _pull.times(w - theta, lam, tail)
        w, rest = solving.step(w, g, tuple(moments), broadcast.scale)
        return w, theta, *rest

    def end(broadcast: Broadcast, carry: Carry, state: Carry) -> tuple[Reply, Carry]:
        return Reply(carry[0] - broadcast.w, broadcast.extra), (carry[1],)

    return owner(Solver(lambda w0: (w0,), begin, step, end), budget or work)
