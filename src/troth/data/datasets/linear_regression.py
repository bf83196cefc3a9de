"""Federated linear regression: the model for which Ditto's theorems are proved.

References: li2021ditto.
"""

import math

import numpy as np

from troth import seeding
from troth.data.datasets import _room
from troth.types import TEST, TRAIN, Arrays, Refusal


def linear_regression(
    seed: int,
    *,
    clients: int = 10,
    examples: int = 100,
    dim: int = 5,
    sigma: float = 1.0,
    tau: float = 0.5,
    orthogonal: bool = False,
    test: float = 0.2,
    hostile: int = 0,
    tau_a: float = 5.0,
) -> Arrays:
    """Synthetic data: y = X w_k + z, with client tasks w_k around θ (Ditto, B.2).

    The true parameters (task) of client k are w_k = θ + ζ_k with ζ_k ~ N(0, τ² I)
    (Eq. 10). Its data are y = X w_k + z with noise z ~ N(0, σ² I) (Eq. 11). For a
    malicious client, ζ_k ~ N(0, τ_a² I) (Definition 3). The data are float64. `owner`
    is k, for the partition `natural`. `split` marks the last examples of each client as
    test data. The data of a client do not depend on the number of clients.

    Args:
        seed: Seed of the experiment.
        clients: Number of clients K.
        examples: Number of examples of a client, test examples included.
        dim: Length of the parameter vector w_k.
        sigma: Standard deviation σ of the noise z; 0: no noise.
        tau: Standard deviation τ of clients' tasks; 0: all tasks are equal.
        orthogonal: Whether training inputs satisfy X_kᵀX_k = n I for n training
            examples, as Theorems 1 and 3 assume (β = n). Otherwise, and for test data,
            inputs are N(0, I). The property holds for the marked split, so use
            `partition.split = "given"`.
        test: Share of a client's examples that are marked as test data.
        hostile: Number of malicious clients; these are the last clients.
        tau_a: Standard deviation τ_a of malicious clients' tasks; it must be larger
            than tau.

    Departs: the prior of θ is improper in the paper; here θ ~ N(0, I).
    """
    checked(clients, examples, sigma, test)
    w = truth(seed, clients=clients, dim=dim, tau=tau, hostile=hostile, tau_a=tau_a)
    split = marks(examples, test)
    n = int((split == TRAIN).sum())
    if orthogonal and n < dim:
        raise Refusal(
            f"data.orthogonal needs at least data.dim = {dim} training examples a "
            f"client and there are {n}: raise data.examples or lower data.dim"
        )
    x, y = np.empty((clients, examples, dim)), np.empty((clients, examples))
    for k in range(clients):
        random = seeding.generator(seed, "linear_regression", k)
        x[k] = random.standard_normal((examples, dim))
        if orthogonal:
            x[k, :n] = math.sqrt(n) * np.linalg.qr(x[k, :n])[0]
        y[k] = x[k] @ w[k] + sigma * random.standard_normal(examples)
    owner = np.repeat(np.arange(clients), examples)
    split = np.tile(split, clients)
    return Arrays(x.reshape(-1, dim), y.ravel(), 0, owner=owner, split=split)


def truth(
    seed: int,
    *,
    clients: int = 10,
    dim: int = 5,
    tau: float = 0.5,
    hostile: int = 0,
    tau_a: float = 5.0,
) -> np.ndarray:
    """Return the true w_k for the same seed and options as the data: [clients, dim]."""
    _room.at_least_1(dim=dim)
    theta = seeding.generator(seed, "linear_regression.theta").standard_normal(dim)
    spread = spreads(clients, tau, hostile, tau_a)
    zeta = normal(seed, "linear_regression.w", clients, dim)
    return np.asarray(theta + spread[:, None] * zeta)


def normal(seed: int, purpose: str, clients: int, count: int) -> np.ndarray:
    """Draw `count` numbers from N(0, 1) for every client: [clients, count].

    The numbers of a client do not depend on the number of clients.
    """
    made = (seeding.generator(seed, purpose, k) for k in range(clients))
    return np.array([random.standard_normal(count) for random in made])


def spreads(clients: int, tau: float, hostile: int, tau_a: float) -> np.ndarray:
    """Return τ for every client, and τ_a for the last `hostile` clients."""
    if not (tau >= 0 and math.isfinite(tau)):
        raise Refusal(f"data.tau = {tau} must be a number of at least 0")
    if not 0 <= hostile < max(clients, 1):
        raise Refusal(
            f"data.hostile = {hostile} must be 0 to {clients - 1}: at least one of "
            f"data.clients = {clients} must be benign"
        )
    if hostile and not (tau < tau_a < math.inf):
        raise Refusal(
            f"data.tau_a = {tau_a} must be more than data.tau = {tau}, because tasks "
            "of malicious clients differ more than those of benign ones"
        )
    return np.where(np.arange(clients) < clients - hostile, tau, tau_a)


def checked(clients: int, examples: int, sigma: float, test: float) -> None:
    """Raise Refusal if an option is out of range."""
    _room.at_least_1(clients=clients, examples=examples)
    if not (sigma >= 0 and math.isfinite(sigma)):
        raise Refusal(f"data.sigma = {sigma} must be a number of at least 0")
    if not 0 <= test < 1:
        raise Refusal(f"data.test = {test} must be a share: at least 0 and less than 1")


def marks(examples: int, test: float) -> np.ndarray:
    """Return TEST for the last examples, and TRAIN for the others, at least one."""
    count = min(round(test * examples), examples - 1)
    return np.repeat(np.array([TRAIN, TEST], np.int8), [examples - count, count])
