"""Closed forms: what is known of a federation without training one.

Federated point estimation and linear regression, where the best λ of Ditto, its error
and its fairness can be written down. Names are the paper's: K clients, n training
examples each, noise σ, spread of clients τ, K_a adversaries of spread τ_a, d parameters
and designs with X_kᵀX_k = βI. `docs/explanation/derivations/theory.md` derives
every line.

Of the coupled federation of the attack-equivalence paper: what no algorithm can promise
(`resilience_limit`), what a run shows beside it (`resilience`), and how fast a client
gets the model that it prefers (`pac_curve`).
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
