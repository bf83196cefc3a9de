"""Samplers: draw the cohort of each round (the clients that train in it).

A sampler returns a function from the number of a round to the ids of its cohort. It may
have any parameters of these names:

- `seed`: Seed of the experiment.
- `n`: Number of clients.
- `cohort`: Number of clients sampled per round. If it is n, all clients that are
  present are sampled.
- `size`: [n] number of training examples of each client.
- `hostile`: [n] mask of malicious clients.
- `there`: Function (round, ids) → mask of the clients that are present. `None` if every
  client is always present.
"""

from collections.abc import Callable

import numpy as np

There = Callable[[int, np.ndarray], np.ndarray]
"""Number of a round, ids of clients → mask of the clients that are present."""


def present(there: There | None, r: int, ids: np.ndarray) -> np.ndarray:
    """Return the ids of the clients in `ids` that are present in round r."""
    return ids if there is None else ids[there(r, ids)]
