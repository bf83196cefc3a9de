"""Samplers: draw the cohort of each round, the clients that the server sends the model.

A sampler returns a function from the number of a round to the ids of its cohort. A
member may take any of these parameters, by name:

- `seed`: Seed of the experiment.
- `n`: Number of clients.
- `cohort`: Number of clients sampled per round. If it is n, all clients that are
  present take part.
- `size`: [n] number of training examples of each client.
- `hostile`: [n] mask of malicious clients.
- `there`: Function (round, ids) → mask of the clients that are present. `None` if every
  client is always present.
"""

from collections.abc import Callable

import numpy as np

There = Callable[[int, np.ndarray], np.ndarray]
"""(round, ids) → mask of these clients that are present in the round."""


def present(there: There | None, r: int, ids: np.ndarray) -> np.ndarray:
    """Return those of the clients `ids` that are present in round r."""
    return ids if there is None else ids[there(r, ids)]
