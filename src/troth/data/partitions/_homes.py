"""What several partitions do alike: check, shuffle, and hand out rows."""

import numpy as np

from troth.types import TRAIN, Arrays, Refusal


def check_clients(clients: int, m: int) -> None:
    """Refuse a number of clients that m examples cannot serve."""
    if not 1 <= clients <= m:
        raise Refusal(
            f"partition.clients = {clients} must be 1 to {m}, the number of examples"
        )


def check_least(min_size: int, clients: int, m: int) -> None:
    """Refuse a least size that cannot be had."""
    if not 0 <= min_size * clients <= m:
        raise Refusal(
            f"partition.min_size = {min_size} must be 0 to {m // clients}, for there "
            f"are {m} examples and partition.clients = {clients}"
        )


def check_labels(name: str, arrays: Arrays) -> None:
    """Refuse data that do not have one label per example."""
    if arrays.classes and arrays.y.ndim == 1:
        return
    what = "have several an example" if arrays.classes else "are a regression"
    raise Refusal(
        f"partition '{name}' needs data with labels and these {what}: use the "
        "partition 'iid', 'quantity' or 'natural'"
    )


def owners(name: str, arrays: Arrays) -> np.ndarray:
    """Return the owner of each example [m]; refuse data that do not say."""
    if arrays.owner is None:
        raise Refusal(
            f"partition '{name}' needs data that say whose each example is and these "
            "do not: add an array owner (npz) or name its column in data.owner (csv), "
            "or use the partition 'iid'"
        )
    return arrays.owner


def marks(arrays: Arrays) -> np.ndarray:
    """Return the published marks [m], TRAIN, VALID or TEST; all TRAIN without any."""
    if arrays.split is None:
        return np.full(len(arrays.y), TRAIN)
    return arrays.split.astype(np.int64)


def deal(
    kind: np.ndarray, sizes: np.ndarray, random: np.random.Generator
) -> list[np.ndarray]:
    """Of the rows of kind c, shuffled, give sizes[c, k] to client k.

    kind [m] is 0 … kinds-1; sizes[c] sums to the number of rows of kind c.
    """
    kinds, clients = sizes.shape
    order = random.permutation(len(kind))
    order = order[np.argsort(kind[order], kind="stable")]
    home = np.empty(len(kind), np.int64)
    home[order] = np.repeat(np.tile(np.arange(clients), kinds), sizes.reshape(-1))
    return lists(home, clients)


def lists(home: np.ndarray, clients: int) -> list[np.ndarray]:
    """Return the rows of each client, ascending, where home [m] is the client.

    Rows of −1 are nobody's.
    """
    order = np.argsort(home, kind="stable")
    ends = np.searchsorted(home[order], np.arange(-1, clients), "right").tolist()
    return [order[i:j] for i, j in zip(ends[:-1], ends[1:], strict=True)]


def apportion(total: int, weight: np.ndarray, least: int = 0) -> np.ndarray:
    """Whole numbers that sum to total, by weight, by the largest remainder.

    Each gets `least` beforehand. Weights are nonnegative, not all 0.
    """
    exact = weight / weight.sum() * (total - least * len(weight))
    sizes: np.ndarray = exact.astype(np.int64)
    rest = total - least * len(weight) - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:rest]] += 1
    sizes += least
    return sizes
