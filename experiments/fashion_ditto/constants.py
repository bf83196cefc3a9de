"""Print the accuracy of constant models for the benign clients.

    python experiments/fashion_ditto/constants.py

The table has the mean over benign clients' test examples (standard deviation over
clients), by the share of malicious clients. If all outputs are NaN, TensorFlow's argmax
is 0.
"""

from __future__ import annotations

import numpy as np

from troth.build import build
from troth.reproduce import listing
from troth.reproduce.entry import experiment
from troth.reproduce.tables import grid, number, short


def worth(column: str) -> list[tuple[float, float]]:
    """Return mean and standard deviation, for each class as the only answer."""
    (cell,) = listing.find("ditto/table8").at("full", patterns=[f"global / {column}"])
    built = build(experiment(cell.choices[0], 0))
    test, benign = built.data.test, ~built.hostile
    owner = np.repeat(np.arange(len(benign)), test.size.cpu().numpy())
    found = []
    for label in range(10):
        right = (test.y == label).cpu().numpy()
        each = np.bincount(owner, right) / np.bincount(owner)
        found.append((float(right[benign[owner]].mean()), float(each[benign].std())))
    return found


if __name__ == "__main__":
    rows = [
        [column[3:], *(f"{number(mean)} ({short(std)})" for mean, std in worth(column))]
        for column in ("A3 10%", "A1 20%", "A1 50%", "A1 80%")
    ]
    print("\n".join(grid([*map(str, range(10))], rows)))
