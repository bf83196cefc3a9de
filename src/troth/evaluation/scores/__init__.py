"""Scores: how well a model does on one client's examples.

Every client gets one value per score, in a column of `clients.csv`. A score is a
function that may have any parameters of these names:

- `y`: [m] labels 0 … classes − 1, or the targets of a regression. If an example may
  have several labels: [m, classes] of 0 and 1.
- `predicted`: predictions in the format of `y`.
- `probability`: [m, classes] probabilities of the classes, or of each label. `None` for
  a regression.
- `classes`: number of classes; 0: a regression.

It returns a number, or a dictionary of part → number, of which each becomes a column
`NAME_part`. NaN: the client has no value. Lower values are better if the name ends with
`error` or `loss`; otherwise higher values are better.
"""

import numpy as np

from troth.types import Refusal


def expect_classes(score: str, y: np.ndarray, classes: int) -> None:
    """Refuse data that have no classes, or several labels per example."""
    if classes == 0 or y.ndim == 2:
        what = "several labels per example" if classes else "a regression"
        raise Refusal(
            f"score '{score}' is for data with one class per example, but the data are "
            f"{what}; leave it out of evaluate.scores"
        )


def ratio(part: float, whole: float) -> float:
    """Return part / whole, and NaN if the whole is 0."""
    return float(part) / float(whole) if whole else float("nan")
