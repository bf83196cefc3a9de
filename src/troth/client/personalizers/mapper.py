"""MAPPER: a client's model between its own and the shared one, at a weight it chooses.

References: mansour2020three.
"""

import torch
from torch import Tensor

from troth.client.personalizers._choosing import lowest, pick
from troth.client.personalizers._mixed import mixed, through
from troth.client.personalizers._owner import owner
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


def mapper(
    task: Task,
    descent: Descent,
    solving: Descent,
    budget: Budget | None,
    work: Budget,
    *,
    weights: list[float] = [0.25, 0.5, 0.75],  # noqa: B006
) -> Client:
    """Σ_k F_k(λ_k·v_k + (1 − λ_k)w), minimized over w, all v_k and λ_k.

    MAPPER, the paper's model interpolation. In a round w_k starts from wᵗ and v from
    where it was left. Every step takes the λ whose λv + (1 − λ)w_k had the lowest loss
    on the round's batches so far, each as it stood then, and moves both models along
    the one gradient there: v ← v − ηλg, w_k ← w_k − η(1 − λ)g, and sends w_k − wᵗ.
    The client predicts with λv + (1 − λ)w at the λ of its last step, which clients.csv
    has (`weight`); at 0, with the shared model, where it was never asked.

    The update reveals the personal model: with plain `sgd`, one learning rate for both
    and one λ in the round, v moved by the update times λ/(1 − λ), and there are few λ
    to guess from. Where F_k has a single minimizer the client ends there, as with
    `local` (FMTL's remark on both).

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer of v, or those of `[train]`. The
            moments live on between rounds.
        solving: Optimizer of w_k, from `[train]`; its moments start anew every round.
        budget: Length of both trainings in a round, if `[personalizer]` sets it.
        work: Length of both trainings, if `[personalizer]` sets none.
        weights: Values of λ to choose from, in [0, 1]. Of equal losses, or if none is
            finite, the largest is taken, which relies least on the shared model. [0] is
            exactly `fedavg`; [1] exactly `local`, with a shared model that stays.
            Ditto's authors have {0.25, 0.5, 0.75}, and take the smallest of equals.

    Departs: the code of Ditto's authors trains a copy of v for each λ with w held
    fixed, takes the one with the lowest loss on all training data and then moves w by a
    single step, which costs a gradient for each λ; after the last round it fine-tunes
    the mixed models. There, of all updates only that of the last client reaches the
    server, by a wrong indentation; here all do. Running statistics of batch
    normalization are not mixed: both models have those of the mixed one.
    """
    every, tail = _checked(weights), task.tail
    inside = every[0] > 0 and every[-1] < 1

    def init(w0: Tensor) -> Carry:
        return w0, w0.new_zeros(()), *descent.init(w0)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        w = broadcast.w
        return state, (w, *solving.init(w)), w.new_zeros(len(every))

    def step(broadcast: Broadcast, carry: Carry, batch: Batch) -> Carry:
        (v, _, *mine), (w, *theirs), total = carry
        if len(every) > 1:
            tried = (mixed(v, w, lam, tail) for lam in every)
            total = total + torch.stack([task.loss(at, batch) for at in tried])
        place = (lowest(total) + 1).to(w.dtype)
        lam = pick([v.new_zeros(()), *every], place)
        at = mixed(v, w, lam, tail, inside)
        g = task.grad(at, batch)
        pulls = through(g, at, v, lam, tail), through(g, at, w, 1 - lam, tail)
        v, own = descent.step(v, pulls[0], tuple(mine), broadcast.scale)
        w, shared = solving.step(w, pulls[1], tuple(theirs), broadcast.scale)
        return (v, place, *own), (w, *shared), total

    def end(broadcast: Broadcast, carry: Carry, state: Carry) -> tuple[Reply, Carry]:
        own, (w, *_), _ = carry
        return Reply(w - broadcast.w, broadcast.extra), own

    def model(w: Tensor, state: Carry) -> Tensor:
        return mixed(state[0], w, pick([w.new_zeros(()), *every], state[1]), tail)

    def tell(state: Carry) -> Tensor:
        return pick([torch.zeros(1, dtype=torch.float64), *every], state[1])

    solver = Solver(init, begin, step, end)
    return owner(solver, budget or work, model, columns=("weight",), tell=tell)


def _checked(weights: list[float]) -> list[float]:
    """Sort the weights, each once."""
    if not weights:
        raise Refusal(
            "mapper's weights = [] leave nothing to choose; give some in [0, 1], such "
            "as [0.25, 0.5, 0.75]"
        )
    for i, lam in enumerate(weights):
        if not 0 <= lam <= 1:
            raise Refusal(
                f"mapper's weights[{i}] = {lam} must lie in [0, 1]: how much of a "
                "client's model is its own"
            )
    return sorted({*weights})
