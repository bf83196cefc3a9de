r"""Personal models by Moreau envelopes.

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
    """Personal models that solve a proximal problem around w (pFedMe, Algorithm 1).

    Objective: the shared model is the best center for personal ones near it,

        min_w (1/n) Σ_k min_θ F_k(θ) + (λ/2)‖θ − w‖²

    Every step of a client, from w_k = wᵗ: θ ← about the minimizer of
    F(θ; batch) + (λ/2)‖θ − w_k‖², by at most `inner` steps with `personalizer.lr` and
    `personalizer.optimizer`, from the θ of the step before (of the first: wᵗ); then
    w_k ← w_k − ηλ(w_k − θ) with `train.lr` and `train.optimizer`, for λ(w_k − θ) is the
    envelope's gradient. The update is w_k − wᵗ and the client's model the last θ. The
    server's β is `server.lr`: w ← (1 − β)w + β·mean w_k.

    The server learns the personal model: with one step per round the update is
    ηλ(θ − wᵗ), which gives θ exactly; with more, a weighted mean of the round's θ.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer of θ, or those of `[train]`. The
            moments start anew with every problem.
        solving: Learning rate and optimizer of w_k, from `[train]`.
        budget: Steps of w_k in a round, if `[personalizer]` sets them.
        work: Length of the training in a round, if `[personalizer]` sets none.
        lam: Weight λ > 0 of the pull; λ → ∞ is one model for all. λ → 0 leaves every
            client to itself, and w where it is. The authors' scripts on MNIST have 15
            with personalizer.lr = 0.1 and train.lr = 0.005.
        inner: Largest number of steps towards θ, at least 1.
        tol: Length of the gradient in θ at which θ stays (the paper's ν is its square).
            0 takes all steps, as the authors' code does. All gradients are computed in
            any case: clients step together.

    Departs: only clients that are asked work; in the paper all do, and the server
    hears some. Weight decay acts on θ and w_k both, and `tol` does not see it. Running
    statistics of batch normalization feel no pull: those of w_k are θ's.

    Guarantee: personalizer.lr·λ and train.lr·λ must stay below what their optimizers
    can follow (2 for `sgd`); more diverges on any data and is refused.
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
            if tol > 0:  # who once stays does so for good: it meets the same gradient
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
