"""Metrics: how well, and how evenly, the clients are served.

A metric maps one value per client to a number. A member may take any of these
parameters, by name:

- `values`: [n] one value per client; NaN if the client has none.
- `size`: [n] number of examples behind each value.
- `higher_is_better`: True for an accuracy, False for a loss or an error.
"""

import numpy as np


def defined(values: np.ndarray) -> np.ndarray:
    """Return the values in float64, without the NaN of clients that have no value."""
    vector = np.asarray(values, dtype=np.float64)
    return vector[~np.isnan(vector)]
