"""Theoretical results about federations, which need no training of networks.

Li et al. (2021), *Ditto*: for federated point estimation and linear regression, the
best λ of Ditto, its error and its fairness have closed forms. Names are the paper's: K
clients, n training examples per client, noise σ, standard deviation τ of the clients'
parameters, K_a adversaries with standard deviation τ_a, d parameters, and design
matrices with X_kᵀX_k = βI. `docs/explanation/derivations/theory.md` has the proofs.

Farhadkhani et al. (2022), *An Equivalence Between Data Poisoning and Byzantine Gradient
Attacks*: `resilience_limit` is a limit of what any algorithm can guarantee.
`resilience` compares one run with it. `pac_curve` shows how fast a client learns its
preferred model.
"""

from troth.theory.ditto import (
    bayes_estimator,
    best_lam_points,
    best_lam_points_attacked,
    best_lam_regression,
    best_lam_regression_attacked,
    error,
    fairest_lam,
    least_error,
    variance_pooled,
    variance_within,
)
from troth.theory.moments import between, stray
from troth.theory.pac import Curve, Users, pac_constant, pac_curve
from troth.theory.resilience import Resilience, resilience, resilience_limit

__all__ = [
    "Curve",
    "Resilience",
    "Users",
    "bayes_estimator",
    "best_lam_points",
    "best_lam_points_attacked",
    "best_lam_regression",
    "best_lam_regression_attacked",
    "between",
    "error",
    "fairest_lam",
    "least_error",
    "pac_constant",
    "pac_curve",
    "resilience",
    "resilience_limit",
    "stray",
    "variance_pooled",
    "variance_within",
]
