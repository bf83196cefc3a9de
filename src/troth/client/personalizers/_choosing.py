"""Choose weights by a client's data: λ of `ditto` and `mapper`, w₁, w₂ of `transfer`.

If several candidates do equally well on a client's data, the one that relies least on
the shared model is chosen. The only exception is `transfer`: by the rule of its paper,
it takes the largest weights that do not lower accuracy.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from troth.client.personalizers._own import Towards, place, pulled
from troth.client.regularizers import _pull
from troth.types import (
    Anchor,
    Batch,
    Carry,
    Descent,
    Personal,
    Refusal,
    Regularizer,
    Task,
)

_YES = -1.0  # the client has trained, and has not chosen its λ yet

Rule = Literal["side_by_side", "paper", "code"]


class Asked(NamedTuple):
    """Options of `ditto` for the choice of λ."""

    rule: Rule
    candidates: list[float]
    fallback: float
    few: int
    towards: Towards

    @property
    def lams(self) -> list[float]:
        """Sorted candidates; the fallback is appended if it is not among them."""
        every = sorted({*self.candidates})
        return every if self.fallback in every else [*every, self.fallback]

    @property
    def among(self) -> int:
        """Number of different candidates; they are the first entries of `lams`."""
        return len({*self.candidates})

    @property
    def first(self) -> int:
        """Index of the fallback in `lams`."""
        return self.lams.index(self.fallback)

    @property
    def least(self) -> int:
        """Number of validation examples that a client needs to choose λ."""
        return max(1, self.few) if self.rule == "paper" else 1


def auto(
    task: Task, descent: Descent, regularizer: Regularizer, asked: Asked
) -> Personal:
    """Return `ditto` in which every client chooses λ among candidates.

    The last number of a client's state is the index of its λ in `asked.lams`; initially
    the fallback. Raise Refusal if the options are not valid.
    """
    if not asked.candidates:
        raise Refusal(
            "ditto's candidates = [] leave no λ to choose; give some, such as "
            "[0.1, 1.0, 2.0], or set lam to a number"
        )
    for i, lam in enumerate(asked.candidates):
        _pull.check("ditto", lam, descent, regularizer.curvature, f"candidates[{i}]")
    _pull.check("ditto", asked.fallback, descent, regularizer.curvature, "fallback")
    if asked.few < 0:
        raise Refusal(f"ditto's few = {asked.few} must be at least 0; the paper has 4")
    if asked.rule == "code":
        made = _every_step(task, descent, regularizer, asked)
    else:
        made = _side_by_side(task, descent, regularizer, asked)
    lams = [torch.tensor([lam], dtype=torch.float64) for lam in asked.lams]
    return made._replace(columns=("lam",), tell=lambda state: pick(lams, state[-1]))


def _choice(models: list[Tensor], task: Task, valid: Batch, asked: Asked) -> Tensor:
    """Return the index of the λ whose model has the lowest validation loss.

    Ties go to the smallest λ, as in the code of Ditto's authors. If the client has too
    few validation examples, or no loss is finite, the result is the index of the
    fallback.
    """
    losses = torch.stack([task.loss(v, valid) for v in models[: asked.among]])
    finite = losses.isfinite()
    enough = (valid.weight > 0).sum() >= asked.least
    best = torch.where(finite, losses, torch.inf).argmin()
    return torch.where(enough & finite.any(), best, asked.first)


def lowest(losses: Tensor) -> Tensor:
    """Return the index of the lowest finite loss.

    Ties go to the last of the equal losses. If no loss is finite, the result is the
    last index.
    """
    finite = torch.where(losses.isfinite(), losses, torch.inf)
    return len(losses) - 1 - finite.flip(0).argmin()


def pick(options: Sequence[Any], at: Tensor) -> Tensor:
    """Return `options[at]` without stacking all options, which would take more memory.

    The first option must be a tensor.
    """
    picked: Tensor = options[0]
    for i, option in enumerate(options[1:], 1):
        picked = torch.where(at == i, option, picked)
    return picked


def _side_by_side(
    task: Task, descent: Descent, regularizer: Regularizer, asked: Asked
) -> Personal:
    """Train one model for each λ, and use the one with the lowest validation loss.

    The model is chosen when the client predicts or is evaluated, not in every round.
    State: the state of `ditto` for every λ, then an index of a λ. The index is
    initially that of the fallback, −1 after training, and that of the chosen λ after
    the choice.
    """
    each = [
        pulled(task, descent, regularizer, lam, asked.towards) for lam in asked.lams
    ]

    def init(w0: Tensor) -> Carry:
        return *(one.init(w0) for one in each), w0.new_full((), asked.first)

    def step(
        state: Carry, anchor: Anchor, batch: Batch, valid: Batch, scale: Tensor
    ) -> Carry:
        pairs = zip(each, state[:-1], strict=True)
        made = (one.step(own, anchor, batch, valid, scale) for one, own in pairs)
        return *made, torch.full_like(state[-1], _YES)

    def settle(state: Carry, valid: Batch) -> Carry:
        *kept, last = state
        best = _choice([v for v, *_ in kept], task, valid, asked)
        return *kept, torch.where(last == _YES, best.to(last.dtype), last)

    return Personal(
        init,
        step,
        model=lambda w, state: pick([v for v, *_ in state[:-1]], state[-1]),
        settle=settle,
    )


def _every_step(
    task: Task, descent: Descent, regularizer: Regularizer, asked: Asked
) -> Personal:
    """Train one model; every step tries each λ and keeps the one that validates best.

    State: the model v, the optimizer's moments, and the index of the last step's λ.
    """

    def init(w0: Tensor) -> Carry:
        return w0, *descent.init(w0), w0.new_full((), asked.first)

    def step(
        state: Carry, anchor: Anchor, batch: Batch, valid: Batch, scale: Tensor
    ) -> Carry:
        v, *moments, last = state
        # Compute the pull first: it may overwrite the buffer of the task's gradient.
        pull = regularizer.grad(v, place(anchor, asked.towards), batch)
        g = task.grad(v, batch)
        tried = [
            descent.step(v, _pull.plus(g, pull, lam), tuple(moments), scale)
            for lam in asked.lams
        ]
        at = _choice([made for made, _ in tried], task, valid, asked)
        states = [(made, *rest) for made, rest in tried]
        kept = [pick(list(same), at) for same in zip(*states, strict=True)]
        return *kept, at.to(last.dtype)

    return Personal(init, step, model=lambda w, state: state[0], valid=True)


# The choice of w₁ and w₂ for `transfer`.

Weight = float | Literal["auto"]


class Weights(NamedTuple):
    """Weights of the two terms of `transfer`."""

    w1: float  # weight of R_adv: predictions that differ on adversarial examples
    w2: float  # weight of ‖v − w‖²: distance from the shared model


def tried(
    w1: Weight, w2: Weight, candidates: list[float], descent: Descent
) -> list[Weights]:
    """List all pairs (w1, w2) to try, sorted by w1·w2, then by w1, then by w2.

    For a weight "auto", all candidates are tried. Raise Refusal if a weight is not
    valid.
    """
    if "auto" in (w1, w2) and not candidates:
        raise Refusal(
            "transfer's candidates = [] leave no weight to choose; give some, such as "
            "[0.01, 0.1, 1.0, 10.0], or set w1 and w2 to numbers"
        )
    listed = {f"candidates[{i}]": value for i, value in enumerate(candidates)}
    for name, weight, curvature in (("w1", w1, 0.0), ("w2", w2, 2.0)):
        named = listed if weight == "auto" else {name: weight}
        for option, value in named.items():
            _pull.check("transfer", float(value), descent, curvature, option)
    each = [sorted({*candidates}) if w == "auto" else [w] for w in (w1, w2)]
    pairs = [Weights(float(a), float(b)) for a, b in itertools.product(*each)]
    return sorted(pairs, key=lambda pair: (pair.w1 * pair.w2, *pair))


def largest(right: list[Tensor], reference: Tensor) -> Tensor:
    """Return the index of the last pair that does not lower validation accuracy.

    This is the rule of the `transfer` paper (Section 4.1). If every pair lowers the
    accuracy, the result is 0.

    Args:
        right: Numbers of correctly classified examples, one per pair of weights.
        reference: Number of examples that the reference model classifies correctly.
    """
    at = torch.zeros_like(reference)
    for i, count in enumerate(right):
        at = torch.where(count >= reference, torch.full_like(at, i), at)
    return at
