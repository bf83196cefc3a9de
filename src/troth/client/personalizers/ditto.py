"""Ditto: personal models that are pulled towards the shared model.

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
    """Train personal models with a pull towards the shared model (Ditto, Algorithm 1).

    v ← v − η(∇F_k(v) + λ∇R(v, wᵗ)) (line 6 of Algorithms 1 and 2). v is the personal
    model of client k, F_k its loss, and η the learning rate. R is the regularizer (for
    `l2sq`, ∇R is v − wᵗ), and wᵗ is the shared model that the round began with. v
    starts from the first shared model. v is trained only in the rounds in which its
    client takes part, on the same batches as the shared model.

    With lam = "auto", every client chooses its λ by its validation loss, and the column
    `lam` of clients.csv shows it. If several λ have the same validation loss, the
    smallest is chosen. A client takes the fallback if it never took part, has too few
    validation examples, or has no λ with a finite loss.

    Args:
        task: Loss and gradient of the model as functions of its parameters.
        descent: Learning rate and optimizer, from `[personalizer]` or else `[train]`.
        regularizer: Distance that is penalized.
        lam: Weight λ ≥ 0 of the regularizer, or "auto". 0 is exactly `local`; with λ →
            ∞, v is the shared model. With 0, v does not depend on w at all, even if w
            has diverged.
        anchor: Model towards which v is pulled. "shared" is wᵗ, as in Ditto and its
            code. "moving" is the solver's copy w_k of wᵗ, after the current step
            (Algorithm 1, line 5, of FMTL: Li et al. 2020).
        choose: Way in which a client chooses its λ. "side_by_side": the client trains a
            model for each candidate and uses the one with the lowest validation loss.
            "paper": the same, but clients with fewer than `few` validation examples
            take the fallback (Ditto, Appendix G.4, which does not say how the others
            choose). "code": every step tries the step of each candidate and keeps the
            one with the lowest validation loss (the authors' code).
        candidates: Values of λ to choose from. Appendix G.4 of Ditto has {0.1, 1, 2},
            and under strong attacks {0.05, 0.1, 0.2}. For StackOverflow, the two sets
            are {0.05, 0.1, 0.3} and {0.01, 0.05, 0.1}.
        fallback: λ of clients that cannot choose. Appendix G.4 of Ditto has 1, and
            under strong attacks 0.1. Other clients can choose this value only if it is
            a candidate.
        few: Number of validation examples that a client needs to choose λ, if choose =
            "paper". With the other values of `choose`, one example is enough.

    Departs: in Appendix G.4, clients with fewer than 4 validation examples take the
    fallback and those with more than 5 choose. Here those with 4 or 5 choose too.
    Clients without validation data take the fallback; the authors' code does not
    provide for them.

    Guarantee: on a loss of curvature L, the explicit step contracts if lr·(L + λ) < 2
    (plain `sgd`). If lr·λ ≥ 2, the steps diverge whatever the data are, and Refusal is
    raised. With several candidates for λ, this holds for each of them.
    """
    if lam == "auto":
        asked = _choosing.Asked(choose, candidates, fallback, few, anchor)
        return _choosing.auto(task, descent, regularizer, asked)
    _pull.check("ditto", lam, descent, regularizer.curvature)
    return pulled(task, descent, regularizer, lam, anchor)
