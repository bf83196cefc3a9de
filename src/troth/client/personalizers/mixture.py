r"""A mixture of the client's own loss and its distance from the mean of all models.

References: alfarra2022certified, hanzely2020federated.
"""

from typing import Literal

from torch import Tensor

from troth import numerics
from troth.client.personalizers._owner import Start, sent
from troth.client.regularizers import _pull
from troth.networks.flat import Masks
from troth.types import Batch, Broadcast, Budget, Client, Descent, Refusal, Task


def mixture(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    work: Budget,
    share: float,
    masks: Masks | None = None,
    *,
    lam: float = 0.5,
    start: Start = "own",
    distance: Literal["sum", "mean"] = "sum",
) -> Client:
    """Personal models between the client's own loss and the mean of all (Eq. 4 and 5).

    Objective, over all clients' models together, with θ̄ their mean (Eq. 4 of the
    certified-robustness paper):

        min (1/n) Σ_i λF_i(θ_i) + (1 − λ)‖θ_i − θ̄‖²

    Every step: θ_i ← θ_i − η(λ∇F_i(θ_i) + 2(1 − λ)(θ_i − θ̄)) (Eq. 5), where θ̄ is the
    shared model of the round, held fixed; then the server takes the mean anew.

    What λ = 1 means depends on `start`. With "own" nothing is overwritten, and θ_i is
    exactly `local`'s. With "mean" every round begins at θ̄, and the shared model is
    exactly `fedavg`'s; θ_i is that model after the client's steps of its last round.
    The paper calls λ = 1 local and λ = 0 federated (3.3, 4.4), but its Figures 5 and
    10 show λ = 1 as "standard federated training", which is "mean". λ = 0 as written
    does not look at the data at all: all models stay where they began.

    The server learns every client's personal model: the update is θ_i − θ̄. One
    malicious update moves θ̄, towards which all are pulled; less, the nearer λ is to 1.

    With "own" it is `l2sgd` in other units: η there is ηλ here, λ there 2(1 − λ)/λ.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        budget: Length of the training in a round, if `[personalizer]` sets it.
        work: Length of the training in a round, if `[personalizer]` sets none.
        share: Share of all clients that a round asks.
        masks: Masks of the tensors, for distance = "mean".
        lam: Weight λ in [0, 1] of the client's own loss; the paper has 0.1, 0.5, 0.9
            and 1.
        start: Start of a round: the client's "own" θ_i, or the "mean" θ̄, overwriting
            θ_i. θ̄ is the mean of those asked; with "own", where only some clients are
            asked, a running mean, θ̄ + share·mean(θ_i − θ̄).
        distance: Penalty ‖θ_i − θ̄‖²: the "sum" over all numbers, or the "mean" per
            tensor. "sum" is Eq. 4 as written; "mean" sums the means of squares over the
            tensors, as the authors' code has it. There a weight of a large tensor is
            hardly pulled at all, and λ does little but scale the learning rate.

    Departs: the paper's training loop is not public, and nothing says which `start`
    and `distance` its figures have; of its code there is only the helper with "mean".
    As written and with a small λ, models move so little in a round that they stay far
    behind: the pull holds each to a θ̄ that is still that of the round before. Running
    statistics of batch normalization are not pulled, and follow the data whatever λ is.

    Guarantee: lr·2(1 − λ) must stay below what the optimizer can follow (2 for `sgd`);
    more diverges on any data and is refused.
    """
    if not 0 <= lam <= 1:
        raise Refusal(
            f"mixture's lam = {lam} must lie in [0, 1]; 1 is the client's own loss "
            "alone, 0.5 half of it"
        )
    factors = {"2(1 − lam)": 2 * (1 - lam)}
    sizes = None
    if distance == "mean":
        assert masks is not None
        sizes = masks.sizes()
        factors["1/size of the smallest tensor"] = float(1 / sizes.min())
    _pull.stable("mixture", descent, factors)

    def gradient(broadcast: Broadcast, v: Tensor, batch: Batch) -> Tensor:
        if lam == 1:
            return task.grad(v, batch)
        apart = v - broadcast.w if sizes is None else (v - broadcast.w) / sizes
        pull = numerics.off_tail(apart, task.tail)
        g = _pull.times(task.grad(v, batch), lam, task.tail)
        return _pull.plus(g, pull, 2 * (1 - lam))

    part = share if start == "own" else 1.0
    return sent(descent, gradient, budget or work, part, start)
