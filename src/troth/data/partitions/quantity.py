"""Clients that differ only in the number of their examples.

References: li2020fedprox, li2022niid.
"""

import math
from typing import Literal

import numpy as np

from troth import seeding
from troth.data.partitions._homes import (
    apportion,
    check_clients,
    check_least,
    deal,
    marks,
)
from troth.types import TEST, TRAIN, VALID, Arrays, Refusal


def quantity(
    arrays: Arrays,
    seed: int,
    *,
    clients: int,
    law: Literal["lognormal", "power", "linear", "square", "exponential"] = "lognormal",
    sigma: float = 1.0,
    exponent: float = 2.0,
    min_size: int = 2,
) -> list[np.ndarray]:
    """Divide the data into random shares of unequal sizes (quantity skew).

    The method is from Li et al. 2022, section 4.3. Every client gets min_size examples.
    Of all further examples, client k gets the share s_k / Σ s, where s_k is its weight.
    Numbers are rounded by the largest remainder. The examples are drawn uniformly, and
    each is held by exactly one client. If the data are marked as training and test,
    each part is divided by the same weights.

    - "lognormal": ln s is normal with standard deviation sigma. (Li et al. 2020 draw
      the sizes of their devices in this way, and call it a power law.)
    - "power": P(s > t) = t^(1 − exponent) for t ≥ 1, a density ∝ s^(−exponent).
    - "linear", "square", "exponential": s = k, k² or e^k for client k = 1, 2, …, n. The
      weights are not random, and later clients have more examples.

    Args:
        arrays: Data to divide.
        seed: Seed of the experiment.
        clients: Number of clients.
        law: Law of the weights that determine the clients' sizes.
        sigma: Standard deviation σ of the lognormal law; 0 makes equal shares, 3 gives
            a few clients nearly everything.
        exponent: Exponent of the power law, above 1; a large value makes equal shares.
            Near 1 one client gets nearly everything.
        min_size: Fewest examples of a client.

    Departs: Li et al. 2022 draw the shares from a Dirichlet distribution.
    """
    m = len(arrays.y)
    check_clients(clients, m)
    check_least(min_size, clients, m)
    if not 0 <= sigma < math.inf:
        raise Refusal(f"partition.sigma = {sigma} must be at least 0 and finite")
    if not 1 < exponent < math.inf:
        raise Refusal(f"partition.exponent = {exponent} must be more than 1 and finite")
    random = seeding.generator(seed, "partition")
    number = np.arange(1, clients + 1)
    if law == "lognormal":
        log = sigma * random.standard_normal(clients)
    elif law == "power":
        log = random.standard_exponential(clients) / (exponent - 1)
    elif law == "exponential":
        log = number.astype(float)
    else:
        log = {"linear": 1, "square": 2}[law] * np.log(number)
    weight = np.exp(log - log.max())  # only ratios matter, and this is finite
    kind = marks(arrays)
    return deal(kind, _sizes(kind, weight, min_size), random)


def _sizes(kind: np.ndarray, weight: np.ndarray, min_size: int) -> np.ndarray:
    """Return the number of examples of each part per client: [3, clients].

    If test examples are marked, one of a client's `min_size` examples is a test
    example.
    """
    count, n = np.bincount(kind, minlength=3), len(weight)
    tested = min(1, min_size, count[TEST] // n)
    least = {TRAIN: min(min_size - tested, count[TRAIN] // n), VALID: 0, TEST: tested}
    sizes = [apportion(int(count[i]), weight, int(least[i])) for i in range(3)]
    return np.stack(sizes)
