r"""A shared model whose only purpose is to couple the clients' own models.

References: farhadkhani2022equivalence.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from troth import numerics
from troth.client.personalizers import _lbfgs
from troth.client.regularizers import _pull
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Client,
    Descent,
    Options,
    Phase,
    Refusal,
    Regularizer,
    Reply,
    Task,
)

STEPS = 30


def coupled(
    task: Task,
    descent: Descent,
    regularizer: Regularizer,
    budget: Budget | None,
    work: Budget,
    *,
    lam: float = 1.0,
    nu: float = 0.0,
    fit: Literal["sum", "mean"] = "sum",
    unit: float = 1.0,
    solve: Literal["step", "exact"] = "step",
    report: Literal["after", "before"] = "after",
) -> Client:
    """Couple the clients' own models by a shared model (attack equivalence, Eq. 1).

    The objective (Section 2.2) is Σ_n [ν‖θ_n‖² + fit(θ_n, D_n) + λR(ρ, θ_n)]. θ_n is
    the personal model of client n, D_n its data, fit its loss, ρ the shared model, and
    R the regularizer. In the objective, only R depends on ρ. A client trains its θ_n
    with ρ fixed and sends the update −λ∇_ρR(ρ, θ_n). With the aggregator `sum` and the
    server step `sgd`, ρ takes gradient steps with the learning rate `server.lr`.

    The server learns −λ∇_ρR(ρ, θ_n). With `l2sq`, this reveals θ_n itself.

    Guarantee: with the regularizers `l2` and `smooth_l2`, no honest update has a norm
    above λ, whatever the data. The filter `plausible` uses this.

    Departs: for `l2sq`, R is ½‖ρ − θ‖². So λ‖ρ − θ‖² in the paper corresponds to lam =
    2λ. All models start from the first shared model; in the authors' code, they start
    from different models.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer of θ_n, for solve = "step".
        regularizer: Regularizer R, which must depend on θ − ρ alone: `l2sq`, `l2` or
            `smooth_l2`.
        budget: Number of steps or epochs of θ_n in a round. None means `work`, or 30
            steps with solve = "exact". Set train.batch = 0, so that every step uses all
            data of the client.
        work: Number of steps or epochs in a round, set by `[train]`.
        lam: Weight λ > 0 of the coupling.
        nu: Weight ν ≥ 0 of ‖θ_n‖².
        fit: Loss of a client: the "sum" or the "mean" of the losses of its examples.
            With "mean", a client with more data has no larger weight (Appendix E). If a
            batch is only a part of the data, the sum is estimated from the batch.
        unit: Number by which the sum is divided, for fit = "sum". Appendix E of the
            paper takes the mean number of examples per client.
        solve: How θ_n is trained. "step" takes gradient steps from the last θ_n.
            "exact" takes steps of L-BFGS, which solve convex problems to machine
            precision.
        report: Whether ∇_ρR is computed at θ_n "after" this round's training or
            "before" it. The authors' code has "before": it updates θ_n and ρ at the
            same time.
    """
    _check(lam, nu, unit, regularizer)
    steps = budget or (Budget(steps=STEPS) if solve == "exact" else work)

    def many(batch: Batch) -> Tensor:
        there = (batch.weight > 0).to(batch.weight.dtype).sum()
        if fit == "mean":
            return torch.ones_like(there)
        return there * batch.per_epoch / unit

    def value(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        ridge = numerics.off_tail(v, task.tail).square().sum()
        own = many(batch) * task.loss(v, batch) + nu * ridge
        return own + lam * regularizer.value(v, w, batch)

    def gradient(v: Tensor, w: Tensor, batch: Batch) -> Tensor:
        pull = regularizer.grad(v, w, batch)
        g = _pull.times(task.grad(v, batch), many(batch), task.tail)
        ridge = numerics.off_tail(v, task.tail)
        return _pull.plus(_pull.plus(g, ridge, 2 * nu), pull, lam)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        if solve == "exact":
            return _lbfgs.begin(state[0])
        return state

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        w = broadcast.w
        if solve == "exact":
            return _lbfgs.step(
                carry, lambda v: value(v, w, batch), lambda v: gradient(v, w, batch)
            )
        v, *moments = carry
        g = gradient(v, w, batch)
        v, rest = descent.step(v, g, tuple(moments), broadcast.scale)
        return v, *rest

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        theta = carry[0] if report == "after" else state[0]
        pull = regularizer.grad(theta, broadcast.w, valid)
        kept = carry[:1] if solve == "exact" else carry
        return Reply(lam * pull, broadcast.extra), kept

    return Client(
        init=lambda w0: (w0,) if solve == "exact" else (w0, *descent.init(w0)),
        local=Phase(begin, step, end, (steps,)),
        finish=None,
        model=lambda w, state: state[0],
        shares_personal=True,
    )


def _check(lam: float, nu: float, unit: float, regularizer: Regularizer) -> None:
    if math.isnan(regularizer.reach):
        raise Refusal(
            "coupled needs a regularizer that depends on θ − ρ alone; set "
            "regularizer.name to l2sq, l2 or smooth_l2"
        )
    if not 0 < lam < math.inf:
        raise Refusal(
            f"coupled's lam = {lam} must be a finite number above 0; without a pull "
            "nothing couples the models, and that is personalizer 'local'"
        )
    if not 0 <= nu < math.inf or not 0 < unit < math.inf:
        raise Refusal(
            f"coupled's nu = {nu} must be at least 0 and its unit = {unit} above 0, "
            "and both finite"
        )


def known(options: Options, reach: Callable[[], float]) -> dict[str, float]:
    """Return λ (`lam`) and the largest norm of an honest update (`radius`).

    Attacks and filters may use these values.
    """
    return {"lam": options["lam"], "radius": options["lam"] * reach()}
