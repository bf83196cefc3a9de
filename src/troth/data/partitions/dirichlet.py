"""Classes mixed differently on every client, by a Dirichlet distribution.

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
)
from troth.types import TEST, TRAIN, Arrays, Refusal

_LOWEST, _HIGHEST = 1e-6, 1e6
_DRAWS = 20_000_000  # numbers drawn before it gives up, in 20 to 1,000 tries


def dirichlet(
    arrays: Arrays,
    seed: int,
    *,
    clients: int,
    alpha: float = 0.5,
    by: Literal["class", "client"] = "class",
    min_size: int = 10,
) -> list[np.ndarray]:
    """Classes mixed by a Dirichlet distribution: the smaller alpha, the less alike.

    "class" (Yurochkin et al. 2019, section 4; Li et al. 2022, section 4.1): for class c
    a vector p_c ~ Dir_n(alpha, …, alpha) over the clients is drawn, and client k gets
    the share p_ck of the class. Sizes differ too. All is drawn again until every client
    holds min_size examples (as their code does, with 10) and, where the data are marked
    as training and test, one of each.

    "client" (Hsu et al. 2019, section 3): for client k a vector q_k ~ Dir_C(alpha·p)
    over the classes is drawn, p being the classes' shares of the data, and its examples
    are drawn by q_k. All clients hold equally many of each part, up to 1.

    Either way every example has exactly one home. Where the data are marked as training
    and test, each part is dealt by the same vectors ("client": test by the shares that
    a client got for training).

    Args:
        arrays: Data with labels.
        seed: Seed of the experiment.
        clients: Number of clients.
        alpha: Concentration, 1e-6 … 1e6; large: all clients alike. Towards 0: each
            class on one client ("class"), or one class a client as long as it lasts
            ("client"). "client" shares one alpha among the classes, "class" has one for
            each, so the same number means more skew in "client".
        by: One Dirichlet draw per "class", over clients, or per "client", over classes.
        min_size: Fewest examples of a client; 0 lets some be empty, to be dropped by
            partition.min_examples.

    Departs: the code of both papers by class gives nothing more to a client that
    already holds 1/n of the data, which their texts do not say; here it may get more.
    By client, a class that is used up is drawn no more, and a client all of whose
    classes are used up draws a new vector over what is left: the paper does not say.
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
    kind = 3 * arrays.y + marks(arrays)  # what is dealt apart
    count = np.bincount(kind, minlength=3 * arrays.classes).reshape(-1, 3)
    if by == "class":
        sizes = _by_class(count, clients, alpha, min_size, random)
    else:
        sizes = _by_client(count, clients, alpha, random)
    return deal(kind, sizes.reshape(-1, clients), random)


def _by_class(
    count: np.ndarray, n: int, alpha: float, min_size: int, random: np.random.Generator
) -> np.ndarray:
    """[classes, 3, n] how many examples of each class and part each client gets."""
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
    """[classes, 3, n] the same, client by client from what is left."""
    prior = count.sum(axis=1) / count.sum()
    there = prior > 0
    mix = np.zeros((n, len(count)))
    mix[:, there] = random.dirichlet(alpha * prior[there], n)
    sizes = np.zeros((*count.shape, n), np.int64)
    for part in range(3):
        left = count[:, part].copy()
        want = apportion(int(left.sum()), np.ones(n))
        for k in random.permutation(n):
            taken = _take(mix[k], left, int(want[k]), alpha, random)
            sizes[:, part, k] = taken
            left -= taken
        if part == TRAIN and count[:, TRAIN].any():
            mix = sizes[:, TRAIN].T.astype(float)  # test is like what training became
    return sizes


def _take(
    mix: np.ndarray,
    left: np.ndarray,
    want: int,
    alpha: float,
    random: np.random.Generator,
) -> np.ndarray:
    """How many of each class one client gets: by its mix, as far as they last."""
    taken = np.zeros_like(left)
    while (lack := want - int(taken.sum())) > 0:
        rest = left - taken
        weight = mix * (rest > 0)
        if not weight.sum() > 0:
            weight[rest > 0] = random.dirichlet(alpha * rest[rest > 0] / rest.sum())
        drawn = random.multinomial(lack, weight / weight.sum())
        taken += np.minimum(drawn, rest)
    return taken
