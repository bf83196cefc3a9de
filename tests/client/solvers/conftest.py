"""Small federations that the tests of several solvers share."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from troth import build
from troth.engine.local_training import Plan

from ..small import built, on_file

SIZES = [6, 9, 14, 20, 5, 11]
LR = 0.1  # of the quadratics

MODULE = """
import torch
from torch import nn


def normed(shape, classes):
    norm, last = nn.BatchNorm1d(4), nn.Linear(4, classes)
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 4), norm, nn.ReLU(), last)


def falsify(messages, hostile, *, value: float = 1e6):
    extra = messages.extra.clone()
    extra[hostile] = value
    return messages._replace(extra=extra)
"""


@pytest.fixture
def strange(tmp_path, monkeypatch):
    """A network and an attack of somebody else, named `odd:function`."""
    (tmp_path / "odd.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("odd", None)
    yield
    sys.modules.pop("odd", None)


def federation(path, plan, sections):
    tree = on_file(path, "none", {"rounds": 3}, **sections)
    return built(tree, plan or Plan("threads", 1), 0)


def save(path, x, y, sizes):
    """All but the last example of every client are trained on."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    last = np.append(owner[1:] != owner[:-1], True)
    np.savez(path, x=x, y=y, owner=owner, split=np.where(last, "test", "train"))
    return path


@pytest.fixture(scope="session")
def labels(tmp_path_factory):
    """Two classes of unlike clients, of unlike sizes."""
    random, m = np.random.default_rng(0), sum(SIZES)
    x = random.normal(size=(m, 3)) + np.repeat(np.arange(len(SIZES)), SIZES)[:, None]
    where = tmp_path_factory.mktemp("labels") / "data.npz"
    return save(where, x, random.integers(0, 2, m), SIZES)


@pytest.fixture
def classify(labels):
    """(plan, **sections) → a federation that classifies: cohorts, short batches."""

    def made(plan=None, **sections):
        train = {"cohort": 4, "batch": 4, "epochs": 2} | sections.get("train", {})
        return federation(labels, plan, sections | {"train": train})

    return made


class Quadratic(NamedTuple):
    """Clients whose losses are ½wᵀGw − cᵀw + …, with G and c of their own."""

    made: Callable[..., build.Built]
    gram: np.ndarray  # [n, d, d]
    cross: np.ndarray  # [n, d]
    sizes: np.ndarray  # [n]

    def run(self, **sections):
        """Where w ends."""
        f = self.made(**sections).federation
        list(f.train())
        return f.broadcast.w.numpy()

    def off(self, w, weight=None):
        """How far w is from the minimizer of the clients' weighted mean loss."""
        weight = np.ones(len(self.gram)) if weight is None else np.array(weight)
        gram = np.einsum("n,nde->de", weight, self.gram)
        return np.abs(w - np.linalg.solve(gram, weight @ self.cross)).max()

    def settled(self, steps, mu=0.0):
        """Where averages of so many steps on each client's loss + (μ/2)‖w − wᵗ‖² end.

        With B = G + μI and M = I − ηB, w becomes Mᴷw + (I − Mᴷ)B⁻¹(c + μw) at a client;
        the mean of these over clients is w.
        """
        eye = np.eye(self.gram.shape[1])
        slope, offset = np.zeros_like(eye), np.zeros(len(eye))
        for gram, cross in zip(self.gram, self.cross, strict=True):
            bent = gram + mu * eye
            power = np.linalg.matrix_power(eye - LR * bent, steps)
            part = (eye - power) @ np.linalg.inv(bent)
            slope += power + mu * part
            offset += part @ cross
        n = len(self.gram)
        return np.linalg.solve(eye - slope / n, offset / n)


@pytest.fixture(scope="session")
def quadratic(tmp_path_factory):
    """Linear regressions that want different things; every step sees all examples."""
    random, n, sizes = np.random.default_rng(1), len(SIZES), [8 * m for m in SIZES]
    who = np.repeat(np.arange(n), sizes)
    x = random.normal(size=(len(who), 2)) * (0.6 + 0.2 * who[:, None])
    y = (x * 3 * random.normal(size=(n, 2))[who]).sum(1) + random.normal(size=len(x))
    where = save(tmp_path_factory.mktemp("quadratic") / "data.npz", x, y, sizes)
    held = [np.flatnonzero(who == k)[:-1] for k in range(n)]
    gram = np.stack([x[own].T @ x[own] / len(own) for own in held])
    cross = np.stack([x[own].T @ y[own] / len(own) for own in held])

    def made(**sections):
        train = {"batch": 0, "steps": 5, "lr": LR, "rounds": 100}
        train |= sections.pop("train", {})
        model = {"name": "linear", "bias": False, "normalize": "none"}
        sections |= {"model": model, "train": train}
        return federation(where, Plan("vmap", n), sections)

    return Quadratic(made, gram, cross, np.array([len(own) for own in held]))
