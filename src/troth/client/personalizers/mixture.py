r"""A weighted sum of each client's loss and its model's distance from the mean model.

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
    """Weigh each client's loss against the distance of its model from the mean model.

    The objective is minimized over the personal models θ_i of all n clients (Eq. 4 of
    Alfarra et al. 2022). F_i is the loss of client i, and θ̄ the mean of all θ_i:

        min (1/n) Σ_i λF_i(θ_i) + (1 − λ)‖θ_i − θ̄‖²

    Every step is θ_i ← θ_i − η(λ∇F_i(θ_i) + 2(1 − λ)(θ_i − θ̄)) (Eq. 5), where η is the
    learning rate, and θ̄ the shared model of the round, which is fixed. After the
    round, the server computes the new mean.

    The meaning of λ = 1 depends on `start`. With "own", every θ_i is exactly the
    personal model of `local`. With "mean", every round begins at θ̄, and the shared
    model is exactly that of `fedavg`. θ_i is then the client's result in its last
    round. The paper calls λ = 1 local and λ = 0 federated (Sections 3.3 and 4.4). But
    its Figures 5 and 10 show λ = 1 as "standard federated training", which corresponds
    to "mean". With λ = 0, the objective does not depend on the data: all models keep
    their initial values.

    The server learns every client's personal model: the update is θ_i − θ̄ (with "own",
    times the size of a cohort divided by n). One malicious update changes θ̄, towards
    which all models are pulled. The nearer λ is to 1, the weaker is the pull.

    With "own", this is `l2sgd` with the learning rate ηλ and the weight 2(1 − λ)/λ.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs in a round, if `[personalizer]` sets it.
        work: The same, as set by `[train]`; used if `budget` is None.
        share: Size of a cohort, divided by the number of clients.
        masks: Gives the size of every parameter's tensor, for distance = "mean".
        lam: Weight λ in [0, 1] of the client's own loss. The paper uses 0.1, 0.5, 0.9
            and 1.
        start: Start of a round: the client's "own" θ_i, or the "mean" θ̄, which
            overwrites θ_i. With "mean", θ̄ is the mean over the cohort. With "own", if
            cohorts do not contain all clients, the server keeps a running mean: θ̄ ← θ̄
            + share·mean(θ_i − θ̄).
        distance: How ‖θ_i − θ̄‖² is computed. "sum" is the sum of all squares, as in
            Eq. 4. "mean" is the mean of squares of each tensor, summed over tensors, as
            in the authors' code. With "mean", weights of large tensors are hardly
            pulled, and λ does little but scale the learning rate.

    Departs: the paper's training loop is not public, and the paper does not state which
    `start` and `distance` its figures use. The published code contains only the
    function for distance = "mean". With "sum" and a small λ, models change so little in
    a round that they stay far from the minimum, because each is pulled to the θ̄ of the
    previous round. Running statistics of batch normalization are not pulled; they do
    not depend on λ.

    Guarantee: lr·2(1 − λ) must be below the optimizer's limit of stability (2 for
    `sgd`). With larger values, the steps diverge on any data, and Refusal is raised.
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
