"""Helpers that several partitions share: checks, and assignment of rows to clients."""

import numpy as np

from troth.types import TRAIN, Arrays, Refusal


def check_clients(clients: int, m: int) -> None:
    """Refuse a number of clients that is below 1 or above the number of examples."""
    if not 1 <= clients <= m:
        raise Refusal(
            f"partition.clients = {clients} must be 1 to {m}, the number of examples"
        )


def check_least(min_size: int, clients: int, m: int) -> None:
    """Refuse a minimum size that m examples do not allow."""
    if not 0 <= min_size * clients <= m:
        raise Refusal(
            f"partition.min_size = {min_size} must be 0 to {m // clients}, for there "
            f"are {m} examples and partition.clients = {clients}"
        )


def check_sizes(sizes: list[int], m: int) -> None:
    """Refuse sizes of clients that are below 1 or sum to more than m examples."""
    if not sizes or min(sizes) < 1 or sum(sizes) > m:
        raise Refusal(
            f"partition.sizes = {sizes} must give every client at least 1 example, and "
            f"sum to at most {m}, the number of examples"
        )


def check_labels(name: str, arrays: Arrays) -> None:
    """Refuse data that do not have exactly one label per example."""
    if arrays.classes and arrays.y.ndim == 1:
        return
    what = "have several per example" if arrays.classes else "are a regression"
    raise Refusal(
        f"partition '{name}' needs data with labels and these {what}: use the "
        "partition 'iid', 'quantity' or 'natural'"
    )


def owners(name: str, arrays: Arrays) -> np.ndarray:
    """Return the owner of each example [m]; refuse data without owners."""
    if arrays.owner is None:
        raise Refusal(
            f"partition '{name}' needs data with an owner for each example, and these "
            "have none: add an array owner (arrays), name its column in data.owner "
            "(tables), or use the partition 'iid'"
        )
    return arrays.owner


def marks(arrays: Arrays) -> np.ndarray:
    """Return the published part of each example, TRAIN, VALID or TEST: [m].

    If the data have no marks, all examples are TRAIN.
    """
    if arrays.split is None:
        return np.full(len(arrays.y), TRAIN)
    return arrays.split.astype(np.int64)


def deal(
    kind: np.ndarray, sizes: np.ndarray, random: np.random.Generator
) -> list[np.ndarray]:
    """Shuffle the rows of each kind c, and give sizes[c, k] of them to client k.

    Args:
        kind: [m] the kind of each row, 0 … kinds-1.
        sizes: [kinds, clients]; sizes[c] sums to the number of rows of kind c.
        random: the random generator.
    """
    kinds, clients = sizes.shape
    order = random.permutation(len(kind))
    order = order[np.argsort(kind[order], kind="stable")]
    home = np.empty(len(kind), np.int64)
    home[order] = np.repeat(np.tile(np.arange(clients), kinds), sizes.reshape(-1))
    return lists(home, clients)


def lists(home: np.ndarray, clients: int) -> list[np.ndarray]:
    """Return the rows of each client, ascending.

    Args:
        home: [m] the client of each row; −1 if no client holds it.
        clients: number of clients.
    """
    order = np.argsort(home, kind="stable")
    ends = np.searchsorted(home[order], np.arange(-1, clients), "right").tolist()
    return [order[i:j] for i, j in zip(ends[:-1], ends[1:], strict=True)]


def apportion(total: int, weight: np.ndarray, least: int = 0) -> np.ndarray:
    """Divide a total into whole numbers by weight, with the largest remainder method.

    Each number is at least `least`. The weights are nonnegative and not all 0.
    """
    exact = weight / weight.sum() * (total - least * len(weight))
    sizes: np.ndarray = exact.astype(np.int64)
    rest = total - least * len(weight) - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:rest]] += 1
    sizes += least
    return sizes


def take_by_class(
    mix: np.ndarray,
    left: np.ndarray,
    want: int,
    alpha: float,
    random: np.random.Generator,
) -> np.ndarray:
    """Draw the number of examples of each class that one client gets by its mixture.

    A class without examples left is not drawn any more.

    Args:
        mix: [classes] probability of each class.
        left: [classes] number of examples that no client has yet.
        want: number of examples of the client.
        alpha: concentration of the Dirichlet distribution, from which a new mixture
            is drawn if no class of the mixture is left.
        random: the random generator.
    """
    taken = np.zeros_like(left)
    while (lack := want - int(taken.sum())) > 0:
        rest = left - taken
        weight = mix * (rest > 0)
        if not weight.sum() > 0:
            weight[rest > 0] = random.dirichlet(alpha * rest[rest > 0] / rest.sum())
        drawn = random.multinomial(lack, weight / weight.sum())
        taken += np.minimum(drawn, rest)
    return taken
