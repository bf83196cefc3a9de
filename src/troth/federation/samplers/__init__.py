"""Who is asked in a round: a sampler makes, of a federation, round → ids of clients.

A member asks for any of these by name:

- `seed`: of the experiment.
- `n`: how many clients there are.
- `cohort`: how many are asked; n asks all that are present.
- `size`: [n] how many training examples each has.
- `hostile`: [n] mask of malicious clients.
- `there`: round, ids → which of them are present, a mask; None: everybody, always.
"""

from collections.abc import Callable

import numpy as np

There = Callable[[int, np.ndarray], np.ndarray]
"""Round, ids → which of them are there: a mask."""


def present(there: There | None, r: int, ids: np.ndarray) -> np.ndarray:
    """Return those of some clients that are present."""
    return ids if there is None else ids[there(r, ids)]
