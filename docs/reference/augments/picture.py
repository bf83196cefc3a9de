"""Draw the picture of augments.md: what every augment makes of one image.

`python docs/reference/augments/picture.py` needs CIFAR-10 and MNIST (`troth data` says
where from) and writes `picture.png` next to itself.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from troth import lookup, seeding

HERE = Path(__file__).parent
HALF = math.pi / 2
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("noise σ = 0.12", "noise", {"sigma": 0.12}),
    ("noise σ = 0.5", "noise", {"sigma": 0.5}),
    ("rotation σ = 0.1π", "rotation", {"sigma": 0.1 * math.pi}),
    ("rotation σ = π/2", "rotation", {"sigma": HALF}),
    ("… padding border", "rotation", {"sigma": HALF, "padding": "border"}),
    ("… padding reflection", "rotation", {"sigma": HALF, "padding": "reflection"}),
    ("… nearest", "rotation", {"sigma": HALF, "interpolation": "nearest"}),
    ("translation σ = 0.1", "translation", {"sigma": 0.1}),
    ("translation σ = 0.5", "translation", {"sigma": 0.5}),
    ("affine σ = 0.1", "affine", {"sigma": 0.1}),
    ("affine σ = 0.5", "affine", {"sigma": 0.5}),
    ("crop padding 4", "crop", {}),
    ("flip", "flip", {}),
]
TIMES = 6
PICKED = {"cifar10": 7, "mnist": 5}
"""Data set → which of its examples is shown."""

EDGE = ((0, 0), (1, 1), (1, 1))  # a grey line around every image


def strip(image: np.ndarray, name: str, options: dict[str, Any]) -> np.ndarray:
    """Return the image as it is and changed `TIMES` times: [h, (TIMES + 1)·w, 3]."""
    x = torch.from_numpy(image).expand(TIMES, *image.shape)
    key = seeding.keys(0, "picture", 0, torch.arange(TIMES))
    given = lookup.check("augment", name, options)
    out = lookup.call(lookup.find("augment", name), given, x=x, key=key, scale=255.0)
    every = [image, *out.float().clamp(0, 255).byte().numpy()]
    colour = [np.broadcast_to(one, (3, *one.shape[1:])) for one in every]
    cells = [np.pad(one, EDGE, constant_values=160) for one in colour]
    return np.concatenate(cells, axis=2).transpose(1, 2, 0)


def draw() -> Figure:
    """Draw one row per augment, with the image as it is on the left."""
    figure = Figure(figsize=(11, 9.6), dpi=120, layout="constrained")
    axes: Any = figure.subplots(len(ROWS), len(PICKED))
    for column, (data, which) in enumerate(PICKED.items()):
        arrays = lookup.call(lookup.find("data", data), {}, seed=0, data_dir=None)
        image = np.atleast_3d(arrays.x[which]).astype(np.uint8)
        for row, (label, name, options) in enumerate(ROWS):
            here = axes[row, column]
            here.imshow(strip(image, name, options), interpolation="nearest")
            here.set_xticks([])
            here.set_yticks([])
            here.spines[:].set_visible(False)
            if column == 0:
                here.set_ylabel(label, rotation=0, ha="right", va="center", size=9)
        axes[0, column].set_title(f"{data}: as it is, and {TIMES} draws", size=10)
    return figure


if __name__ == "__main__":
    draw().savefig(HERE / "picture.png")
