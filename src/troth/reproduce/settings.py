"""The papers' federations: their data, what stands in for them, and a small one.

What stands in has a name of its own, and its numbers are judged by nobody: they are
about other data. So it is trained at a scale that two CPU cores can bear, with smaller
models and fewer rounds than the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from troth.data import catalogue
from troth.data.datasets import _files
from troth.types import Refusal

Tree = dict[str, Any]
"""The sections of an experiment."""
Scale = Literal["full", "small"]
OTHER = "what stands in is other data: its numbers are shown and not judged"
SMALLER = "smaller models and fewer rounds than the paper's; " + OTHER
"""What entries say of data that stand in."""
SLOW = "the learning rate is that of the authors' scripts, a tenth of the paper's"
"""What they say of Vehicle."""


class Federation(NamedTuple):
    """Data and how they are trained on; methods and threats change the rest."""

    name: str  # for people
    data: str  # the data set's name here
    clients: int
    examples: float  # training examples a client, about; for estimates
    tree: Tree
    kept: Mapping[str, str] = MappingProxyType({})
    # method → its committed result without attackers, `{seed}` in it
    kind: Literal["original", "stand-in", "small"] = "original"


class Setting(NamedTuple):
    """A federation of a paper, and what may stand in for it."""

    name: str  # as the paper has it
    original: Federation
    stand_in: Federation | None = None
    more: tuple[str, int] = ("", 0)  # a file that the original needs besides; its lines

    def here(self, data_dir: str | None = None) -> bool:
        """Whether the original data are on this machine."""
        entry = catalogue.entry(self.original.data, data_dir)
        if entry.source is None or entry.place is None:
            return entry.source is None
        file, lines = self.more
        return not file or _long(entry.place / file, lines)

    def choose(self, scale: Scale, data_dir: str | None = None) -> Federation:
        """What is trained at this scale on this machine.

        Raises:
            Refusal: neither the original nor what stands in for it is here; says
                which file is missing.
        """
        if scale == "small":
            return SMALL
        if self.here(data_dir):
            return self.original
        other = self.stand_in
        if other is not None and catalogue.entry(other.data, data_dir).place:
            return other
        missing = other or self.original
        source = catalogue.entry(missing.data, data_dir).source
        assert source is not None
        why = f" (wanted for {self.name}; --cells chooses others, --scale small needs "
        why += "no files)"
        raise Refusal(_files.absent(source, data_dir, why))


def _long(file: Path, lines: int) -> bool:
    """Whether a file is there and has so many lines."""
    if not lines or not file.is_file():
        return file.is_file()
    with file.open("rb") as opened:
        return sum(1 for _ in opened) >= lines


_LEAN: Tree = {"personal": False, "checkpoint": False}
_SHARES = [0.72, 0.08, 0.2]

SMALL = Federation(
    "8×8 digits, 20 clients (small: to try the cells, no reproduction)",
    "digits",
    20,
    65.0,
    {
        "data": {"name": "digits"},
        "partition": {
            "name": "classes",
            "clients": 20,
            "per_client": 5,
            "split": _SHARES,
        },
        "model": {"name": "linear"},
        "train": {"rounds": 20, "cohort": 10, "steps": 2, "batch": 16, "lr": 0.05},
        "evaluate": {"every": 20},
        "output": _LEAN,
        "engine": {"how": "vmap", "chunk": 10},
    },
    kind="small",
)

FASHION = Setting(
    "Fashion MNIST",
    Federation(
        "Fashion-MNIST",
        "fashion_mnist",
        500,
        122.5,
        {
            "data": {"name": "fashion_mnist"},
            "partition": {
                "name": "classes",
                "clients": 500,
                "per_client": 5,
                "recipe": "ditto",
                "split": "given",
            },
            "model": {"name": "cnn", "normalize": "pixel"},
            "train": {
                "rounds": 5000,
                "cohort": 10,
                "sampling": "ditto",
                "steps": 2,
                "batch": 16,
                "drop_last": True,
                "lr": 0.05,
                "precision": "tf32",
            },
            "evaluate": {"every": 100},
            "output": _LEAN,
            "engine": {"how": "vmap", "chunk": 10},
        },
    ),
)


def _natural(
    data: Tree, model: Tree, train: Tree, every: int, **partition: Any
) -> Tree:
    """Clients as nature made them, examples divided as the paper says."""
    return {
        "data": data,
        "partition": {"name": "natural", "split": _SHARES, **partition},
        "model": model,
        "train": {"cohort": 10, "sampling": "size", **train},
        "evaluate": {"every": every},
        "output": _LEAN,
    }


_NATURAL = {"global": "ditto+lam=1.0", "local": "local"}  # its shared model
_NATURAL |= {f"Ditto, λ={lam:g}": f"ditto+lam={lam}" for lam in (0.1, 1.0, 2.0)}
_PLACE = "natural/vehicle/seed={seed},personalizer="
_KEPT = {row: f"{_PLACE}{name}" for row, name in _NATURAL.items()}
"""Committed results of `experiments/natural`."""

_CNN: Tree = {"name": "cnn", "channels": [16, 32], "widths": [128]}
_LONG: Tree = {"rounds": 1000, "steps": 5, "batch": 16}
_VEHICLE: Tree = {"rounds": 600, "steps": 1, "batch": 32, "lr": 0.01}
_SVM: Tree = {"name": "svm", "l2": 0.01, "normalize": "none"}

VEHICLE = Setting(
    "Vehicle",
    Federation(
        "Vehicle",
        "vehicle",
        23,
        81.0,
        _natural({"name": "vehicle"}, _SVM, _VEHICLE, 100, split="given"),
    ),
    Federation(
        "Vehicle's train file alone, divided 72/8/20",
        "vehicle",
        23,
        58.0,
        _natural({"name": "vehicle"}, _SVM, _VEHICLE, 100),
        _KEPT,
        "stand-in",
    ),
    ("mytest.json", 0),
)
MLP: Tree = {"name": "mlp", "widths": [64]}
_SHORT: Tree = {"rounds": 200, "cohort": 20, "steps": 5, "batch": 16, "lr": 0.05}
PICTURES: Tree = {
    "data": {"name": "celeba", "label": "Smiling", "side": 32},
    "partition": {"min_examples": 5},
    "model": {"name": "celeba_cnn", "channels": 8, "blocks": 3},
    "train": {"rounds": 100},
    "evaluate": {"every": 100},
}
"""CelebA as it stands in: small pictures, a small network."""

FEMNIST = Setting(
    "FEMNIST",
    Federation(
        "FEMNIST",
        "femnist",
        205,
        163.0,
        _natural({"name": "femnist"}, _CNN, _LONG | {"batch": 32, "lr": 0.1}, 200),
    ),
    Federation(
        "MNIST by writer, an MLP",
        "mnist_by_writer",
        539,
        80.0,
        _natural({"name": "mnist_by_writer"}, MLP, _SHORT, 200),
        kind="stand-in",
    ),
)
_FACES = _natural(
    {"name": "celeba", "label": "Smiling", "side": 84},
    {"name": "celeba_cnn"},
    _LONG | {"lr": 0.1},
    200,
    min_examples=5,
)
CELEBA = Setting(
    "CelebA",
    Federation("CelebA", "celeba", 515, 15.0, _FACES),
    Federation(
        "CelebA's identities 7201 to 7499, small pictures",
        "celeba",
        278,
        16.0,
        _natural(
            PICTURES["data"],
            PICTURES["model"],
            _SHORT | PICTURES["train"],
            PICTURES["evaluate"]["every"],
            **PICTURES["partition"],
        ),
        kind="stand-in",
    ),
    ("identity_CelebA.txt", 202_599),
)


def _skewed(data: str, model: Tree, train: Tree) -> Tree:
    part = {"name": "classes", "clients": 100, "per_client": 5, "split": _SHARES}
    return {**_natural({"name": data}, model, train, 200), "partition": part}


SKEWED = Setting(
    "FEMNIST (skewed)",
    Federation(
        "FEMNIST, 5 classes a client",
        "femnist",
        100,
        80.0,
        _skewed("femnist", _CNN, _LONG | {"batch": 32, "lr": 0.1}),
    ),
    Federation(
        "MNIST, 5 of 10 classes a client, an MLP",
        "mnist",
        100,
        430.0,
        _skewed("mnist", MLP, _SHORT),
        kind="stand-in",
    ),
)
STACKOVERFLOW = Setting(
    "StackOverflow",
    Federation(
        "StackOverflow",
        "stackoverflow",
        400,
        125.0,
        {
            "data": {"name": "stackoverflow"},
            "partition": {"name": "natural", "split": [0.72, 0.08, 0.2]},
            "model": {"name": "linear"},
            "train": {
                "rounds": 400,
                "cohort": 50,
                "epochs": 1,
                "batch": 100,
                "lr": 0.01,
                "schedule": {"name": "steps", "every": 200, "factor": 0.5},
            },
            "evaluate": {"every": 100},
            "output": _LEAN,
        },
    ),
)
