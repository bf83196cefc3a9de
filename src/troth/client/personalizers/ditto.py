"""Ditto: personal models pulled towards the shared one.

References: li2021ditto, li2020multitask.
"""

from typing import Literal

from troth.client.personalizers import _choosing
from troth.client.personalizers._own import Towards, pulled
from troth.client.regularizers import _pull
from troth.types import Descent, Personal, Regularizer, Task


def ditto(
    task: Task,
    descent: Descent,
    regularizer: Regularizer,
    *,
    lam: float | Literal["auto"] = 1.0,
    anchor: Towards = "shared",
    choose: _choosing.Rule = "side_by_side",
    candidates: list[float] = [0.1, 1.0, 2.0],  # noqa: B006
    fallback: float = 1.0,
    few: int = 4,
) -> Personal:
    """Ditto, solved jointly with the shared model (Algorithms 1 and 2, line 6).

    v ← v − η(∇F_k(v) + λ∇R(v, wᵗ)), where R is the regularizer (`l2sq`: v − wᵗ) and
    wᵗ the shared model that the round began with. v starts from the first shared
    model and moves only in the rounds in which its client is asked; it sees the same
    batches as the shared model.

    With lam = "auto" every client chooses its own λ by its validation data, and
    clients.csv says which (`lam`). Of equal losses that of the smaller λ is taken, and
    one that is not finite never; the fallback is the λ of clients that were never
    asked, have too few validation examples, or find no candidate with a finite loss.

    Args:
        task: Task of the client.
        descent: Own learning rate and optimizer, or those of `[train]`.
        regularizer: Distance that is penalized.
        lam: Weight λ ≥ 0 of the regularizer; 0: `local`, exactly; λ → ∞: the shared
            model. At 0 the term is not computed, so a diverged w does no harm.
        anchor: Shared model in the penalty: "shared" wᵗ, as in Ditto and its code, or
            "moving". "moving" is the client's own copy w_k as its solver has moved it
            in this round, this step included (FMTL's Algorithm 1, line 5).
        choose: Way a client chooses its λ. "side_by_side": a model for each candidate
            is trained, and after every round the one with the lowest validation loss is
            the client's. "paper": the same, but clients with fewer than `few`
            validation examples take the fallback (G.4, where it is not said how the
            others select). "code": every step tries each candidate's step and keeps the
            one with the lowest validation loss (the authors' code).
        candidates: Values of λ to choose from. G.4: {0.1, 1, 2}, for strong attacks
            {0.05, 0.1, 0.2}; on StackOverflow {0.05, 0.1, 0.3} and {0.01, 0.05, 0.1}.
        fallback: Weight λ of clients that cannot choose; G.4: 1, for strong attacks
            0.1. It is chosen by validation only where it is among the candidates.
        few: Fewest validation examples of a client that chooses, with "paper". With the
            other rules 1.

    Departs: G.4 has clients with fewer than 4 validation examples fall back and those
    with more than 5 choose; here those with 4 or 5 choose too. In the authors' code a
    client without validation data is not provided for; here it takes the fallback.

    Guarantee: on curvature L the explicit step contracts while lr·(L + λ) < 2 (plain
    `sgd`); lr·λ ≥ 2 diverges on any data and is refused, of every candidate.
    """
    if lam == "auto":
        asked = _choosing.Asked(choose, candidates, fallback, few, anchor)
        return _choosing.auto(task, descent, regularizer, asked)
    _pull.check("ditto", lam, descent, regularizer.curvature)
    return pulled(task, descent, regularizer, lam, anchor)
