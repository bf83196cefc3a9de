"""Train and certify what the page shows: `base.toml` with some keys changed.

    python experiments/certificates/run.py --device cuda              # all of them
    python experiments/certificates/run.py mnist_clients --only "10 clients"
    python experiments/certificates/run.py --part 0/4                 # every fourth

A finished run is a file under `results/`: how accurate its models are, and how many of
each client's predictions are certified at every radius. What is there already is not
trained again. A run with fine-tuning gives the shared model and the clients' own; the
local models are those of `mixture` with λ = 1, which is the same and trains no other.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent
sys.path.append(str(ROOT.parent))

from cells import Cell, Changes, main  # noqa: E402

from troth import certifying  # noqa: E402
from troth.certificates.smoothing import Smoothing  # noqa: E402
from troth.loading import Run  # noqa: E402

SIGMA: dict[str, dict[str, float]] = {
    "mnist": {"noise": 0.5, "rotation": math.pi / 2, "translation": 0.5, "affine": 0.1},
    "cifar10": {"noise": 0.12, "rotation": 0.1 * math.pi, "translation": 0.1},
}
"""The larger of the paper's two σ for the easy data, the smaller for the hard ones; its
rotations count half turns."""

DATA: dict[str, Changes] = {
    "mnist": {
        "data": "mnist",
        "model": {"name": "cnn", "channels": [16, 32], "widths": [128]},
        "train": {"lr": 0.1},
    },
    "cifar10": {
        "data": "cifar10",
        "model": {"name": "resnet18", "normalise": "pixel"},
        "train": {
            "lr": 0.1,
            "optimizer": {"name": "momentum", "beta": 0.9},
            "weight_decay": 5e-4,
            "precision": "bfloat16",
        },
    },
}
PLAIN: dict[str, list[Any]] = {
    "mnist": [],
    "cifar10": [{"name": "crop", "padding": 4}, "flip"],
}
"""What inputs go through in any case (the authors crop and flip digits, too)."""

TUNED: Changes = {"name": "finetune", "epochs": 4, "lr": 0.01}
CHANGES = ("noise", "rotation", "translation")
LAMBDAS = (0.1, 0.5, 0.9, 1.0)
CLIENTS = (4, 10, 20, 100)
THREATS: dict[str, Changes] = {
    "clean": {},
    "A1": {"adversary": {"fraction": 0.2}},  # random labels
    "A3": {"adversary": {"fraction": 0.2}, "attack": "model_replacement"},  # and these
}
RULES = ("mean", "multi_krum")


def seen(data: str, change: str) -> list[Any]:
    """What inputs go through on the way to a model that is trained for a change."""
    own = [{"name": change, "sigma": SIGMA[data][change]}] if change else []
    return [*PLAIN[data], *own]


def cell(
    figure: str, label: str, data: str, shared: str, part: Changes, clients: int = 10
) -> Cell:
    """A run whose shared model is trained for a change of inputs, "" being none."""
    train = DATA[data]["train"] | {"augment": seen(data, shared)}
    # small models step together; how large ones do is measured
    engine = {"how": "vmap", "chunk": clients} if data == "mnist" else {}
    changes = DATA[data] | {"train": train, "partition": {"clients": clients}}
    return Cell(figure, label, changes | {"engine": engine, "personalizer": part})


def tuned(data: str, change: str) -> Changes:
    """Fine-tuning for a change of inputs."""
    return TUNED | {"augment": seen(data, change)}


def mixed(lam: float) -> Changes:
    """Eq. 5; λ = 1 is local training."""
    return {"name": "mixture", "lam": lam}


def by_clients() -> Iterator[Cell]:
    """Figures 1, 6, 8 and 9: all train for the change; 7: nominal, 100 clients."""
    name = "mnist_clients"
    for n in CLIENTS:
        for change in CHANGES if n == 10 else CHANGES[1:]:
            label, own = f"{change}, {n} clients", tuned("mnist", change)
            yield cell(name, f"{label}, federated", "mnist", change, own, n)
            if n != 10:  # which `mnist_mixture` has
                yield cell(name, f"{label}, local", "mnist", change, mixed(1.0), n)
    for change in CHANGES:
        label = f"{change}, 100 clients, nominal"
        yield cell(name, label, "mnist", "", tuned("mnist", change), 100)
    yield cell(
        name, "noise, 100 clients, local", "mnist", "noise", mixed(1.0), clients=100
    )


def one_size() -> Iterator[Cell]:
    """Ten clients: Figures 2 and 4 (nominal), 3 (affine), 5 and 10 (mixture), 1."""
    for data in ("mnist", "cifar10"):
        for change in CHANGES:
            own = tuned(data, change)
            yield cell(f"{data}_nominal", change, data, "", own)
            every = data == "mnist" or change != "noise"
            for lam in LAMBDAS if every else (1.0,):
                label = f"{change}, λ={lam}"
                yield cell(f"{data}_mixture", label, data, change, mixed(lam))
    for change in CHANGES[1:]:
        yield cell("mnist_affine", change, "mnist", "affine", tuned("mnist", change))
        own = tuned("cifar10", change)
        yield cell("cifar10_federated", change, "cifar10", change, own)


def hostile() -> Iterator[Cell]:
    """A fifth of twenty clients: what does poisoning cost first?"""
    for change in ("noise", "rotation"):
        parts = {"finetune": tuned("mnist", change), "ditto": {"name": "ditto"}}
        for threat, sections in THREATS.items():
            for rule in RULES:
                for method, part in parts.items():
                    label = f"{change}, {threat}, {rule}, {method}"
                    made = cell("hostile", label, "mnist", change, part, 20)
                    changes = made.changes | sections | {"aggregator": rule}
                    yield made._replace(changes=changes)


def cells() -> list[Cell]:
    """All of them, digits first."""
    every = [*by_clients(), *one_size(), *hostile()]
    return sorted(every, key=lambda one: one.figure.startswith("cifar10"))


def smoothing(run: Run) -> Smoothing:
    """What a run's own models were trained for: the last change that has a σ."""
    e = run.experiment
    every = (
        e.train.augment if e.personalizer.augment is None else e.personalizer.augment
    )
    name, sigma = next(
        (part.name, part.options["sigma"])
        for part in reversed(every)
        if "sigma" in part.options
    )
    shares = [*np.linspace(0, 0.9, 10), 0.95, 0.99]  # of σ: a rotation ends there
    if name != "rotation":
        shares = np.linspace(0, 3, 13).tolist()
    return Smoothing(
        transform="pixel" if name == "noise" else name,  # type: ignore[arg-type]
        sigma=sigma,
        samples="adaptive",
        radii=tuple(float(share) * sigma for share in shares),
        n=100_000 if e.data.name == "mnist" else 10_000,
        precision="bfloat16" if e.data.name == "cifar10" else "float32",
    )


def certified(run: Run) -> Changes:
    """Certified accuracy of every client at every radius, by every model there is."""
    s, n = smoothing(run), run.experiment.resolved["clients"]
    found = certifying.certify(
        run,
        s,
        models=("personal",) if run.experiment.personalizer.name == "mixture" else None,
        examples=100 if n <= 20 else 20,
        device=run.experiment.resolved["device"],
    )
    models = {name: c.summary() for name, c in found.curves.items()}
    return {"certified": {"settings": s.record(), "unit": s.unit, "models": models}}


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), certified, seeds=1)
