"""Estimate the best λ of the personalizer Ditto from the clients of a run.

σ² is the variance of the noise in a client's data. τ² is the variance of the clients'
true parameters around their mean. Theorems are those of Li et al. (2021), *Ditto*.

References: li2021ditto.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from troth import theory
from troth.build import Built, build
from troth.config.schema import Experiment
from troth.engine.local_training import Plan
from troth.examine import certify
from troth.networks import last_layer
from troth.runs.load import Run
from troth.theory import moments
from troth.types import Refusal

FEW = 15
"""If there are fewer benign clients, the estimates come with a warning."""
_MILD = (
    "the data of malicious clients are no further from the others' than benign data "
    "are, so Theorem 3 sees no attack in them; they may do other harm"
)
_KNOWN = ("auto", "squared", "cross_entropy", "multi_label")


class Advice(NamedTuple):
    """Estimates of σ² and τ², and the best λ; λ = ∞ is the shared model."""

    method: str  # "least squares", or "slopes" (gradients)
    layer: str  # name of the layer whose parameters were used
    clients: int  # number of clients K
    hostile: int  # number of malicious clients K_a
    used: int  # number of benign clients with enough examples for an estimate
    examples: tuple[
        int, int, int
    ]  # smallest, median and largest number of training examples of benign clients
    sigma2: float  # σ²
    tau2: float  # τ²
    tau2_error: float  # standard error of τ², by the jackknife
    tau2_range: tuple[float, float]  # 95 % interval of τ²
    tau_a2: float | None  # variance τ_a² of malicious clients; None if there are none
    lam: float  # best λ for the median number of examples, with malicious clients
    lam_range: tuple[float, float]  # `lam` for the upper and the lower end of τ²
    lam_clean: float  # best λ if no client were malicious
    lam_sizes: tuple[
        float, float
    ]  # best λ for the largest and for the smallest number of examples
    rough: list[str]  # reasons to interpret the numbers with care


def advise(run: Run, data_dir: str | None = None) -> Advice:
    """Estimate σ² and τ² by the method of moments, and the best λ by Ditto's Theorem 3.

    For a regression with squared loss, each client's last linear layer is estimated by
    least squares. For classification with cross-entropy, the estimates come from the
    gradients of each client's loss at the shared model.

    The range of λ is computed from the ends of the 95 % interval of τ² (see
    `troth.theory.moments.interval`). If this interval contains 0, the upper end of the
    range is ∞. The range does not account for the errors of σ² and τ_a², which are
    usually much smaller. With fewer than 15 benign clients the range is wide, and
    `rough` says so.

    Args:
        run: a finished run with any personalizer, whose data are available.
        data_dir: folder to search first for data.

    Returns:
        The estimates, λ, and reasons to interpret them with care.

    Raises:
        Refusal: the loss is neither squared error nor cross-entropy, or the shared
            model is not finite.
    """
    built = build(run.experiment, data_dir=data_dir, plan=Plan("loop", 1))
    _check_loss(built)
    certify.parameters(run)
    net, malicious = run.network(), built.hostile
    layer = last_layer.last(net, built.data.x[:2].cpu())
    squared = built.facts["classes"] == 0
    estimate = last_layer.least_squares if squared else last_layer.slopes
    heads = estimate(net, layer, built.data, malicious)
    sizes = built.data.train.size.cpu().numpy()[~malicious]
    return _advice(built, layer, heads, sizes, "least squares" if squared else "slopes")


def _advice(
    built: Built,
    layer: last_layer.Layer,
    heads: last_layer.Heads,
    sizes: np.ndarray,
    method: str,
) -> Advice:
    bad = built.hostile[heads.client]
    good = heads.rows[~bad], heads.noise[~bad]
    tau2 = theory.between(*good) / heads.unit
    error, *ends = (v / heads.unit for v in moments.interval(*good))
    tau_a2 = None
    if bad.any():
        tau_a2 = theory.stray(heads.rows[bad], heads.noise[bad], *good) / heads.unit
    mild = [_MILD] if tau_a2 is not None and tau_a2 <= tau2 else []
    K, K_a = len(built.hostile), int(built.hostile.sum())
    n, sigma2 = float(np.median(sizes)), heads.sigma2
    lam = partial(_lam, K=K, K_a=K_a, sigma2=sigma2, tau_a2=tau_a2)
    rough = _rough(built.experiment, layer, method, sizes, lam(tau2, n))
    return Advice(
        method,
        layer.name,
        K,
        K_a,
        len(good[0]),
        (int(sizes.min()), round(n), int(sizes.max())),
        sigma2,
        tau2,
        error,
        (ends[0], ends[1]),
        tau_a2,
        lam(tau2, n),
        (lam(ends[1], n), lam(ends[0], n)),
        _lam(tau2, n, K, K_a, sigma2, None),
        (lam(tau2, float(sizes.max())), lam(tau2, float(sizes.min()))),
        [*_uncertain(len(good[0]), ends[1]), *rough, *mild],
    )


def _lam(
    tau2: float, n: float, K: int, K_a: int, sigma2: float, tau_a2: float | None
) -> float:
    """Return the best λ by Theorem 3, or by Theorem 1 if `tau_a2` is None."""
    if math.isinf(tau2):
        return 0.0
    sigma, tau, count = math.sqrt(sigma2), math.sqrt(tau2), max(1, round(n))
    if tau_a2 is None:
        return theory.best_lam_regression(count, sigma, tau)
    far = math.sqrt(tau_a2)
    return theory.best_lam_regression_attacked(K, count, sigma, tau, K_a, far)


def _uncertain(used: int, most: float) -> list[str]:
    """Return warnings of few clients, and of an upper end of τ² that is 0."""
    texts = []
    if used < FEW:
        texts.append(
            f"{used} benign clients are few: τ² is a variance between clients, and its "
            f"estimate from fewer than {FEW} of them says little about λ; decide by "
            "validation within the range above"
        )
    if most == 0:
        texts.append(
            "the clients differ by less than the noise that their data suggest, so "
            "that even the upper end for τ² is 0; this happens by chance in about one "
            "of forty federations of equal clients, and otherwise if the examples of "
            "a client are not independent"
        )
    return texts


def _rough(
    e: Experiment, layer: last_layer.Layer, method: str, sizes: np.ndarray, lam: float
) -> list[str]:
    """Return warnings about assumptions of the theorems that the run violates."""
    texts = []
    if not layer.alone:
        texts.append(
            "the estimates are about the last layer of the network alone, with the "
            "shared model's other layers as its inputs, but lam acts on all layers; "
            "use this λ as an order of magnitude, and decide by validation"
        )
    if method == "slopes":
        texts.append(
            "the theorems are about squared error: cross-entropy was approximated by a "
            "quadratic function around the shared model, which must be well trained"
        )
    if sizes.max() > 2 * max(1, sizes.min()):
        texts.append(
            "the numbers of examples differ between clients; by the theorems each "
            "client has its own λ, which is inversely proportional to its number"
        )
    if e.aggregator.name not in ("mean", "weighted_mean"):
        texts.append(
            f"Theorem 3 is about the mean; with '{e.aggregator.name}' adversaries do "
            "less harm, and λ may be larger"
        )
    if e.attack.name != "none":
        texts.append(
            "Theorem 3 covers poisoned data, but not the falsified updates of attack "
            f"'{e.attack.name}': with the mean, choose a much smaller λ"
        )
    own = e.personalizer.lr
    lr = e.train.lr if own is None else own
    if math.isfinite(lam) and lr * lam >= 2:
        texts.append(
            "the steps of ditto diverge if lr·lam ≥ 2: with this λ, set "
            f"personalizer.lr below {2 / lam:.2g}"
        )
    return texts


def _check_loss(built: Built) -> None:
    """Raise Refusal if the loss is neither squared error nor cross-entropy."""
    part, own = built.experiment.train.loss, built.federation.engine.objective.losing
    if part.name == "auto" and own is not None:
        name = f"the loss of model '{built.experiment.model.name}'"
    elif part.name not in _KNOWN or part.options.get("smoothing"):
        name = f"train.loss '{part.name}' {part.options or ''}".strip()
    else:
        return
    raise Refusal(
        "the theory is about squared error and extends to cross-entropy, but not to "
        f"{name}; choose lam by validation instead"
    )
