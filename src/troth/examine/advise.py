"""Estimate σ² and τ² from the clients of a run, and the λ that theory derives."""

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
from troth.theory.moments import wobble
from troth.types import Refusal

_MILD = (
    "the data of malicious clients are no further from the others' than benign data "
    "are, so Theorem 3 sees no attack in them; they may do other harm"
)
_KNOWN = ("auto", "squared", "cross_entropy", "multi_label")


class Advice(NamedTuple):
    """σ², τ² and λ; λ = ∞: nothing beats the shared model."""

    method: str  # least squares, or slopes
    layer: str  # whose parameters were used
    clients: int  # K
    hostile: int  # K_a
    used: int  # benign clients with enough examples
    examples: tuple[int, int, int]  # of benign clients: least, median, most
    sigma2: float
    tau2: float
    tau2_error: float  # standard error
    tau_a2: float | None  # of malicious clients; None without any
    lam: float  # for the median client, with adversaries
    lam_range: tuple[float, float]  # at τ² ± two standard errors
    lam_clean: float  # without adversaries
    lam_sizes: tuple[float, float]  # for clients with most and fewest examples
    rough: list[str]  # cautions


def advise(run: Run, data_dir: str | None = None) -> Advice:
    """Estimate σ² and τ² by the method of moments, and λ by Ditto's Theorem 3.

    For a regression with squared loss, each client's least squares on the last linear
    layer are used. For classes with cross-entropy, slopes of each client's loss at the
    shared model are. Any finished run will do, whatever its personalizer.

    Args:
        run: Finished, with its data at hand.
        data_dir: Folder to search for data sets first.

    Returns:
        The estimates, λ and cautions.
    """
    built = build(run.experiment, data_dir=data_dir, plan=Plan("loop", 1))
    _check_loss(built)
    certify.parameters(run)
    net, malicious = run.network(), built.hostile
    layer = last_layer.last(net, built.data.x[:2].cpu())
    squared = built.facts["classes"] == 0
    look = last_layer.least_squares if squared else last_layer.slopes
    found = look(net, layer, built.data, malicious)
    sizes = built.data.train.size.cpu().numpy()[~malicious]
    return _advice(built, layer, found, sizes, "least squares" if squared else "slopes")


def _advice(
    built: Built,
    layer: last_layer.Layer,
    found: last_layer.Heads,
    sizes: np.ndarray,
    method: str,
) -> Advice:
    bad = built.hostile[found.client]
    good = found.rows[~bad], found.noise[~bad]
    tau2 = theory.between(*good) / found.unit
    off = wobble(*good) / found.unit
    tau_a2 = None
    if bad.any():
        tau_a2 = theory.stray(found.rows[bad], found.noise[bad], *good) / found.unit
    mild = [_MILD] if tau_a2 is not None and tau_a2 <= tau2 else []
    K, K_a = len(built.hostile), int(built.hostile.sum())
    n, sigma2 = float(np.median(sizes)), found.sigma2
    lam = partial(_lam, K=K, K_a=K_a, sigma2=sigma2, tau_a2=tau_a2)
    return Advice(
        method,
        layer.name,
        K,
        K_a,
        len(good[0]),
        (int(sizes.min()), round(n), int(sizes.max())),
        sigma2,
        tau2,
        off,
        tau_a2,
        lam(tau2, n),
        (lam(tau2 + 2 * off, n), lam(tau2 - 2 * off, n)),
        _lam(tau2, n, K, K_a, sigma2, None),
        (lam(tau2, float(sizes.max())), lam(tau2, float(sizes.min()))),
        [*_rough(built.experiment, layer, method, sizes, lam(tau2, n)), *mild],
    )


def _lam(
    tau2: float, n: float, K: int, K_a: int, sigma2: float, tau_a2: float | None
) -> float:
    """Apply Theorem 3, or Theorem 1 without adversaries."""
    sigma, tau, count = math.sqrt(sigma2), math.sqrt(max(0.0, tau2)), max(1, round(n))
    if tau_a2 is None:
        return theory.best_lam_regression(count, sigma, tau)
    far = math.sqrt(tau_a2)
    return theory.best_lam_regression_attacked(K, count, sigma, tau, K_a, far)


def _rough(
    e: Experiment, layer: last_layer.Layer, method: str, sizes: np.ndarray, lam: float
) -> list[str]:
    """Say where the run departs from the theorems."""
    texts = []
    if not layer.alone:
        texts.append(
            "this is a network: only its last layer was used, on the outputs of the "
            "shared model's other layers, but lam acts on all layers; take λ as an "
            "order of magnitude and decide by validation"
        )
    if method == "slopes":
        texts.append(
            "the theorems are about squared error: cross-entropy was approximated by a "
            "square around the shared model, which must be well trained for that"
        )
    if sizes.max() > 2 * max(1, sizes.min()):
        texts.append(
            "clients differ in their number of examples, and the theorems give each "
            "its own λ, inversely proportional to it"
        )
    if e.aggregator.name not in ("mean", "weighted_mean"):
        texts.append(
            f"Theorem 3 is about the mean; with '{e.aggregator.name}' adversaries do "
            "less harm and λ may be larger"
        )
    if e.attack.name != "none":
        texts.append(
            f"Theorem 3 covers poisoned data, not updates falsified by "
            f"'{e.attack.name}': with the mean take a much smaller λ"
        )
    own = e.personalizer.lr
    lr = e.train.lr if own is None else own
    if math.isfinite(lam) and lr * lam >= 2:
        texts.append(
            "the step of ditto diverges at lr·lam ≥ 2: with this λ set personalizer.lr "
            f"below {2 / lam:.2g}"
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
