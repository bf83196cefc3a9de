"""Draw shortcuts.png: test images of three clients, and the same, recolored.

`python docs/explanation/shortcuts.py` needs MNIST, as `data = "colored"` does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from troth.config import reader
from troth.data import load

HERE = Path(__file__).parent
CLIENTS = (0, 2, 5)


def main() -> None:
    """Draw one row per client: an image of each of its classes, twice."""
    tree = {
        "data": "colored",
        "partition": {"name": "classes", "clients": 50, "per_client": 5},
    }
    arrays, shards, _ = load.deal(reader.from_dict(tree), None)
    figure = Figure(figsize=(6.6, 2.0), dpi=110, layout="constrained")
    grid = figure.subplots(len(CLIENTS), 11, width_ratios=[1] * 5 + [0.35] + [1] * 5)
    for axes in grid.flat:
        axes.axis("off")
    for line, k in zip(grid, CLIENTS, strict=True):
        test, other = shards.test[k], shards.tests["conflicting"][k]
        aligned = arrays.group[test] == 0
        for place, label in enumerate(np.unique(arrays.y[test])):
            at = np.flatnonzero(aligned & (arrays.y[test] == label))[0]
            for axes, row in ((line[place], test[at]), (line[place + 6], other[at])):
                axes.imshow(arrays.x[row].transpose(1, 2, 0))
        line[0].text(-0.15, 0.5, f"client {k}", ha="right", va="center", size=8)
        line[0].texts[-1].set_transform(line[0].transAxes)
    grid[0][2].set_title("test", size=9)
    grid[0][8].set_title("conflicting", size=9)
    figure.savefig(HERE / "shortcuts.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
