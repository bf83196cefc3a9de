"""Certify all test images, to compare how far apart clients' models are (4.1 iv).

    python experiments/certificates/every.py --device cuda

Models are trained as those of `mnist_clients` and `mnist_mixture`. With 100 images per
client, the choice of the images causes most of the spread over clients. At most 10,000
samples are drawn per image instead of 100,000, and classified in bfloat16.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]  # the run.py of this folder

from common import Cell, Changes, main
from run import CHANGES, CLIENTS, cell, curves, mixed, smoothing, tuned

from troth.runs.load import Run

FIGURE = "mnist_every"
IMAGES, SAMPLES = 10_000, 10_000  # images of all clients; samples of an image


def cells() -> Iterator[Cell]:
    """Yield personalized and local models of every number of clients."""
    for n in sorted(CLIENTS, key=lambda n: n != 10):
        for change in CHANGES if n == 10 else CHANGES[1:]:
            parts = {"personalized": tuned("mnist", change), "local": mixed(1.0)}
            for name, part in parts.items():
                label = f"{change}, {n} clients, {name}"
                yield cell(FIGURE, label, "mnist", change, part, n)


def look(run: Run) -> Changes:
    """Certify the clients' own models on all test images."""
    s = dataclasses.replace(smoothing(run), n=SAMPLES, precision="bfloat16")
    return curves(run, s, ("personal",), IMAGES)


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), look, seeds=1)
