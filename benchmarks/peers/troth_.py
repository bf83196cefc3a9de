"""Troth: `troth.run`; `watch` reads the clock after every round."""

import sys
import tempfile
from pathlib import Path

import numpy as np
from workloads import WORKLOADS, data, now

import troth


def seconds(name: str, device: str = "auto", precision: str = "float32") -> list[float]:
    """Return when every round ended."""
    work = WORKLOADS[name]
    x, y = data(name)
    sys.path.insert(0, str(Path(__file__).parent))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        owner = np.arange(len(x)).repeat(x.shape[1])
        split = np.zeros(len(owner), np.int64)
        # One further example per client, since a run needs something to test on.
        whole = [np.concatenate([x.reshape(-1, *work.shape), x[:, 0]])]
        whole += [np.concatenate([y.reshape(-1), y[:, 0]])]
        whole += [np.concatenate([owner, np.arange(len(x))])]
        whole += [np.concatenate([split, np.full(len(x), 2)])]
        np.savez(file, **dict(zip(("x", "y", "owner", "split"), whole, strict=True)))
        train = {"rounds": work.rounds, "steps": work.steps, "batch": work.batch}
        ends: list[float] = []
        experiment = {
            "data": {"name": "npz", "path": str(file)},
            "partition": {"name": "natural", "split": "given"},
            "model": {"name": f"networks:{work.network}", "normalize": "none"},
            "train": {**train, "lr": work.lr, "precision": precision},
            "evaluate": {"every": work.rounds},
            "engine": {"device": device},
            "output": {"personal": False, "checkpoint": False},
        }
        troth.run(
            experiment,
            out=Path(folder) / "run",
            watch=lambda progress: ends.append(now()),
        )
    return ends
