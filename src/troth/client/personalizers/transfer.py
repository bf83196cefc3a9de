"""Fine-tuning that keeps adversarial examples of the shared model effective.

References: wang2021robust.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from troth import numerics
from troth.client.adversarial._worst import Adversarial, Worst
from troth.client.personalizers import _choosing
from troth.client.personalizers._choosing import Weight, Weights, pick
from troth.client.personalizers._tuned import EPOCHS, Select, at_the_end, kept, way
from troth.client.regularizers import _pull
from troth.data import labels
from troth.types import (
    Batch,
    Broadcast,
    Budget,
    Carry,
    Descent,
    Personal,
    Phase,
    Refusal,
    Reply,
    Task,
)

Keep = Literal["last", "best", "accurate", "transferable"]


def transfer(
    task: Task,
    descent: Descent,
    budget: Budget | None,
    adversarial: Adversarial,
    *,
    w1: Weight = 1.0,
    w2: Weight = 0.1,
    candidates: list[float] = [0.01, 0.1, 1.0, 10.0],  # noqa: B006
    against: Literal["shared", "finetune"] = "shared",
    keep: Keep = "transferable",
    select: Select = "epoch",
) -> Personal:
    """Fine-tune from w* with a penalty that keeps w*'s adversarial examples effective.

    min_v F_k(v) + w₁·R_adv(v) + w₂·‖v − w*‖², starting from v = w* after the last
    round. F_k is the client's loss, v its personal model, and w* the final shared
    model. A v that relies on a shortcut in the client's data reacts to other changes of
    the input than w* does. So R_adv penalizes predictions that differ from those of w*
    on adversarial examples of w* (Eq. 2 of Wang et al. 2021):

        R_adv = −Σ_i [z_i·log p_i + (1 − z_i)·log(1 − p_i)]

    over the classes i, where z are the probabilities that w* predicts on these
    examples, and p those of v. The last term keeps v near w* (Eq. 3). The paper's Fig.
    7b has w₂ = 0, and Fig. 7c has w₁ = 0. With w₁ = w₂ = 0, the method is `finetune`.

    Adversarial examples are made from the batch of every step (`[adversarial]`). As w*
    is fixed and an epoch contains every example once, the result is the same as if they
    were all made at the beginning of the epoch.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        budget: Number of steps or epochs; None means 50 epochs, as for `finetune`.
        adversarial: Method that makes adversarial examples of w*.
        w1: Weight w₁ ≥ 0 of R_adv, or "auto". 0 means no penalty. With w₁ → ∞, v
            predicts like w* on adversarial examples.
        w2: Weight w₂ ≥ 0 of the distance, or "auto". 0 means no pull. With w₂ → ∞, v is
            w*.
        candidates: Values that "auto" tries. Every client trains one model per value
            and takes the largest value that does not lower its validation accuracy, or
            the smallest if all do (Section 4.1). If both weights are "auto", all pairs
            are tried. The largest pair is the one with the largest product w₁·w₂, then
            with the largest w₁.
        against: Model whose accuracy is the reference for "auto": "shared" is w*,
            "finetune" is the model that is trained with both weights 0.
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "transferable" is the paper's rule: the highest accuracy on
            the validation data minus the accuracy on adversarial examples of w*.
            "accurate" has the highest accuracy, "best" the lowest loss. Ties go to the
            candidate with the lowest loss, then to the latest. The shared model w* is a
            candidate too, and loses every tie.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.

    Departs: Eq. 2 is printed without the minus sign, and would have to be maximized.
    The paper calls z and p outputs of the last layers; here they are probabilities:
    softmax, or a sigmoid for each label if examples may have several. R_adv is the mean
    over the batch.
    """
    if task.classes == 0:
        raise Refusal(
            "personalizer 'transfer' compares predicted probabilities of classes, and "
            "this is a regression; take ditto_finetune"
        )
    tried = _choosing.tried(w1, w2, candidates, descent)
    chosen = "auto" in (w1, w2)
    ways = [*tried, Weights(0.0, 0.0)] if chosen and against == "finetune" else tried
    own_way = way(task, descent, keep, select)

    def begin(broadcast: Broadcast, state: Carry) -> Carry:
        return tuple(own_way.begin(broadcast.w) for _ in ways)

    def step(broadcast: Broadcast, carry: Carry, batch: Batch, valid: Batch) -> Carry:
        w = broadcast.w
        needed = any(weights.w1 for weights in ways)
        seen = adversarial.worst(w, batch) if needed else None
        along = partial(_gradient, task, w, batch, seen)
        return tuple(
            own_way.step(own, partial(along, weights), batch, valid, broadcast.scale)
            for weights, own in zip(ways, carry, strict=True)
        )

    def end(
        broadcast: Broadcast, carry: Carry, state: Carry, valid: Batch
    ) -> tuple[Reply, Carry]:
        models = [own_way.end(own, valid) for own in carry]
        if not chosen:
            return kept(models[0], broadcast, state)
        counts = [_right(task, v, valid) for v in models[: len(tried)]]
        before = broadcast.w if against == "shared" else models[-1]
        at = _choosing.largest(counts, _right(task, before, valid))
        reply, (v, mark) = kept(pick(models, at), broadcast, state)
        return reply, (v, mark + at)

    finish = Phase(begin, step, end, (budget or EPOCHS,), chosen or keep != "last")
    if keep == "transferable":
        finish = finish._replace(prepare=partial(_prepare, adversarial))
    made = at_the_end(finish)
    return made._replace(columns=Weights._fields, tell=_tell(tried)) if chosen else made


def _gradient(
    task: Task, w: Tensor, batch: Batch, seen: Worst | None, by: Weights, v: Tensor
) -> Tensor:
    """Return the gradient of the objective at v; `seen` are adversarial examples."""
    # The penalties first, because the task's gradient is a buffer that they overwrite.
    terms = []
    if by.w1 and seen is not None:
        between = disagreement(seen.outputs, batch)
        terms.append((task.slope(v, seen.x, between), by.w1))
    if by.w2:
        terms.append((numerics.off_tail(v - w, task.tail), 2 * by.w2))
    g = task.grad(v, batch)
    for term, weight in terms:
        g = _pull.plus(g, term, weight)
    return g


def _prepare(adversarial: Adversarial, broadcast: Broadcast, valid: Batch) -> Batch:
    """Append adversarial examples to validation data, with negative weights.

    So `measure` subtracts the number of adversarial examples that v classifies
    correctly.
    """
    seen = adversarial.worst(broadcast.w, valid)
    x = torch.cat([valid.x.to(seen.x.dtype), seen.x])
    y = torch.cat([valid.y, valid.y])
    weight = torch.cat([valid.weight, -valid.weight])
    return valid._replace(x=x, y=y, weight=weight)


def _right(task: Task, v: Tensor, valid: Batch) -> Tensor:
    """Count correctly classified validation examples, except adversarial ones."""
    right = labels.right(task.predict(v, valid.x), valid.y)
    return (valid.weight.sign().clamp(min=0) * right).sum()


def _tell(tried: list[Weights]) -> Callable[[Carry], Tensor]:
    """Return the function state → chosen weights; NaN if the client was not trained."""
    nothing = torch.full((2,), torch.nan, dtype=torch.float64)
    each = [torch.tensor(pair, dtype=torch.float64) for pair in tried]
    return lambda state: pick([nothing, *each], state[1])


def disagreement(of_w: Tensor, batch: Batch) -> Callable[[Tensor], Tensor]:
    """Return −Σ_i [z_i·log p_i + (1 − z_i)·log(1 − p_i)], averaged over the batch.

    The result is a function of outputs [b, k]. z are the probabilities that the fixed
    outputs `of_w` [b, k] predict, and p those that the argument predicts. A model with
    one output (a margin) has two classes. If an example may have several labels, every
    label has a separate probability. The function is smallest, but not 0, at p = z.
    """
    single = batch.y.dim() == 1 or labels.soft(batch.y)
    z = _logs(of_w.detach(), single)[0].exp()

    def between(outputs: Tensor) -> Tensor:
        yes, no = _logs(outputs, single)
        each = -(z * yes + (1 - z) * no).sum(dim=1)
        return (each * batch.weight).sum()

    return between


def _logs(outputs: Tensor, single: bool) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 − p), [b, K], both accurate also for p near 0 and 1."""
    if not single:
        return logsigmoid(outputs), logsigmoid(-outputs)
    if outputs.shape[1] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], dim=1)
    yes = outputs.log_softmax(dim=1)
    # The p of the likeliest class may round to 1; all other p are at most 1/2.
    at = outputs.detach().argmax(dim=1, keepdim=True)
    top = torch.arange(outputs.shape[1], device=outputs.device) == at
    others = outputs.masked_fill(top, -torch.inf).logsumexp(dim=1, keepdim=True)
    rest = others - outputs.logsumexp(dim=1, keepdim=True)
    small = yes.masked_fill(top, -torch.inf).exp()
    return yes, torch.where(top, rest, torch.log1p(-small))
