"""Read certificates from the table of results, by run and model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from troth.certificates import spread
from troth.reproduce.store import Store

STORE = Store(Path(__file__).parent)
FIGURES = (
    "mnist_clients",
    "mnist_nominal",
    "mnist_affine",
    "mnist_mixture",
    "mnist_readings",
    "mnist_every",
    "mnist_authors",
    "mnist_resnet18",
    "cifar10_federated",
    "cifar10_nominal",
    "cifar10_gently",
    "cifar10_mixture",
    "hostile",
)
CHANGES = ("noise", "rotation", "translation")
CLIENTS = (4, 10, 20, 100)
LAMBDAS = ("0.1", "0.5", "0.9", "1.0")
RULES = ("mean", "multi_krum")
RATES = ("0.001", "0.01")
"""Learning rates of personalization with the authors' settings."""
NONE = 0.01
"""A difference of certified accuracy, or of its spread, up to this counts as none."""


class Line(NamedTuple):
    """The certificates of one model."""

    run: dict[str, Any]
    model: str  # personal or shared

    @property
    def curve(self) -> dict[str, Any]:
        """Return the certifier's summary."""
        found: dict[str, Any] = self.run["certified"]["models"][self.model]
        return found

    @property
    def clients(self) -> np.ndarray:
        """Return certified accuracy of each client at each radius, [n, radii]."""
        return np.array([c["accuracy"] for c in self.curve["clients"].values()])

    @property
    def accuracy(self) -> float:
        """Return the accuracy on inputs without noise."""
        return float(self.run["summary"][self.model]["accuracy_mean"])

    @property
    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Return each client's certified accuracy, averaged over radii, and its noise.

        Both are [n]. The score of an image is the share of the radii at which it is
        classified correctly and certified. An image that is certified at a radius is
        certified at all smaller ones. The curve of a client therefore determines the
        sums of the scores and of their squares.
        """
        m = np.array([c["examples"] for c in self.curve["clients"].values()])
        count, radii = self.clients * m[:, None], self.clients.shape[1]
        total = count.sum(axis=1) / radii
        squares = (count * (2 * np.arange(radii) + 1)).sum(axis=1) / radii**2
        return total / m, spread.noise(total, squares, m)

    @property
    def apart(self) -> float:
        """Return the standard deviation of the scores, without that noise."""
        return float(spread.spread(*self.scores))

    def further(self, other: Line) -> bool | None:
        """Return whether clients differ more than under `other`; `None`: unclear.

        They do if the interval of the difference excludes 0. They do not if its upper
        end makes the standard deviation larger by at most `NONE`.
        """
        found = spread.difference(*self.scores, *other.scores)
        if found.low > 0:
            return True
        most = np.sqrt(max(other.apart**2 + found.high, 0.0)) - other.apart
        return False if most <= NONE else None


def load(figure: str, label: str, model: str = "personal") -> Line | None:
    """Return a run by its figure and label, with the first seed; `None` if missing."""
    run = STORE.get(f"{figure}/{label}, seed 0")
    return Line(run, model) if run else None


def alone(data: str, change: str, clients: int = 10) -> Line | None:
    """Return local training for a change."""
    if clients == 10:
        return load(f"{data}_mixture", f"{change}, λ=1.0")
    return load(f"{data}_clients", f"{change}, {clients} clients, local")


def together(
    data: str, change: str, clients: int = 10, model: str = "shared"
) -> Line | None:
    """Return a model of clients that all train for a change."""
    if data == "mnist":
        label = f"{change}, {clients} clients, federated"
        return load("mnist_clients", label, model)
    return load("cifar10_federated", change, model)


def nominal(
    data: str, change: str, clients: int = 10, model: str = "personal"
) -> Line | None:
    """Return a model of clients whose personalizer alone trains for a change."""
    if clients == 10:
        return load(f"{data}_nominal", change, model)
    return load(f"{data}_clients", f"{change}, {clients} clients, nominal", model)


def mixed(data: str, change: str) -> dict[str, Line]:
    """Return models of Eq. 5 by λ."""
    every = {lam: load(f"{data}_mixture", f"{change}, λ={lam}") for lam in LAMBDAS}
    return {lam: line for lam, line in every.items() if line is not None}


def read(lam: str, distance: str, start: str) -> Line | None:
    """Return a mixture for rotations of digits, by a reading of Eqs. 4 and 5."""
    if (distance, start) == ("sum", "own"):
        return load("mnist_mixture", f"rotation, λ={lam}")
    label = f"rotation, λ={lam}, distance {distance}, start {start}"
    return load("mnist_readings", label)


def every(change: str, clients: int, who: str) -> Line | None:
    """Return models of digits, certified on all test images, by their owner."""
    return load("mnist_every", f"{change}, {clients} clients, {who}")


def authors(change: str, who: str, model: str = "personal") -> Line | None:
    """Return models of digits that were trained with the authors' settings."""
    return load("mnist_authors", f"{change}, {who}", model)


class Left(NamedTuple):
    """What poisoning leaves of a model, as shares of the values without poisoning."""

    threat: str
    rule: str
    whose: str  # shared, finetune or ditto
    accuracy: float
    radius: float  # average certified


def left(change: str) -> list[Left]:
    """Return these shares for federations with malicious clients."""
    rows = []
    for whose in ("shared", "finetune", "ditto"):
        # the shared model is certified with Ditto's run
        method, model = whose, "personal"
        if whose == "shared":
            method, model = "ditto", "shared"
        for rule in RULES:
            clean = load("hostile", f"{change}, clean, {rule}, {method}", model)
            for threat in ("A1", "A3"):
                label = f"{change}, {threat}, {rule}, {method}"
                line = load("hostile", label, model)
                if line is None or clean is None:
                    continue
                kept = line.accuracy / clean.accuracy
                radius = line.curve["acr"] / max(clean.curve["acr"], 1e-12)
                rows.append(Left(threat, rule, whose, kept, radius))
    return rows
