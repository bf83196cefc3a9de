"""Compare the engine's plan with a loop: ResNet18, 10 clients, batch 64.

python benchmarks/resnet18.py [--out FILE.json], on the fastest device there is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from troth import build
from troth.config import reader
from troth.config.schema import Experiment
from troth.engine.local_training import Plan

CLIENTS, EXAMPLES, STEPS, TIMES = 10, 256, 10, 5


def experiment(folder: Path) -> Experiment:
    """Describe an experiment on random images of the size of CIFAR-10."""
    random, m = np.random.default_rng(1), CLIENTS * (EXAMPLES + 2)
    x = random.integers(0, 256, (m, 3, 32, 32), dtype=np.uint8)
    split = np.tile(np.r_[np.zeros(EXAMPLES, int), 2, 2], CLIENTS)
    owner = np.repeat(np.arange(CLIENTS), EXAMPLES + 2)
    path = folder / "pictures.npz"
    np.savez(path, x=x, y=np.arange(m) % 10, owner=owner, split=split)
    return reader.from_dict(
        {
            "data": {"name": "npz", "path": str(path)},
            "partition": {"name": "natural", "split": "given"},
            "model": "resnet18",
            "train": {
                "rounds": 1,
                "steps": 20,
                "batch": 64,
                "drop_last": True,
                "precision": "tf32",
            },
        }
    )


def measure(e: Experiment, plan: Plan | None) -> dict[str, Any]:
    """Return the milliseconds per client-step of a plan, the median over rounds."""
    federation = build.build(e, plan=plan).federation
    engine, ids = federation.engine, np.arange(CLIENTS)
    rows = federation.population.read(ids)

    def once() -> float:
        began = time.perf_counter()
        engine.run("local", federation.broadcast, rows, ids, 0, STEPS)
        if engine.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    once()
    if engine.device.type == "cuda":  # not what choosing a plan took
        torch.cuda.reset_peak_memory_stats()
    seconds = sorted(once() for _ in range(TIMES))[TIMES // 2]
    found = {"plan": engine.plan._asdict()}
    found["ms_client_step"] = 1e3 * seconds / (STEPS * CLIENTS)
    if engine.device.type == "cuda":
        found["gigabytes"] = torch.cuda.max_memory_allocated() / 2**30
    return found


def main() -> None:
    """Measure both, print a table and write the raw numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        e = experiment(Path(folder))
        out: dict[str, Any] = {"chosen": measure(e, None)}
        out["loop"] = measure(e, Plan("loop", 1))
    out["ratio"] = out["loop"]["ms_client_step"] / out["chosen"]["ms_client_step"]
    cuda = torch.cuda.is_available()
    out["device"] = torch.cuda.get_device_name() if cuda else "cpu"
    out["torch"] = torch.__version__
    text = json.dumps(out, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
