"""Fine-tuning after which adversarial examples of the shared model still transfer.

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

    min_v F_k(v) + w₁·R_adv(v) + w₂·‖v − w*‖², from v = w* after the last round, where
    w* is the final shared model. A personal model that relies on a shortcut of its
    client's data reacts to other changes of the input than w* does. So R_adv penalizes
    predictions that differ from those of w* on adversarial examples of w* (Eq. 2):

        R_adv = −Σ_i [z_i·log p_i + (1 − z_i)·log(1 − p_i)]

    over the classes i, where z are the probabilities that w* predicts there and p those
    of v. The last term keeps v near w* (Eq. 3). w₂ = 0 is Fig. 7b, w₁ = 0 is Fig. 7c,
    and both 0 is `finetune`.

    Adversarial examples are made from the batch of every step (`[adversarial]`). As w*
    is fixed and an epoch contains every example once, this is the same as to make them
    all at the beginning of the epoch.

    Args:
        task: Task of the client.
        descent: Learning rate and optimizer, from `[personalizer]` or from `[train]`.
        budget: Length of the training; None is 50 epochs, as for `finetune`.
        adversarial: Maker of adversarial examples against w*.
        w1: Weight w₁ ≥ 0 of R_adv, or "auto". 0: no penalty. w₁ → ∞: v predicts like w*
            on adversarial examples.
        w2: Weight w₂ ≥ 0 of the distance, or "auto". 0: no pull. w₂ → ∞: v is w*.
        candidates: Values that "auto" tries. Every client trains one model per value
            and takes the largest value that does not lower its validation accuracy, or
            the smallest if all do (Section 4.1). If both weights are "auto", all pairs
            are tried, and the pair with the largest product w₁·w₂ is taken; if several
            pairs have this product, the one with the largest w₁.
        against: Reference accuracy for "auto": that of w* ("shared"), or that of the
            model with both weights 0 ("finetune").
        keep: Model to keep: the "last", or a candidate chosen by the client's
            validation data. "transferable" has the highest accuracy minus the decrease
            of adversarial transferability, as in the paper. "accurate" has the highest
            accuracy, "best" the lowest loss. Ties go to the candidate with the lowest
            loss, then to the latest. The shared model w* is a candidate too, and loses
            every tie.
        select: Candidates for `keep`: the models after every "epoch" of the client's
            data, or after every "step". w* and the last model are always candidates.

    Departs: Eq. 2 as printed would have to be maximized; here it has a minus. The paper
    calls z and p outputs of the last layers; here they are probabilities (softmax, or a
    sigmoid for each of several labels). R_adv is the mean over the batch.
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
    """Compute the gradient of the objective; `seen` are the adversarial examples."""
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

    The number of them that v classifies correctly is the decrease of transferability,
    up to a constant.
    """
    seen = adversarial.worst(broadcast.w, valid)
    x = torch.cat([valid.x.to(seen.x.dtype), seen.x])
    y = torch.cat([valid.y, valid.y])
    weight = torch.cat([valid.weight, -valid.weight])
    return valid._replace(x=x, y=y, weight=weight)


def _right(task: Task, v: Tensor, valid: Batch) -> Tensor:
    """Count correctly classified validation examples, without adversarial ones."""
    right = labels.right(task.predict(v, valid.x), valid.y)
    return (valid.weight.sign().clamp(min=0) * right).sum()


def _tell(tried: list[Weights]) -> Callable[[Carry], Tensor]:
    """Return a function from a client's state to its chosen weights; NaN if none."""
    nothing = torch.full((2,), torch.nan, dtype=torch.float64)
    each = [torch.tensor(pair, dtype=torch.float64) for pair in tried]
    return lambda state: pick([nothing, *each], state[1])


def disagreement(of_w: Tensor, batch: Batch) -> Callable[[Tensor], Tensor]:
    """Return −Σ_i [z_i·log p_i + (1 − z_i)·log(1 − p_i)], averaged over the batch.

    z are the probabilities of the outputs `of_w` [b, k], which are fixed. p are those
    of the argument of the returned function. A model with one output (a margin) has two
    classes. If an example may have several labels, each label has a probability of its
    own. The minimum, which is above 0, is at p = z.
    """
    single = batch.y.dim() == 1 or labels.soft(batch.y)
    z = _logs(of_w.detach(), single)[0].exp()

    def between(outputs: Tensor) -> Tensor:
        yes, no = _logs(outputs, single)
        each = -(z * yes + (1 - z) * no).sum(dim=1)
        return (each * batch.weight).sum()

    return between


def _logs(outputs: Tensor, single: bool) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 − p), [b, K], both to full precision."""
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
