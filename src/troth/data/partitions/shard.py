r"""Shards of the data sorted by label: the pathological partition of FedAvg.

References: mcmahan2017communication.
"""

import numpy as np

from troth import seeding
from troth.data.partitions._homes import check_clients
from troth.types import Arrays, Refusal


def shard(
    arrays: Arrays,
    seed: int,
    *,
    clients: int,
    per_client: int = 2,
    size: int = 0,
    incomplete: bool = False,
) -> list[np.ndarray]:
    """Sort the examples by label, cut them into shards, and assign shards at random.

    McMahan et al. 2017, section 3: MNIST is sorted by digit and cut into 200 shards of
    300 examples, and each of 100 clients gets 2 shards. Most clients then have examples
    of only two digits. Examples with the same label are shuffled before they are cut.

    Three forms:

    - `per_client` alone: shards of m // (clients · per_client) examples each.
    - `per_client` and `size`: shards of `size` examples each.
    - `size` alone, with per_client = 0: as many shards of `size` examples as the data
      have. Numbers of shards of clients differ by at most 1.

    Examples that are in no shard, and shards that no client gets, are left out. Labels
    of a regression are sorted by their value.

    Args:
        arrays: Data with one label per example.
        seed: Seed of the experiment.
        clients: Number of clients.
        per_client: Number of shards of each client; 0: all shards are assigned. With
            one shard per client the clients differ most, and with many they are alike.
        size: Number of examples in a shard; 0: as many as possible.
        incomplete: With per_client = 0, use the last, smaller shard too.
    """
    m = len(arrays.y)
    if arrays.y.ndim != 1:
        raise Refusal(
            "partition 'shard' sorts by label, and these data have several labels per "
            "example: use the partition 'iid', 'quantity' or 'natural'"
        )
    check_clients(clients, m)
    if min(per_client, size) < 0 or not per_client + size:
        raise Refusal(
            f"partition.per_client = {per_client} and partition.size = {size} must be "
            "at least 0, and one of them above 0"
        )
    if incomplete and per_client:
        raise Refusal(
            "partition.incomplete goes only with partition.per_client = 0, because "
            "all shards have the same size if their number is set"
        )
    size = size or max(m // (clients * per_client), 1)
    shards = -(-m // size) if incomplete else m // size
    needed = clients * (per_client or 1)
    if shards < needed:
        raise Refusal(
            f"{m} examples give {shards} shards of {size}, and partition.clients = "
            f"{clients} need {needed}: lower partition.size, partition.per_client or "
            "partition.clients"
        )
    random = seeding.generator(seed, "partition")
    order = random.permutation(m)
    order = order[np.argsort(arrays.y[order], kind="stable")]
    used = random.permutation(shards)[: needed if per_client else shards]
    return [
        np.sort(np.concatenate([order[i * size : (i + 1) * size] for i in mine]))
        for mine in np.array_split(used, clients)
    ]
