"""Train and certify the runs of the page: `base.toml` with some keys changed.

    python experiments/certificates/run.py --device cuda              # all of them
    python experiments/certificates/run.py mnist_clients --only "10 clients"
    python experiments/certificates/run.py hostile --only ditto --together 6

The record of a finished run has the accuracy of its models, and the number of each
client's predictions that are certified at every radius. Finished runs are not trained
again. A run with fine-tuning has the shared model and the clients' own models. Local
models are those of `mixture` with λ = 1, which trains the same models and no others.

Runs with one name have the same shared model. The first of them trains it and saves it
under `models/`, and the others only personalize it. Runs whose starting model is
missing are left out. With --together, this is checked before any run is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent
sys.path += [str(ROOT), str(ROOT.parent)]

import common
from common import Cell, Changes, main
from smoothed import MODELS, NETWORKS, SIGMA

from troth import files
from troth.certificates.smoothing import Smoothing
from troth.examine import certify
from troth.runs.load import Run

DATA: dict[str, Changes] = {
    "mnist": {
        "data": "mnist",
        "model": NETWORKS["mnist"],
        "train": {"lr": 0.1},
    },
    "cifar10": {
        "data": "cifar10",
        "model": NETWORKS["cifar10"],
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
"""Changes of inputs in all runs (the authors crop and flip digits, too)."""

TUNED: Changes = {"name": "finetune", "epochs": 4, "lr": 0.01}
CHANGES = ("noise", "rotation", "translation")
LAMBDAS = (0.1, 0.5, 0.9, 1.0)
READINGS = (("sum", "mean"), ("mean", "own"), ("mean", "mean"))
"""Distances and starts of mixtures, other than ("sum", "own") of `mnist_mixture`."""
CLIENTS = (4, 10, 20, 100)
THREATS: dict[str, Changes] = {
    "clean": {},
    "A1": {"adversary": {"fraction": 0.2}},  # random labels
    "A3": {"adversary": {"fraction": 0.2}, "attack": "model_replacement"},  # and these
}
RULES = ("mean", "multi_krum")
SKIPPED: Changes = {"availability": {"deadline": 1e-6}}
"""A deadline that ends rounds before any client has made a step. w stays as it was
given, as do the statistics of batch normalization. What follows the last round is the
same as after the rounds that trained this w."""


def seen(data: str, change: str) -> list[Any]:
    """Return the changes of inputs during training of a model for a change."""
    own = [{"name": change, "sigma": SIGMA[data][change]}] if change else []
    return [*PLAIN[data], *own]


def cell(
    figure: str, label: str, data: str, shared: str, part: Changes, clients: int = 10
) -> Cell:
    """Return a run whose shared model is trained for a change; "" is no change."""
    train = DATA[data]["train"] | {"augment": seen(data, shared)}
    engine: Changes = {"how": "vmap", "chunk": clients}
    if data == "cifar10":  # one client fills a GPU (benchmarks/resnet18.py)
        engine = {"how": "compiled", "chunk": 1}
    changes = DATA[data] | {"train": train, "partition": {"clients": clients}}
    return Cell(figure, label, changes | {"engine": engine, "personalizer": part})


def again(made: Cell) -> Cell:
    """Return the same run, starting from the saved shared model of its name."""
    return made._replace(changes=made.changes | SKIPPED)


def called(name: str, made: Cell) -> Cell:
    """Give a run the name under which its shared model is saved."""
    return made._replace(changes=made.changes | {"name": name})


def named(name: str, every: Iterable[Cell]) -> Iterator[Cell]:
    """Yield runs with the same shared model, of which the first trains it."""
    for k, one in enumerate(every):
        yield again(called(name, one)) if k else called(name, one)


def tuned(data: str, change: str) -> Changes:
    """Return fine-tuning for a change of inputs."""
    return TUNED | {"augment": seen(data, change)}


def mixed(lam: float, **reading: str) -> Changes:
    """Return Eq. 5; λ = 1 is local training unless rounds start at the mean."""
    return {"name": "mixture", "lam": lam, **reading}


def by_clients() -> Iterator[Cell]:
    """Figures 1, 6, 8 and 9: all train for the change; 7: nominal, 100 clients."""
    name = "mnist_clients"
    for n in CLIENTS:
        for change in CHANGES if n == 10 else CHANGES[1:]:
            label, own = f"{change}, {n} clients", tuned("mnist", change)
            yield cell(name, f"{label}, federated", "mnist", change, own, n)
            if n != 10:  # which `mnist_mixture` has
                yield cell(name, f"{label}, local", "mnist", change, mixed(1.0), n)
    every = [
        cell(name, f"{c}, 100 clients, nominal", "mnist", "", tuned("mnist", c), 100)
        for c in CHANGES
    ]
    yield from named("mnist, nominal, 100 clients", every)
    yield cell(
        name, "noise, 100 clients, local", "mnist", "noise", mixed(1.0), clients=100
    )


def kept(data: str, shared: str) -> str:
    """Return the name of the shared model of ten clients; "" is nominal."""
    return f"{data}, {shared or 'nominal'}"


def personalized(figure: str, data: str, shared: str, own: Iterable[str]) -> list[Cell]:
    """Yield ten clients that train for one change, and then for others."""
    every = (cell(figure, change, data, shared, tuned(data, change)) for change in own)
    return [*named(kept(data, shared), every)]


def one_size() -> Iterator[Cell]:
    """Ten clients: Figures 2 and 4 (nominal), 3 (affine), 5 and 10 (mixture), 1."""
    for data in ("mnist", "cifar10"):
        yield from personalized(f"{data}_nominal", data, "", CHANGES)
        for change in CHANGES:
            every = data == "mnist" or change == "rotation"
            for lam in LAMBDAS if every else (1.0,):
                label = f"{change}, λ={lam}"
                yield cell(f"{data}_mixture", label, data, change, mixed(lam))
    yield from personalized("mnist_affine", "mnist", "affine", CHANGES[1:])
    yield from personalized("cifar10_federated", "cifar10", "rotation", ["rotation"])


def gently() -> Iterator[Cell]:
    """Yield CIFAR-10 with a tenth of the personalization rate, as the authors have."""
    gentle = {"lr": TUNED["lr"] / 10}
    for shared, own in [*(("", change) for change in CHANGES), ("rotation",) * 2]:
        part = tuned("cifar10", own) | gentle
        label = f"{shared or 'nominal'} → {own}"
        made = cell("cifar10_gently", label, "cifar10", shared, part)
        yield again(called(kept("cifar10", shared), made))


def readings() -> Iterator[Cell]:
    """Yield Figure 10 by other readings of Eqs. 4 and 5, which are ambiguous."""
    for distance, start in READINGS:
        for lam in LAMBDAS[:-1]:
            label = f"rotation, λ={lam}, distance {distance}, start {start}"
            part = mixed(lam, distance=distance, start=start)
            yield cell("mnist_readings", label, "mnist", "rotation", part)


def hostile() -> Iterator[Cell]:
    """Yield runs with a fifth of twenty clients malicious.

    They test what poisoning costs first, accuracy or radius. The run with Ditto trains
    its personal models and the shared model of fine-tuning.
    """
    for change in ("noise", "rotation"):
        parts = {"ditto": {"name": "ditto"}, "finetune": tuned("mnist", change)}
        for threat, sections in THREATS.items():
            for rule in RULES:
                more = sections | {"aggregator": rule}
                label = f"{change}, {threat}, {rule}"
                pair = [
                    cell("hostile", f"{label}, {method}", "mnist", change, part, 20)
                    for method, part in parts.items()
                ]
                same = (one._replace(changes=one.changes | more) for one in pair)
                yield from named(f"hostile, {label}", same)


def cells() -> list[Cell]:
    """Return all runs, digits first."""
    every = [*by_clients(), *one_size(), *gently(), *readings(), *hostile()]
    return sorted(every, key=lambda one: one.figure.startswith("cifar10"))


def smoothing(run: Run) -> Smoothing:
    """Return the last change with a σ, for which a run's own models were trained."""
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


def started(cell: Cell, seed: int) -> Changes | None:
    """Return the cell's changes, with the shared model from which it starts, if any."""
    if SKIPPED.items() <= cell.changes.items():
        return common.begun(MODELS, cell, seed)
    return cell.changes


def left(run: Run) -> None:
    """Save the shared model from which other runs start, and one client's model."""
    e = run.experiment
    if not e.name or e.availability.deadline:
        return
    common.keep(MODELS, run)
    if e.personalizer.name == "finetune":
        file = common.place(MODELS, f"{e.name}, client 0", e.seed)
        files.save(file, run.model(0).state_dict())


def asked(run: Run) -> tuple[tuple[str, ...] | None, int]:
    """Return which models are certified (`None`: all), and on how many images."""
    e, n = run.experiment, run.experiment.resolved["clients"]
    poisoned = e.name.startswith("hostile")
    # with malicious clients, the shared model is certified once, with Ditto's run
    own = e.personalizer.name == "mixture" or (poisoned and e.availability.deadline)
    images = 20 if n > 20 else 50 if poisoned else 100
    return ("personal",) if own else None, images


def certified(run: Run) -> Changes:
    """Return certified accuracy of every client at every radius, for every model."""
    left(run)
    return curves(run, smoothing(run), *asked(run))


def curves(
    run: Run, s: Smoothing, models: tuple[str, ...] | None, images: int
) -> Changes:
    """Certify images of every client, and return the curves of every model."""
    device = run.experiment.resolved["device"]
    found = certify.certify(run, s, models=models, examples=images, device=device)
    made = {name: c.summary() for name, c in found.curves.items()}
    return {"certified": {"settings": s.record(), "unit": s.unit, "models": made}}


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), certified, seeds=1, given_seed=started)
