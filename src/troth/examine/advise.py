"""Estimate the variances σ² and τ² from the clients of a run, and from them the best λ.

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
"""With fewer benign clients, advice comes with a warning."""
_MILD = (
    "the data of malicious clients are no further from the others' than benign data "
    "are, so Theorem 3 sees no attack in them; they may do other harm"
)
_KNOWN = ("auto", "squared", "cross_entropy", "multi_label")


class Advice(NamedTuple):
    """Estimates of σ² and τ², and the λ that follows; λ = ∞ is the shared model."""

    method: str  # method: least squares, or gradients (slopes)
    layer: str  # name of the layer whose parameters were used
    clients: int  # K
    hostile: int  # K_a, malicious clients
    used: int  # benign clients with enough examples
    examples: tuple[
        int, int, int
    ]  # numbers of examples of benign clients: least, median, most
    sigma2: float
    tau2: float
    tau2_error: float  # standard error, by the jackknife
    tau2_range: tuple[float, float]  # 95 % interval
    tau_a2: float | None  # τ_a² of malicious clients; None without any
    lam: float  # best λ for the median client, with adversaries
    lam_range: tuple[float, float]  # λ at the ends of `tau2_range`, the high end first
    lam_clean: float  # best λ without adversaries
    lam_sizes: tuple[
        float, float
    ]  # best λ for clients with most and with fewest examples
    rough: list[str]  # cautions


def advise(run: Run, data_dir: str | None = None) -> Advice:
    """Estimate σ² and τ² by the method of moments, and the best λ by Ditto's Theorem 3.

    For a regression with squared loss, the estimates come from least squares for each
    client on the last linear layer. For classification with cross-entropy, they come
    from the gradients of each client's loss at the shared model.

    The range of λ is the λ at the ends of the 95 % interval of τ² (see
    `troth.theory.moments.interval`). It does not account for the errors of σ² and τ_a²,
    which are usually much smaller. An end is ∞ if the interval of τ² contains 0. With
    fewer than 15 benign clients the range is wide, and a caution says so.

    Args:
        run: a finished run with any personalizer, whose data are available.
        data_dir: folder in which to look for data sets first.

    Returns:
        The estimates, λ and cautions.
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
    """Return λ by Theorem 3, or by Theorem 1 without adversaries."""
    if math.isinf(tau2):
        return 0.0
    sigma, tau, count = math.sqrt(sigma2), math.sqrt(tau2), max(1, round(n))
    if tau_a2 is None:
        return theory.best_lam_regression(count, sigma, tau)
    far = math.sqrt(tau_a2)
    return theory.best_lam_regression_attacked(K, count, sigma, tau, K_a, far)


def _uncertain(used: int, most: float) -> list[str]:
    """Warn of few clients, and of an interval of τ² that consists of 0 only."""
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
    """Return cautions about assumptions of the theorems that the run violates."""
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
    """Refuse losses other than squared error and cross-entropy."""
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
