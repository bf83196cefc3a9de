"""Train digits with the settings that the authors' code has, and not only the paper's.

    python experiments/certificates/authors.py --device cuda

These are momentum .9 with a learning rate of .1 and weight decay 5e-4, random crops and
flips, 45 rounds of 2 epochs with a tenth of the rate after 15 and 30 rounds, and a rate
of .001 to personalize. `mnist_authors` has them with the small network. Mixtures have
the distance of the authors' helper, the mean over each tensor, and rounds that start at
θ̄. In the variants "every step", θ̄ is the mean after every step, as Eq. 5 is written.
`mnist_resnet18` has the authors' network, with a third of the rounds.

At most 10,000 samples are drawn per image, and classified in bfloat16.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]  # the run.py of this folder

from common import Cell, Changes, main, merged
from run import (
    CHANGES,
    LAMBDAS,
    PLAIN,
    asked,
    cell,
    curves,
    left,
    mixed,
    named,
    smoothing,
    started,
    tuned,
)

from troth.runs.load import Run

SAMPLES = 10_000
CROPPED = PLAIN["cifar10"]
TRAIN: Changes = {
    "optimizer": {"name": "momentum", "beta": 0.9},
    "weight_decay": 5e-4,
    "rounds": 45,
    "schedule": {"every": 15},
    "precision": "tf32",
}
STEPS = 2 * (6000 // 64)  # of a client in a round
EVERY_STEP: Changes = {
    "rounds": 45 * STEPS,
    "schedule": {"every": 15 * STEPS},
    "steps": 1,
    "epochs": 0,
}
RESNET18: Changes = {
    "model": {"name": "resnet18"},
    "train": {"rounds": 15, "schedule": {"every": 5}, "precision": "bfloat16"},
    "engine": {"how": "compiled", "chunk": 1},
}
RATES = (0.001, 0.01)  # of personalization; the authors' is .001 or less


def ours(figure: str, label: str, shared: str, part: Changes) -> Cell:
    """Return ten clients with the authors' settings; "" is nominal training."""
    made = cell(figure, label, "mnist", shared, part)
    seen = CROPPED + made.changes["train"]["augment"]
    changes = merged(made.changes, {"train": TRAIN | {"augment": seen}})
    if "augment" in part:
        own = {"augment": CROPPED + part["augment"]}
        changes = merged(changes, {"personalizer": own})
    return made._replace(changes=changes)


def nominal(figure: str) -> Iterator[Cell]:
    """Yield a nominal shared model, personalized for every change."""
    every = [
        ours(figure, f"{change}, nominal, lr={rate}", "", part | {"lr": rate})
        for rate in RATES
        for change in CHANGES
        for part in [tuned("mnist", change)]
    ]
    yield from named(f"{figure}, nominal", every)


def apart(figure: str) -> Iterator[Cell]:
    """Yield local training for every change."""
    for change in CHANGES:
        yield ours(figure, f"{change}, local", change, mixed(1.0))


def together() -> Iterator[Cell]:
    """Yield the federated model, and mixtures."""
    figure = "mnist_authors"
    for change in CHANGES:
        part = tuned("mnist", change) | {"lr": RATES[0]}
        yield ours(figure, f"{change}, federated", change, part)
        for lam in LAMBDAS[:-1]:
            part = mixed(lam, distance="mean", start="mean")
            yield ours(figure, f"{change}, λ={lam}", change, part)
    often = {"train": EVERY_STEP, "evaluate": {"every": EVERY_STEP["rounds"]}}
    for change in CHANGES:
        for lam in LAMBDAS[:-1]:
            made = ours(figure, f"{change}, λ={lam}, every step", change, mixed(lam))
            yield made._replace(changes=merged(made.changes, often))


def large(made: Cell) -> Cell:
    """Give a run the authors' network."""
    changes = merged(made.changes | {"model": {}}, RESNET18)
    return made._replace(changes=changes)


def cells() -> Iterator[Cell]:
    """Yield every run."""
    small, figure = "mnist_authors", "mnist_resnet18"
    yield from [*nominal(small), *apart(small), *together()]
    yield from map(large, [*nominal(figure), *apart(figure)])


def look(run: Run) -> Changes:
    """Save a shared model that others start from, and certify."""
    left(run)
    return curves(
        run,
        dataclasses.replace(smoothing(run), n=SAMPLES, precision="bfloat16"),
        *asked(run),
    )


if __name__ == "__main__":
    main(__doc__, ROOT / "base.toml", cells(), look, seeds=1, given_seed=started)
