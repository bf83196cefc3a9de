"""Sizes that the experiment gives, and a random mixture of classes for each client.

References: acar2021federated.
"""

import math

import numpy as np

from troth import seeding
from troth.data.partitions._homes import (
    check_labels,
    check_sizes,
    deal,
    take_by_class,
)
from troth.types import Arrays, Refusal


def inner_dirichlet(
    arrays: Arrays, seed: int, *, sizes: list[int], alpha: float = 0.5
) -> list[np.ndarray]:
    """Draw each client's mixture of classes from a Dirichlet distribution.

    For client k, q_k ~ Dir_C(alpha, …, alpha) over the C classes is drawn. Its sizes[k]
    examples are drawn by q_k without replacement, and each example is held by at most
    one client. A class without examples left is not drawn any more. A client without
    any class left draws a new vector over the remaining classes. This is the
    partition of FedDyn (Acar et al. 2021, section 4), whose code calls it
    "Dirichlet".

    The partition 'dirichlet' with by = "client" multiplies alpha by the classes' shares
    of the data. If C classes are equally frequent, its alpha = C·a is the alpha = a
    here.

    Args:
        arrays: Data with labels.
        seed: Seed of the experiment.
        sizes: Number of examples of each client; examples beyond their sum are left
            out.
        alpha: Concentration of the Dirichlet distribution; near 0 a client has one
            class until that runs out, and a large value makes all clients alike.

    Departs: the authors' code adds examples one by one to clients chosen at random.
    Here, clients in random order draw all their examples. The two differ only if
    classes run out.
    """
    check_labels("inner_dirichlet", arrays)
    check_sizes(sizes, len(arrays.y))
    if not 1e-6 <= alpha < math.inf:
        raise Refusal(f"partition.alpha = {alpha} must be at least 1e-6 and finite")
    random = seeding.generator(seed, "partition")
    left = np.bincount(arrays.y, minlength=arrays.classes)
    mix = random.dirichlet(np.full(len(left), alpha), len(sizes))
    taken = np.zeros((len(left), len(sizes) + 1), np.int64)
    for k in random.permutation(len(sizes)):
        taken[:, k] = take_by_class(mix[k], left, sizes[k], alpha, random)
        left -= taken[:, k]
    taken[:, -1] = left
    return deal(arrays.y, taken, random)[:-1]
