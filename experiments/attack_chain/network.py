"""Appendix J: the last layer of a network, on embeddings of a frozen backbone.

The backbone is the VGG13-BN of `experiments/cifar10_central`, trained here if its
embeddings are not there yet (a minute on an H200, many hours on a CPU).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from attacks import Figure, Work, examples, frozen, gradient
from federations import digits

import troth
from troth import poison
from troth.config import reader
from troth.data.datasets.cifar10 import cifar10
from troth.types import TEST

BACKBONE = Path(__file__).parents[1] / "cifar10_central" / "vgg13_bn.toml"
WANTED = 0.90


def data(work: Work) -> str:
    """Return embeddings of all images, from a backbone that is accurate enough."""
    file = work.models / "embeddings.npz"
    if not file.exists():
        place = Path(tempfile.mkdtemp(prefix="backbone")) / "run"
        run = troth.run(reader.read(BACKBONE), out=place, device=work.device)[0]
        accuracy = run.summary["shared"]["accuracy_mean"]
        if accuracy < WANTED:
            raise SystemExit(f"the backbone is right on {accuracy:.3f} only")
        whole = cifar10()
        network = run.network().to(work.device)
        x = torch.from_numpy(whole.x).to(work.device)
        seen, _ = poison.embeddings(network, x)
        x32 = seen.astype(np.float32)
        assert whole.split is not None
        split = np.where(whole.split == TEST, 2, 0)
        np.savez(file, x=x32, y=whole.y, split=split, accuracy=accuracy)
        shutil.rmtree(place.parent)
    return str(file)


def tree(work: Work, rounds: int) -> dict[str, Any]:
    """Return ten users with 7,200 of 60,000 images each, about 6,000 for training."""
    own = {"name": "npz", "path": data(work)}
    return digits(10, 7200, "l2sq", rounds=rounds, data=own)


def figures() -> Iterator[Figure]:
    """Yield Figs. 17–19: gradients, a model and data, with the authors' settings."""
    name = "network"
    authors = {"weight": 1.0, "start": True, "width": 50.0, "noise": 0.1}

    def first(work: Work) -> dict[str, Any]:
        found = gradient(work, tree(work, 1000), 20, name, knows="others")
        return found | {"backbone": float(np.load(data(work))["accuracy"])}

    def second(work: Work) -> dict[str, Any]:
        return frozen(work, tree(work, 500), 10, name, first)

    def third(work: Work) -> dict[str, Any]:
        return examples(
            work, tree(work, 1500), 30, name, first, number=100_000, **authors
        )

    yield Figure("network", "gradient", first)
    yield Figure("network", "model", second)
    yield Figure("network", "data, 100000", third)
