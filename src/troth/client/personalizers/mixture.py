r"""A weighted sum of each client's own loss and its distance from the mean model.

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
    """Weigh each client's own loss against its distance to the mean model (Eq. 4).

    Objective, over all clients' models together, with θ̄ their mean (Eq. 4 of the
    certified-robustness paper):

        min (1/n) Σ_i λF_i(θ_i) + (1 − λ)‖θ_i − θ̄‖²

    Every step is θ_i ← θ_i − η(λ∇F_i(θ_i) + 2(1 − λ)(θ_i − θ̄)) (Eq. 5), where θ̄ is
    the shared model of the round, held fixed. Then the server computes the new mean.

    The meaning of λ = 1 depends on `start`. With "own", no θ_i is overwritten, and θ_i
    is exactly that of `local`. With "mean", every round begins at θ̄, and the shared
    model is exactly that of `fedavg`. θ_i is then this model after the client's steps
    of its last round. The paper calls λ = 1 local and λ = 0 federated (3.3, 4.4). But
    its Figures 5 and 10 show λ = 1 as "standard federated training", which is "mean".
    At λ = 0, the objective does not depend on the data at all: all models keep their
    initial values.

    The server learns every client's personal model: the update is θ_i − θ̄. One
    malicious update moves θ̄, towards which all models are pulled. The pull is weaker
    the nearer λ is to 1.

    With "own", this is `l2sgd` with the learning rate ηλ and the weight 2(1 − λ)/λ.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training in a round, if `[personalizer]` sets it.
        work: Length of the training in a round by `[train]`, used if `budget` is None.
        share: Size of a cohort, divided by the number of clients.
        masks: Masks of the tensors, for distance = "mean".
        lam: Weight λ in [0, 1] of the client's own loss. The paper uses 0.1, 0.5, 0.9
            and 1.
        start: Start of a round: the client's "own" θ_i, or the "mean" θ̄, which
            overwrites θ_i. With "mean", θ̄ is the mean of the cohort. With "own" and
            cohorts of a part of the clients, θ̄ is a running mean, θ̄ + share·mean(θ_i
            − θ̄).
        distance: Penalty ‖θ_i − θ̄‖²: "sum" or "mean". "sum" adds the squares of all
            numbers, as Eq. 4 is written. "mean" adds, over tensors, the mean of each
            tensor's squares, as in the authors' code. With "mean", a weight of a large
            tensor is hardly pulled, and λ does little but scale the learning rate.

    Departs: the paper's training loop is not public, and nothing states which `start`
    and `distance` its figures use. Its code contains only the helper for "mean". As
    written and with a small λ, models move so little in a round that they stay far from
    the minimum: each is pulled to the θ̄ of the previous round. Running statistics of
    batch normalization are not pulled; they follow the data whatever λ is.

    Guarantee: lr·2(1 − λ) must stay below the optimizer's limit of stability (2 for
    `sgd`). Larger values diverge on any data and are refused.
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
