"""Federated point estimation: the example that motivates Ditto.

References: li2021ditto.
"""

import math

import numpy as np

from troth.data.datasets.linear_regression import checked, marks, normal, spreads
from troth.types import Arrays, Refusal


def point_estimation(
    seed: int,
    *,
    clients: int = 10,
    examples: int = 100,
    sigma: float = 1.0,
    tau: float = 0.5,
    theta: float = 0.0,
    test: float = 0.2,
    hostile: int = 0,
    tau_a: float = 5.0,
) -> Arrays:
    """Synthetic data: noisy observations of one number per client (Ditto, B.3).

    The true number of client k is w_k = θ + ζ_k with ζ_k ~ N(0, τ²) (Eq. 68). The
    client observes w_k + z with noise z ~ N(0, σ²) (Eq. 69). For malicious clients, τ_a
    replaces τ (Definition 4). The input x is the constant 1, and y is the observation.
    So a linear model without bias, with the loss ½(w − y)², has the loss of Eq. 70 plus
    a constant. The data are float64. `owner` is k, for the partition `natural`. `split`
    marks the last examples of each client as test data.

    Args:
        seed: Seed of the experiment.
        clients: Number of clients K.
        examples: Number of examples of a client, test examples included.
        sigma: Standard deviation σ of the noise z; 0: no noise.
        tau: Standard deviation τ of the clients' true numbers; 0: all are equal to θ.
        theta: Mean θ of the clients' true numbers.
        test: Share of a client's examples that are marked as test data.
        hostile: Number of malicious clients; these are the last clients.
        tau_a: Standard deviation τ_a of malicious clients' true numbers; it must be
            larger than tau.

    Departs: the prior of θ is improper in the paper. Here θ is given. This changes no
    error, because all estimators shift with θ.
    """
    checked(clients, examples, sigma, test)
    w = truth(seed, clients=clients, tau=tau, theta=theta, hostile=hostile, tau_a=tau_a)
    noise = normal(seed, "point_estimation", clients, examples)
    y = (w[:, None] + sigma * noise).ravel()
    owner = np.repeat(np.arange(clients), examples)
    split = np.tile(marks(examples, test), clients)
    return Arrays(np.ones((len(y), 1)), y, 0, owner=owner, split=split)


def truth(
    seed: int,
    *,
    clients: int = 10,
    tau: float = 0.5,
    theta: float = 0.0,
    hostile: int = 0,
    tau_a: float = 5.0,
) -> np.ndarray:
    """Return the true w_k for the same seed and options as the data: [clients]."""
    if not math.isfinite(theta):
        raise Refusal(f"data.theta = {theta} must be a finite number")
    spread = spreads(clients, tau, hostile, tau_a)
    zeta = normal(seed, "point_estimation.w", clients, 1)[:, 0]
    return np.asarray(theta + spread * zeta)
