"""Ditto: personal models pulled towards the shared one.

@inproceedings{li2021ditto,
  title={Ditto: Fair and Robust Federated Learning Through Personalization},
  author={Li, Tian and Hu, Shengyuan and Beirami, Ahmad and Smith, Virginia},
  booktitle={ICML}, year={2021}}
"""

from __future__ import annotations

import math

from torch import Tensor

from troth.personalizers._own import own
from troth.personalizers.local import local
from troth.types import Anchor, Batch, Descent, Personal, Refusal, Regularizer, Task


def ditto(
    task: Task, descent: Descent, regularizer: Regularizer, *, lam: float = 1.0
) -> Personal:
    """Ditto, solved jointly with the shared model (Algorithms 1 and 2, line 6).

    v ← v − η(∇F_k(v) + λ∇R(v, wᵗ)), where R is the regularizer (`l2sq`: v − wᵗ) and
    wᵗ the shared model that the round began with. v starts from the first shared
    model and moves only in the rounds in which its client is asked; it sees the same
    batches as the shared model, its step first.

    Args:
        task: the client's problem.
        descent: its own learning rate and optimiser, or those of `[train]`.
        regularizer: the distance that is penalised.
        lam: λ ≥ 0; 0 is exactly `local` (the term is not computed, so a shared model
            that was driven to infinity does no harm), λ → ∞ the shared model.

    Guarantee: on curvature L the explicit step contracts while lr·(L + λ) < 2 (plain
    `sgd`); lr·λ ≥ 2 diverges on any data and is refused.
    """
    if not 0 <= lam < float("inf"):
        raise Refusal(
            f"ditto's lam = {lam} must be a finite number of at least 0; 0 is local"
        )
    if lam == 0:
        return local(task, descent)
    if descent.lr * lam >= descent.limit:
        raise Refusal(
            f"ditto's step diverges: lr·lam = {descent.lr:g}·{lam:g} = "
            f"{descent.lr * lam:g} must stay below {descent.limit:g}; "
            f"set personalizer.lr below {_down(descent.limit / lam)}"
        )

    def gradient(v: Tensor, anchor: Anchor, batch: Batch) -> Tensor:
        return task.grad(v, batch).add(regularizer.grad(v, anchor.w, batch), alpha=lam)

    return own(descent, gradient)


def _down(limit: float) -> str:
    """A limit to four digits, never rounded up."""
    digits = 3 - math.floor(math.log10(limit))
    return f"{math.floor(limit * 10**digits * (1 + 1e-12)) / 10**digits:.4g}"
