"""Partition MNIST, train Troth's side, and save what `theirs.py` needs.

    python experiments/fluke/ours.py

Data, first weights and batches are saved in `runs/fluke` (or --exchange), and results
in the table of results.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from settings import EXAMPLES, HIDDEN, METHODS, PARTITION, SEEDS, TRAIN
from torch import nn

import troth
from troth import lookup
from troth.build import build
from troth.config import reader
from troth.data import load
from troth.reproduce.store import Store
from troth.runs import train as runs
from troth.runs.load import Run

HERE = Path(__file__).parent
EPOCHS = 3  # the most that a method looks at in a round

Changes = dict[str, Any]


def dealt(seed: int, place: Path) -> Path:
    """Write the partition of a seed to one file: x in [0, 1], y, owner, split."""
    everything = lookup.find("data", "mnist")()
    train = np.flatnonzero(everything.split == 0)
    rows = np.sort(np.random.default_rng(seed).permutation(train)[:EXAMPLES])
    chosen = place / "chosen.npz"
    np.savez(chosen, x=everything.x[rows], y=everything.y[rows])
    tree = {"seed": seed, "partition": PARTITION}
    tree["data"] = {"name": "npz", "path": str(chosen)}
    arrays, shards, _ = load.deal(reader.from_dict(tree), None)
    chosen.unlink()
    parts = [(list_, mark) for mark, list_ in ((0, shards.train), (2, shards.test))]
    x, y, owner, split = [], [], [], []
    for lists, mark in parts:
        for k, rows in enumerate(lists):
            x.append(arrays.x[rows].astype(np.float32) / np.float32(255))
            y.append(arrays.y[rows])
            owner.append(np.full(len(rows), k))
            split.append(np.full(len(rows), mark))
    file = place / f"seed {seed}.npz"
    joined = [np.concatenate(lists) for lists in (x, y, owner, split)]
    np.savez(file, x=joined[0], y=joined[1], owner=joined[2], split=joined[3])
    return file


def weights(seed: int, place: Path) -> Path:
    """Write the first weights of a seed, for both sides."""
    torch.manual_seed(seed)
    layers = (nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    file = place / f"seed {seed}.pt"
    torch.save(nn.Sequential(nn.Flatten(), *layers).state_dict(), file)
    return file


def planned(name: str, seed: int, place: Path) -> Changes:
    """Return the experiment of one run."""
    method = METHODS[name]
    return {
        "seed": seed,
        "data": {"name": "npz", "path": str(place / f"seed {seed}.npz")},
        "partition": {"name": "natural", "split": "given"},
        "model": {
            "name": "mlp",
            "widths": [HIDDEN],
            "weights": str(place / f"seed {seed}.pt"),
        },
        "train": TRAIN,
        "personalizer": {"name": name, **method["personalizer"]},
        "server": {"name": "sgd", **method.get("server", {"lr": 1.0})},
        "evaluate": {"every": TRAIN["rounds"]},
        "engine": {"how": "vmap", "chunk": PARTITION["clients"]},
        "output": {"checkpoint": False},
    }


def trained(name: str, seed: int, place: Path) -> Run:
    """Train one run in a separate folder, which the caller removes."""
    tree = planned(name, seed, place)
    out = Path(tempfile.mkdtemp(prefix="fluke"))
    return troth.run(tree, out=out / "run", device="cpu")[0]


def orders(seed: int, place: Path) -> None:
    """Return the examples that each client uses in each step of each round.

    `order` [rounds, steps, clients, batch] has positions in a client's training
    examples, in the order of the file, and -1 where a batch is shorter. `per_epoch`
    [clients] is the number of steps.
    """
    e = reader.from_dict(planned("fedrep", seed, place))
    feed = build(e, plan=runs.UNMEASURED).federation.engine.feed
    everyone = np.arange(len(feed.per_epoch))
    steps = EPOCHS * int(feed.per_epoch.max())
    start = feed.data.train.start.cpu()[:, None]
    found = []
    for round_ in range(TRAIN["rounds"]):
        slots, weight = feed.draw(everyone, steps, round_)
        found.append(torch.where(weight > 0, slots - start, -1).to(torch.int32))
    order, file = torch.stack(found).numpy(), place / f"order, seed {seed}.npz"
    np.savez(file, order=order, per_epoch=feed.per_epoch.numpy())


def own_models(run: Run) -> torch.Tensor:
    """Return every client's model, [clients, d]."""
    clients = range(len(run.clients["accuracy"]))
    every = [run.model(k).double().parameters() for k in clients]
    return torch.stack([nn.utils.parameters_to_vector(p).detach() for p in every])


def accuracies(seed: int, place: Path) -> Changes:
    """Return the accuracies of the runs of a seed."""
    file = place / f"seed {seed}.npz"
    said: Changes = {
        "seed": seed,
        "troth": troth.__version__,
        "torch": torch.__version__,
        "data_sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "accuracy": {},
        "seconds": {},
    }
    for name in METHODS:
        run = trained(name, seed, place)
        found = [round(float(a), 6) for a in run.clients["accuracy"]]
        said["accuracy"][name] = found
        said["seconds"][name] = round(run.summary["seconds"], 1)
        torch.save(own_models(run), place / f"{name}, seed {seed}.pt")
        shutil.rmtree(run.path.parent)
        print(name, seed, np.mean(found).round(4), flush=True)
    return said


def main() -> None:
    """Train all methods on all seeds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--exchange", type=Path, default=Path("runs/fluke"))
    place = parser.parse_args().exchange.absolute()
    place.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        dealt(seed, place)
        weights(seed, place)
        orders(seed, place)
    for seed in SEEDS:
        name = f"ours, seed {seed}"
        if Store(HERE).get(name) is None:
            Store(HERE).put(name, accuracies(seed, place))


if __name__ == "__main__":
    main()
