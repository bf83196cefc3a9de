"""Different mixtures of the classes on every client, from a Dirichlet distribution.

References: yurochkin2019bayesian, li2022niid, hsu2019measuring.
"""

from typing import Literal

import numpy as np

from troth import seeding
from troth.data.partitions._homes import (
    apportion,
    check_clients,
    check_labels,
    check_least,
    deal,
    marks,
    take_by_class,
)
from troth.types import TEST, TRAIN, Arrays, Refusal

_LOWEST, _HIGHEST = 1e-6, 1e6
_DRAWS = 20_000_000  # random numbers drawn before giving up, in 20 to 1,000 tries


def dirichlet(
    arrays: Arrays,
    seed: int,
    *,
    clients: int,
    alpha: float = 0.5,
    by: Literal["class", "client"] = "class",
    min_size: int = 10,
) -> list[np.ndarray]:
    """Mix classes by a Dirichlet distribution: small alpha makes clients differ more.

    "class" (Yurochkin et al. 2019, section 4; Li et al. 2022, section 4.1): for each
    class c a vector p_c ~ Dir_n(alpha, …, alpha) over the clients is drawn, and client
    k gets the share p_ck of the class. Sizes of clients differ too. The draw is
    repeated until every client holds min_size examples (the authors' code does so, with
    10). If the data are marked as training and test, every client must also hold an
    example of each.

    "client" (Hsu et al. 2019, section 3): for each client k a vector q_k ~
    Dir_C(alpha·p) over the classes is drawn, where p are the classes' shares of the
    data. The client's examples are drawn by q_k. The numbers of examples of clients
    differ by at most 1.

    In both variants, every example is held by exactly one client. If the data are
    marked as training and test, each part is divided by the same vectors. (With
    "client", test data are divided by the shares that a client got in training.)

    Args:
        arrays: Data with labels.
        seed: Seed of the experiment.
        clients: Number of clients.
        alpha: Concentration of the Dirichlet distribution, 1e-6 … 1e6; a large value
            makes all clients alike. Near 0, each class is on one client (by = "class"),
            or each client has one class until that runs out (by = "client"). With
            "client" the classes share one alpha, and with "class" each has the full
            alpha. The same number therefore means more skew with "client".
        by: Shares to draw: for each "class" those of the clients, or for each "client"
            those of the classes.
        min_size: Fewest examples of a client with by = "class"; 0 allows empty clients.
            They can be left out by partition.min_examples.

    Departs: in the "class" variant, the code of both papers gives nothing more to a
    client that already holds 1/n of the data. Their texts do not say so, and here the
    client may get more. In the "client" variant, a class without examples left is not
    drawn any more. A client without any class left draws a new vector over the
    remaining classes. The paper does not define these cases.
    """
    check_labels("dirichlet", arrays)
    check_clients(clients, len(arrays.y))
    check_least(min_size, clients, len(arrays.y))
    if not _LOWEST <= alpha <= _HIGHEST:
        raise Refusal(
            f"partition.alpha = {alpha} must be {_LOWEST:g} to {_HIGHEST:g}: small "
            "makes clients differ, large makes them alike"
        )
    random = seeding.generator(seed, "partition")
    kind = 3 * arrays.y + marks(arrays)  # classes and parts are divided separately
    count = np.bincount(kind, minlength=3 * arrays.classes).reshape(-1, 3)
    if by == "class":
        sizes = _by_class(count, clients, alpha, min_size, random)
    else:
        sizes = _by_client(count, clients, alpha, random)
    return deal(kind, sizes.reshape(-1, clients), random)


def _by_class(
    count: np.ndarray, n: int, alpha: float, min_size: int, random: np.random.Generator
) -> np.ndarray:
    """Return [classes, 3, n], the number of examples per class, part and client."""
    tries = int(np.clip(_DRAWS // (n * len(count)), 20, 1000))
    total = count.sum(axis=0)
    needed = [part for part in (TRAIN, TEST) if total[part] >= n]
    best = -1
    for _ in range(tries):
        share = np.cumsum(random.dirichlet(np.full(n, alpha), len(count)), axis=1)
        share /= share[:, -1:]
        cuts = (share[:, None] * count[:, :, None]).astype(np.int64)
        sizes: np.ndarray = np.diff(cuts, axis=2, prepend=0)
        held = sizes.sum(axis=0)  # [3, n]
        least = int((held.sum(axis=0) * (held[needed] > 0).all(axis=0)).min())
        if least >= min_size:
            return sizes
        best = max(best, least)
    raise Refusal(
        f"partition 'dirichlet' drew {tries} times with alpha = {alpha:g} and clients "
        f"= {n}, and the smallest client never held more than {best} usable examples: "
        f"raise partition.alpha, lower partition.clients, or set partition.min_size "
        f"({min_size}) to {best} or less"
    )


def _by_client(
    count: np.ndarray, n: int, alpha: float, random: np.random.Generator
) -> np.ndarray:
    """Return the same numbers for by = "client", drawn client by client."""
    prior = count.sum(axis=1) / count.sum()
    there = prior > 0
    mix = np.zeros((n, len(count)))
    mix[:, there] = random.dirichlet(alpha * prior[there], n)
    sizes = np.zeros((*count.shape, n), np.int64)
    for part in range(3):
        left = count[:, part].copy()
        want = apportion(int(left.sum()), np.ones(n))
        for k in random.permutation(n):
            taken = take_by_class(mix[k], left, int(want[k]), alpha, random)
            sizes[:, part, k] = taken
            left -= taken
        if part == TRAIN and count[:, TRAIN].any():
            mix = sizes[:, TRAIN].T.astype(float)  # as in training
    return sizes
