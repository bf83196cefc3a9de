"""Train your own network, named `module:function`, and then freeze a part of it.

You can use any `torch.nn.Module`, also with batch normalization and dropout. A second
federation starts from the weights of the first, and trains only the last layer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from torch import Tensor, nn

import troth


class Net(nn.Module):
    """A network of two named parts, which can be frozen by these names."""

    def __init__(self, channels: int, classes: int, width: int, drop: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(drop), nn.Linear(16 * width, classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map images [b, channels, h, w] to scores [b, classes]."""
        out: Tensor = self.classifier(self.features(x))
        return out


def network(
    shape: tuple[int, ...], classes: int, *, width: int = 8, drop: float = 0.25
) -> nn.Module:
    """Build the network. Keyword-only parameters are options of the experiment."""
    return Net(shape[0], classes, width, drop)


def main(rounds: int = 30) -> None:
    """Train a shared network. Then train a separate last layer for every client."""
    experiment = {
        "data": "digits",
        "partition": {"name": "classes", "clients": 10, "per_client": 3},
        "model": {"name": "own_network:network", "width": 16},
        "train": {"rounds": rounds, "batch": 16, "lr": 0.1},
    }
    with tempfile.TemporaryDirectory() as place:
        first, second = Path(place) / "first", Path(place) / "second"
        (run,) = troth.run(experiment, out=first)
        print(
            f"one model for all: accuracy {run.summary['shared']['accuracy_mean']:.3f}"
        )

        experiment["personalizer"] = "local"
        settings = [
            f"model.weights={first / 'shared.safetensors'}",
            'model.freeze=["features"]',  # neither trained nor sent
        ]
        (run,) = troth.run(experiment, settings=settings, out=second)
        accuracy, facts = (
            run.summary["personal"]["accuracy_mean"],
            run.experiment.resolved,
        )
        print(f"each its own last layer: accuracy {accuracy:.3f}")
        print(f"{facts['parameters']} trained, {facts['frozen_parameters']} frozen")


if __name__ == "__main__":
    main()
