r"""Several owners per client, as CelebA is partitioned when a client is a group.

References: wang2021robust.
"""

from typing import Literal

import numpy as np

from troth import seeding
from troth.data.partitions._homes import lists, owners
from troth.types import Arrays, Refusal


def identities(
    arrays: Arrays,
    seed: int,
    *,
    per_client: int = 0,
    clients: int = 0,
    remainder: Literal["drop", "smaller", "spread"] = "drop",
) -> list[np.ndarray]:
    """Assign several owners to each client; an owner's examples stay on one client.

    Wang et al. 2021, appendix A: "each client represents 20 celebrities. One celebrity
    only appears on one client". Owners are assigned to clients at random. Exactly one
    of two options is set:

    - `per_client`: every client has exactly this number of owners. Remaining owners
      are fewer than per_client, and `remainder` says where they go. (With 20 per
      client, these are 17 of CelebA's 10,177 identities.)
    - `clients`: every owner is assigned. Numbers of owners differ by at most 1.

    With `partition.split_by = "owner"` a client trains on some of its owners and is
    tested on others.

    Args:
        arrays: Data that name the owner of each example.
        seed: Seed of the experiment.
        per_client: Number of owners per client; 1: the clients of 'natural', in random
            order.
        clients: Number of clients, in place of per_client.
        remainder: With per_client, where the remaining owners go: "drop" leaves them
            out with their examples, "smaller" makes one more client of them, and
            "spread" adds each to one of the other clients.
    """
    names, code = np.unique(owners("identities", arrays), return_inverse=True)
    one = bool(per_client) != bool(clients)
    if not (one and 1 <= (per_client or clients) <= len(names)):
        raise Refusal(
            f"partition.per_client = {per_client} and partition.clients = {clients}: "
            f"set one of them, to 1 to {len(names)}, the number of owners"
        )
    if clients and remainder != "drop":
        raise Refusal(
            f"partition.remainder = '{remainder}' goes only with partition.per_client: "
            "with partition.clients every owner is assigned"
        )
    n = clients or len(names) // per_client
    dealt = np.arange(len(names)) % n
    if per_client and remainder != "spread":
        dealt[n * per_client :] = n if remainder == "smaller" else -1
        n = int(dealt.max()) + 1
    return lists(seeding.generator(seed, "partition").permutation(dealt)[code], n)
