"""Data, σ and saved models for certification."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from common import Changes

from troth import files, lookup
from troth.examine.certify import Classifier
from troth.networks import layers
from troth.types import TEST, Arrays

MODELS = ROOT / "models"  # left by run.py for others to begin with; not committed

SIGMA: dict[str, dict[str, float]] = {
    "mnist": {"noise": 0.5, "rotation": math.pi / 2, "translation": 0.5, "affine": 0.1},
    "cifar10": {"noise": 0.12, "rotation": 0.1 * math.pi, "translation": 0.1},
}
"""The larger of the paper's two σ for the easy data, the smaller for the hard ones; its
rotations count half turns."""

NETWORKS: dict[str, Changes] = {
    "mnist": {"name": "cnn", "channels": [16, 32], "widths": [128]},
    "cifar10": {"name": "resnet18", "normalize": "pixel"},
}


def arrays(data: str) -> Arrays:
    """Return a data set."""
    found: Arrays = lookup.call(lookup.find("data", data), {}, seed=0, data_dir=None)
    return found


def tested(data: str, count: int) -> tuple[Tensor, np.ndarray]:
    """Return the first test examples, [m, …] from 0 to 1, and their labels."""
    every = arrays(data)
    assert every.split is not None
    rows = np.flatnonzero(every.split == TEST)[:count]
    x = every.x[rows].astype(np.float32) / np.float32(every.scale)
    return torch.from_numpy(x), every.y[rows]


def opened(file: Path, part: Changes, shape: tuple[int, ...]) -> Classifier:
    """Open a saved model of ten classes, in the form that certificates need.

    Args:
        file: the file that a run saves: normalization, then the network.
        part: the network, as in `[model]`.
        shape: shape of one example, whose largest value is 255.
    """
    tensors, _ = files.load(file)
    options = {k: v for k, v in part.items() if k not in ("name", "normalize")}
    network = lookup.find("model", part["name"])
    net: nn.Module = lookup.call(network, options, shape=shape, classes=10)
    first = layers.Normalize(0.0, 1.0)
    for name in ("mean", "inverse"):  # of any shape
        setattr(first, name, tensors[f"0.{name}"])
    whole = nn.Sequential(first, net)
    whole.load_state_dict(tensors)
    return Classifier(whole, 255.0, single=False).eval()
