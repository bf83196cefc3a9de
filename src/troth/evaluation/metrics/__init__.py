"""Metrics: summarize the clients' scores by one number.

A metric is a function of one value per client. It may have any parameters of these
names:

- `values`: [n] one value per client; NaN if the client has none.
- `size`: [n] number of examples of each client.
- `higher_is_better`: True for an accuracy, False for a loss or an error.
"""

import numpy as np


def defined(values: np.ndarray) -> np.ndarray:
    """Return the values in float64, without NaN (clients that have no value)."""
    vector = np.asarray(values, dtype=np.float64)
    return vector[~np.isnan(vector)]
