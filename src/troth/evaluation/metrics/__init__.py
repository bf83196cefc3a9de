"""Per-client vector → number: how well, and how evenly, the clients are served.

A member asks for any of these by name:

- `values`: [n] one number per client, NaN if it has none.
- `size`: [n] how many examples stand behind each.
- `higher_is_better`: True for an accuracy, False for a loss or an error.
"""

import numpy as np


def defined(values: np.ndarray) -> np.ndarray:
    """Return the values in float64, without the NaN of clients that have none."""
    vector = np.asarray(values, dtype=np.float64)
    return vector[~np.isnan(vector)]
