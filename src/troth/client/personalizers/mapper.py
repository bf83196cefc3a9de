"""MAPPER: mixtures of the shared model and personal models, with chosen weights.

References: mansour2020three.
"""

from typing import Literal

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
    solve: Literal["together", "in_turn"] = "together",
) -> Client:
    """Mix a personal and the shared model: min Σ_k F_k(λ_k·v_k + (1 − λ_k)w).

    The minimum is over the shared model w, and over the personal model v_k and the
    weight λ_k of every client k (model interpolation of Mansour et al. 2020). F_k is
    the loss of client k. In a round, a client trains a copy w_k of the shared model wᵗ,
    and its v from the last value. The client predicts with λv + (1 − λ)w, where λ is
    its last choice, which the column `weight` of clients.csv shows. A client that never
    took part has λ = 0.

    "in_turn" is the published algorithm. For every λ, a copy of v is trained with w
    fixed: v_λ ← v_λ − ηλg, where g is the gradient of F_k at λv_λ + (1 − λ)wᵗ. Then the
    client takes the λ (and its v_λ) with the lowest loss on one pass through its data.
    Finally, w takes one step: w_k ← wᵗ − η(1 − λ)g, with g on the last batch of the
    pass.

    "together" is cheaper, with one gradient per step. Every step takes the λ whose
    mixture had the lowest loss on the batches of the round so far. Both models follow
    the gradient g of F_k at this mixture: v ← v − ηλg, w_k ← w_k − η(1 − λ)g.

    The client sends w_k − wᵗ. With "together", this nearly reveals v. With `sgd`, equal
    learning rates and one λ in the round, v changes by the update times λ/(1 − λ), and
    λ is one of a few values. If F_k has a single minimizer, the client's mixture
    converges to it, as with `local` (a remark of FMTL: Li et al. 2020).

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of v, from `[personalizer]` or else from
            `[train]`. The moments are kept between rounds.
        solving: Learning rate and optimizer of w_k, from `[train]`. The moments start
            anew in every round.
        budget: Number of steps or epochs in a round, if `[personalizer]` sets it.
        work: The same, as set by `[train]`; used if `budget` is None.
        weights: Values of λ to choose from, in [0, 1]. Of equal losses, and if no loss
            is finite, the largest λ is taken, which relies least on the shared model.
            weights = [0] with "together" is exactly `fedavg`. [1] is exactly `local`,
            and the shared model stays constant. Ditto's authors have {0.25, 0.5, 0.75}.
        solve: "in_turn" or "together", see above.

    Departs: Mansour et al. minimize over v_λ exactly; "in_turn" takes the steps of a
    round, as does the code of Ditto's authors. Of equal losses, their code takes the
    smallest λ. It fine-tunes the mixtures after the last round. Because of a wrong
    indentation, it aggregates only the last client's update. "together" is not
    published. Running statistics of batch normalization are not mixed: both models have
    the statistics of the mixture.
    """
    every = _checked(weights)
    made = _in_turn if solve == "in_turn" else _together
    solver, length = made(task, descent, solving, budget or work, every)
    tail = task.tail

    def model(w: Tensor, state: Carry) -> Tensor:
        return mixed(state[0], w, pick([w.new_zeros(()), *every], state[1]), tail)

    def tell(state: Carry) -> Tensor:
        return pick([torch.zeros(1, dtype=torch.float64), *every], state[1])

    return owner(solver, length, model, columns=("weight",), tell=tell)


def _together(
    task: Task, descent: Descent, solving: Descent, work: Budget, every: list[float]
) -> tuple[Solver, Budget]:
    """Return the solver that trains v and w_k along one gradient, at the best λ so far.

    State: v, 1 + the index of the λ in use (0 before the first round), and the moments
    of v.
    """
    tail = task.tail
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

    return Solver(init, begin, step, end), work


def _in_turn(
    task: Task, descent: Descent, solving: Descent, work: Budget, every: list[float]
) -> tuple[Solver, Budget]:
    """Return the solver that trains v for each λ, chooses λ, and moves w once.

    The state is that of `_together`.
    """
    tail = task.tail

    def init(w0: Tensor) -> Carry:
        return w0, w0.new_zeros(()), *descent.init(w0)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        v, _, *mine = state
        each = tuple((v, *mine) for _ in every)
        return each, broadcast.w, broadcast.w.new_zeros(len(every))

    def step(broadcast: Broadcast, carry: Carry, batch: Batch) -> Carry:
        each, _, total = carry
        w, training = broadcast.w, work.lasts(batch)
        moved, pulls, losses = [], [], []
        for lam, (v, *mine) in zip(every, each, strict=True):
            at = mixed(v, w, lam, tail)
            losses.append(task.loss(at, batch))
            g = task.grad(at, batch)
            pulls.append(through(g, at, w, 1 - lam, tail))
            along = through(g, at, v, lam, tail)
            new, rest = descent.step(v, along, tuple(mine), broadcast.scale)
            pairs = zip((new, *rest), (v, *mine), strict=True)
            moved.append(tuple(torch.where(training, a, b) for a, b in pairs))
        rows = (batch.weight > 0).sum()
        total = total + torch.where(training, 0.0, rows * torch.stack(losses))
        pull = pick(pulls, lowest(total))
        ahead, _ = solving.step(w, pull, solving.init(w), broadcast.scale)
        return tuple(moved), torch.where(training, w, ahead), total

    def end(broadcast: Broadcast, carry: Carry, state: Carry) -> tuple[Reply, Carry]:
        each, w, total = carry
        at = lowest(total)
        v, *mine = (pick(same, at) for same in zip(*each, strict=True))
        reply = Reply(w - broadcast.w, broadcast.extra)
        return reply, (v, (at + 1).to(w.dtype), *mine)

    length = work._replace(epochs=work.epochs + 1)
    return Solver(init, begin, step, end), length


def _checked(weights: list[float]) -> list[float]:
    """Return the sorted, distinct weights; raise Refusal if one is not valid."""
    if not weights:
        raise Refusal(
            "mapper's weights = [] leave nothing to choose; give some in [0, 1], such "
            "as [0.25, 0.5, 0.75]"
        )
    for i, lam in enumerate(weights):
        if not 0 <= lam <= 1:
            raise Refusal(
                f"mapper's weights[{i}] = {lam} must lie in [0, 1]: it is the share of "
                "a client's own model in the mixture"
            )
    return sorted({*weights})
