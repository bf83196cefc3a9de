"""Local steps that control variates correct for the difference between clients' data.

References: karimireddy2020scaffold.
"""

from typing import Literal

import torch

from troth import numerics
from troth.client.solvers._steps import plain
from troth.types import Batch, Broadcast, Carry, Descent, Refusal, Reply, Solver, Task


def scaffold(
    task: Task,
    descent: Descent,
    *,
    option: Literal["I", "II"] = "II",
    rate: float = 1.0,
) -> Solver:
    """Correct local steps by control variates: w_k ← w_k − η(g_k(w_k) − c_k + c).

    This is SCAFFOLD, Algorithm 1 of its paper. w_k is the client's copy of the shared
    model wᵗ, g_k the gradient of the client's loss, and η the learning rate. The
    control variate c_k estimates the client's gradient at wᵗ, and c is the mean of the
    c_k of all clients. After the K steps of a round, c_k becomes (line 12)

        I:  the client's gradient at wᵗ, here the mean over the batches of the round;
        II: c_k − c + (wᵗ − w_k)/(Kη), which needs no further gradient.

    The client sends the change of c_k together with its update (as `extra`). The server
    combines the changes by the same aggregator as the updates: c ← c + (|S|/N)·mean
    Δc_k, where S is the set of clients whose messages arrive and N the number of all
    clients (line 17). A client that never took part has c_k = 0. Running statistics of
    batch normalization have no control variate. If w_k becomes infinite or NaN, the
    client's c_k is not changed.

    Departs: K is the number of steps that the client took, which is smaller if a
    deadline stopped it early. Option I uses the batches of the round, not all data of
    the client.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate of `[train]`; its optimizer must be plain `sgd`.
        option: Update of c_k, "I" or "II" as above. "I" needs a second gradient in
            every step; the paper's experiments use "II".
        rate: Share of a control variate's change that is applied, from 0 to 1. 1 is the
            paper's algorithm; 0 is `fedavg`.
    """
    if not 0 <= rate <= 1:
        raise Refusal(
            f"scaffold's rate = {rate} must lie in [0, 1]; 1 is the paper's, "
            "0 holds the control variates at zero"
        )
    plain("solver 'scaffold'", "train", descent)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        w = broadcast.w
        seen = torch.zeros_like(w) if option == "I" else w.new_zeros(0)
        correction = numerics.off_tail(broadcast.extra - state[0], task.tail)
        return w, w.new_zeros(()), seen, correction

    def step(broadcast: Broadcast, carry: Carry, batch: Batch) -> Carry:
        w, done, seen, correction = carry
        if option == "I":
            seen = seen + task.grad(broadcast.w, batch)
        g = task.grad(w, batch) + correction
        w, _ = descent.step(w, g, (), broadcast.scale)
        return w, done + 1, seen, correction

    def end(broadcast: Broadcast, carry: Carry, state: Carry) -> tuple[Reply, Carry]:
        w, done, seen, _ = carry
        length = done if option == "I" else done * (descent.lr * broadcast.scale)
        way = torch.where(length > 0, length, 1)
        if option == "I":
            change = seen / way - state[0]
        else:
            change = (broadcast.w - w) / way - broadcast.extra
        change = numerics.off_tail(rate * change, task.tail)
        learnt = (length > 0) & change.isfinite().all()  # all numbers are finite
        change = torch.where(learnt, change, 0)
        return Reply(w - broadcast.w, change), (state[0] + change,)

    return Solver(lambda w0: (torch.zeros_like(w0),), begin, step, end, task.d)
