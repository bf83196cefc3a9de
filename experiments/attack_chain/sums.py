"""Appendix E: does the sum or the mean of a client's losses determine its influence?

Ten idle users have 10 examples of Fashion-MNIST each, and one active user has all
60,000. Three fifths of the labels are random. All users are honest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attacks import Figure, Work
from federations import made

from troth import seeding
from troth.data.datasets.fashion_mnist import fashion_mnist
from troth.poison import goal
from troth.types import TEST, TRAIN

IDLE, FEW, RANDOM = 10, 10, 36_000
LAMBDAS = (0.01, 0.1, 1.0, 10.0, 100.0)
MODELS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "MLP": {"name": "mlp", "widths": [784]},
}
EPOCHS, EVERY = 200, 4
CLEAN = {"linear": 1000, "MLP": 2000}  # epochs of Figs. 14 and 15


def data(work: Work, draw: int, right: int, random_labels: int = RANDOM) -> str:
    """Write all users' examples to one file; the last user has all, and the test set.

    Args:
        work: has the folder to which the file is written.
        draw: seed of the users' examples and of the random labels.
        right: number of correct labels of the idle users; 0: as drawn.
        random_labels: number of the first labels that are drawn at random.
    """
    file = work.models / f"sums-{draw}-{right}-{random_labels}.npz"
    if not file.exists():
        whole = fashion_mnist()
        assert whole.split is not None
        (train,), (test,) = (np.nonzero(whole.split == s) for s in (TRAIN, TEST))
        random = seeding.generator(999 + draw, "appendix E")
        y = whole.y.copy()
        some = random.integers(0, 10, random_labels)  # a tenth stays right
        y[train[:random_labels]] = some
        few = [random.choice(train, FEW, replace=False) for _ in range(IDLE)]
        labels = [y[np.concatenate(few)], y[train], y[test[:IDLE]], y[test]]
        if right:
            labels[0] = random.integers(0, 10, IDLE * FEW)
            some = random.choice(IDLE * FEW, right, replace=False)
            labels[0][some] = whole.y[np.concatenate(few)][some]
        # nobody is without a test: the idle users have a copy of one image each
        parts = [*few, train, test[:IDLE], test]
        rows = np.concatenate(parts)
        idle = np.arange(IDLE)
        owner = np.concatenate(
            [np.repeat(idle, FEW), np.full(len(train), IDLE), idle]
            + [np.full(len(test), IDLE)]
        )
        held = len(rows) - IDLE - len(test)
        split = np.where(np.arange(len(rows)) < held, TRAIN, TEST)
        y = np.concatenate(labels)
        np.savez(file, x=whole.x[rows], y=y, owner=owner, split=split)
    return str(file)


def tree(
    file: str, model: str, fit: str, lam: float, epochs: int = EPOCHS
) -> dict[str, Any]:
    """Return the experiment, with λ in the paper's units."""
    every = (60_000 + IDLE * FEW) / (IDLE + 1)  # examples a user, on average
    return {
        "seed": 999,
        "data": {"name": "npz", "path": file},
        "partition": {"name": "natural", "split": "given", "min_examples": 1},
        "model": MODELS[model],
        "train": {
            "rounds": epochs,
            "batch": 0,
            "steps": 1,
            "lr": 0.04,
            "schedule": {"name": "steps", "every": 1, "factor": 0.99, "floor": 0.5},
        },
        "personalizer": {
            "name": "coupled",
            "lam": 2 * lam,
            "fit": fit,
            "unit": every if fit == "sum" else 1.0,
            "report": "before",
            "optimizer": "adam",
        },
        "aggregator": "sum",
        "server": {"name": "adam", "lr": 0.04, "beta2": 0.999, "tau": 1e-8},
        "evaluate": {"every": epochs},
    }


def watched(
    work: Work,
    model: str,
    fit: str,
    lam: float,
    draw: int = 0,
    right: int = 0,
    every: int = EVERY,
    clean: int = 0,
) -> dict[str, Any]:
    """Record accuracy on all test data: of ρ, the idle users and the active user.

    Without label noise, training takes `clean` epochs.
    """
    file = data(work, draw, right, 0 if clean else RANDOM)
    built = made(tree(file, model, fit, lam, clean or EPOCHS), work.device)
    f = built.federation
    aim = goal.Goal(f.broadcast.w.double().cpu(), "shift_labels")  # only to be judged
    found: dict[str, list[float]] = {n: [] for n in ("round", "shared", "idle", "own")}

    def look(round_: int) -> None:
        own = f.engine.models(f.broadcast.w, f.population.read(np.arange(IDLE + 1)))
        every = [goal.judged(built, aim, v)[0] for v in (f.broadcast.w, *own)]
        row = (round_, every[0], np.mean(every[1:-1]), every[-1])
        for name, value in zip(found, row, strict=True):
            found[name].append(round(float(value), 5))

    look(0)
    for record in f.train():
        if (record.round + 1) % every == 0:
            look(record.round + 1)
    return dict(found)


def figures() -> Iterator[Figure]:
    """Yield Figs. 4–13, of which Table 1 has λ = 1; 14 and 15 are without noise."""
    for model in MODELS:
        for lam in LAMBDAS:
            for fit in ("mean", "sum"):

                def make(
                    work: Work, model: str = model, fit: str = fit, lam: float = lam
                ) -> dict[str, Any]:
                    return watched(work, model, fit, lam)

                yield Figure("sums", f"{model}, {fit}, λ={lam}", make)
    for model, epochs in CLEAN.items():
        for fit in ("mean", "sum"):

            def plain(
                work: Work, model: str = model, fit: str = fit, epochs: int = epochs
            ) -> dict[str, Any]:
                return watched(work, model, fit, 1.0, every=epochs // 50, clean=epochs)

            yield Figure("clean", f"{model}, {fit}, without noise", plain)
    # What the hundred labels of the idle users decide: drawn again, and mostly right.
    for label, draw, right in (("drawn again", 1, 0), ("60 right of 100", 1, 60)):

        def other(work: Work, draw: int = draw, right: int = right) -> dict[str, Any]:
            return watched(work, "linear", "mean", 1.0, draw, right, EPOCHS)

        yield Figure("draws", f"mean, {label}", other)
