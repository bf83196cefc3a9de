"""Closed-form results about federations, which need no training.

For federated point estimation and linear regression, the best λ of Ditto, its error and
its fairness have closed forms. Names are the paper's: K clients, n training examples
per client, noise σ, spread of clients τ, K_a adversaries of spread τ_a, d parameters,
and designs with X_kᵀX_k = βI. `docs/explanation/derivations/theory.md` derives every
line.

For the coupled federation of the attack-equivalence paper, there are the limit of what
any algorithm can guarantee (`resilience_limit`), the values of that bound in one run
(`resilience`), and how fast a client learns its preferred model (`pac_curve`).
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
