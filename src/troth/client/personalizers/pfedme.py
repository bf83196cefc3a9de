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

    The objective seeks a center w that has good personal models θ near it:

        min_w (1/n) Σ_k min_θ F_k(θ) + (λ/2)‖θ − w‖²

    A client starts a round at w_k = wᵗ and does two things in every step. First, θ
    approaches the minimizer of F(θ; batch) + (λ/2)‖θ − w_k‖² by at most `inner` steps
    with `personalizer.lr` and `personalizer.optimizer`. These begin at the θ of the
    previous step (in the first step, at wᵗ). Second, w_k ← w_k − ηλ(w_k − θ) with
    `train.lr` and `train.optimizer`, because λ(w_k − θ) is the gradient of the
    envelope. The update is w_k − wᵗ, and the client's model is the last θ. The server's
    β is `server.lr`: w ← (1 − β)w + β·mean w_k.

    The server learns the personal model. With one step per round the update is ηλ(θ −
    wᵗ), which gives θ exactly. With more steps it is a weighted mean of the round's θ.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer of θ, from `[personalizer]` or else from
            `[train]`. The moments start anew with every problem.
        solving: Learning rate and optimizer of w_k, from `[train]`.
        budget: Number of steps of w_k in a round, if `[personalizer]` sets it.
        work: Length of the training in a round by `[train]`, used if `budget` is None.
        lam: Weight λ > 0 of the pull. λ → ∞ is one model for all clients. λ → 0 leaves
            every client to itself, and w where it is. The authors' scripts on MNIST
            have 15 with personalizer.lr = 0.1 and train.lr = 0.005.
        inner: Largest number of steps towards θ, at least 1.
        tol: Length of the gradient in θ at which the inner problem counts as solved
            (the paper's ν is its square). θ is then not changed any more. 0 takes all
            steps, as the authors' code does. All gradients are computed in any case,
            because many clients are computed at once.

    Departs: only the clients of the cohort work. In the paper all clients do, and the
    server receives the models of some. Weight decay acts on both θ and w_k, and `tol`
    does not consider it. Running statistics of batch normalization are not pulled: w_k
    takes those of θ.

    Guarantee: personalizer.lr·λ and train.lr·λ must stay below the limits of stability
    of their optimizers (2 for `sgd`). Larger values diverge on any data and are
    refused.
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
            if tol > 0:  # a solved θ is not changed later: its gradient is the same
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
