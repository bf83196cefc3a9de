r"""Several owners for each client, as CelebA is dealt to clients that are groups.

References: wang2021robust.
"""

import numpy as np

from troth import seeding
from troth.data.partitions._homes import lists, owners
from troth.types import Arrays, Refusal


def identities(
    arrays: Arrays, seed: int, *, per_client: int = 0, clients: int = 0
) -> list[np.ndarray]:
    """Several owners for each client: all examples of an owner go to one client.

    Wang et al. 2021, appendix A: "each client represents 20 celebrities. One celebrity
    only appears on one client"; which ones go together is drawn. One of the two options
    is set:

    - `per_client`: every client has just so many owners; those left over, fewer than
      per_client, are left out with their examples (of CelebA's 10,177 identities, 20 a
      client, 17).
    - `clients`: every owner is dealt; numbers of owners differ by at most 1.

    With `partition.split_by = "owner"` a client trains on some of its owners and is
    tested on others.

    Args:
        arrays: Data that name the owner of each example.
        seed: Seed of the experiment.
        per_client: Number of owners per client; 1: as 'natural', in other order.
        clients: Number of clients.
    """
    names, code = np.unique(owners("identities", arrays), return_inverse=True)
    one = bool(per_client) != bool(clients)
    if not (one and 1 <= (per_client or clients) <= len(names)):
        raise Refusal(
            f"partition.per_client = {per_client} and partition.clients = {clients}: "
            f"set one of them, to 1 to {len(names)}, the number of owners"
        )
    n = clients or len(names) // per_client
    dealt = np.arange(len(names)) % n
    if per_client:
        dealt[n * per_client :] = -1
    return lists(seeding.generator(seed, "partition").permutation(dealt)[code], n)
