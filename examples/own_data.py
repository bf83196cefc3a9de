"""Train on your own data: read an .npz file, and train a model for every owner.

The data come from eight sensors. Each sensor is mounted at another angle, so that "up"
for one sensor is "left" for another. No single model is right for all of them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import troth

OWNERS, EXAMPLES = 8, 60


def made(path: Path) -> None:
    """Write the file with inputs `x`, labels `y`, and the `owner` of each example."""
    random = np.random.default_rng(0)
    x = random.normal(size=(OWNERS, EXAMPLES, 2))
    angle = np.linspace(0, np.pi, OWNERS)[:, None]
    y = x[..., 0] * np.cos(angle) + x[..., 1] * np.sin(angle) > 0
    owner = np.repeat([f"sensor {k}" for k in range(OWNERS)], EXAMPLES)
    np.savez(
        path, x=x.reshape(-1, 2).astype("float32"), y=y.ravel().astype(int), owner=owner
    )


def main(rounds: int = 40) -> None:
    """Train, open the run again, and predict with one client's model."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "sensors.npz"
        made(file)
        experiment = {
            "data": {"name": "npz", "path": str(file)},
            "partition": "natural",  # one client per owner, in sorted order
            "model": "linear",
            "train": {"rounds": rounds, "batch": 16, "lr": 0.5},
            "personalizer": {"name": "ditto", "lam": 0.1},
        }
        (trained,) = troth.run(experiment, out=Path(place) / "run")

        run = troth.load(trained.path)  # at any later time; only the folder is needed
        for kind in ("shared", "personal"):
            mean = run.summary[kind]["accuracy_mean"]
            print(f"{kind} model: accuracy {mean:.3f} on average over {OWNERS} owners")

        network = run.model(client=3)  # an ordinary torch.nn.Module
        print(f"sensor 3 has {sum(p.numel() for p in network.parameters())} weights")
        x = np.array([[1.0, 0.0], [-1.0, 0.0]], dtype="float32")
        print(f"it says {run.predict(3, x).tolist()} of {x.tolist()}")


if __name__ == "__main__":
    main()
