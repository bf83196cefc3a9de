"""What a newcomer brings: its examples, checked against what a run knows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from troth.config.schema import Experiment
from troth.data.datasets import npz
from troth.runs.load import Run, fits
from troth.types import Arrays, Refusal

Examples = str | Path | Mapping[str, Any]
"""An .npz file, or its arrays by name: x, y, and where they are marked split, group."""


def read(run: Run, data: Examples) -> Arrays:
    """The newcomer's examples, in the run's units, classes and shape.

    Labels are the run's numbers, or its names where it has names; with two classes also
    −1 and 1. A newcomer need not have an example of every class.

    Raises:
        Refusal: what does not fit; says what the run takes.
    """
    return of(run.experiment, data)


def of(e: Experiment, data: Examples) -> Arrays:
    """The same of a resolved experiment, of which nothing may have run yet."""
    facts = e.resolved
    if isinstance(data, Mapping):
        where, content = "data", {k: np.asarray(v) for k, v in data.items()}
        for key in ("x", "y"):
            if key not in content:
                raise Refusal(f'data lack {key}; give {{"x": inputs, "y": labels}}')
    else:
        where, content = str(data), npz.read(str(data), "the data")
    x = npz.inputs(where, content["x"])
    marks = ("y", "split", "group")
    given = {key: content[key].shape for key in marks if key in content}
    for key, shape in given.items():
        if (shape[:1] if key == "y" else shape) != (len(x),):
            raise Refusal(
                f"{where}: {key} has shape {shape} and x holds {len(x)} examples; "
                f"give {key} one value an example"
            )
    fits(e, x)
    split, group = npz.divided(where, content), npz.codes(where, "group", content)
    y = _targets(where, content["y"], facts)
    names = tuple(facts.get("features", ()))
    about = facts["classes"], facts["scale"]
    return Arrays(x, y, *about, group=group, split=split, names=names)


def _targets(where: str, y: np.ndarray, facts: Mapping[str, Any]) -> np.ndarray:
    """Targets, or labels that the run knows."""
    classes, several = facts["classes"], bool(facts.get("multi_label"))
    if classes == 0:
        if y.dtype.kind not in "biuf" or y.ndim != 1:
            raise Refusal(
                f"{where}: y is {y.dtype} of shape {y.shape}, and this run predicts "
                "one number; give one an example"
            )
        npz.finite(where, "y", y)
        return y.astype(np.float64)
    labels = list(facts.get("labels", []))
    if y.dtype.kind in "SU" and labels:
        y = _numbered(where, y.astype(str), labels)
    shape = (len(y), classes) if several else (len(y),)
    if y.dtype.kind not in "biu" or y.shape != shape:
        raise Refusal(
            f"{where}: y is {y.dtype} of shape {y.shape}, and this run has {classes} "
            f"{'labels, several an example' if several else 'classes'}; give whole "
            f"numbers of shape {shape}"
        )
    if classes == 2 and not several and (y == -1).any() and not (y == 0).any():
        y = np.where(y == -1, 0, y)  # as data have it
    _known(where, y, 2 if several else classes, several)
    return y.astype(np.int64)


def _numbered(where: str, y: np.ndarray, labels: list[str]) -> np.ndarray:
    """Names of classes as numbers."""
    strange = sorted({*y.ravel().tolist()} - {*labels})
    if strange:
        raise Refusal(
            f"{where}: y holds '{strange[0]}', which is no class of this run; it "
            f"knows: {', '.join(labels)}"
        )
    place = {name: k for k, name in enumerate(labels)}
    return np.array([place[name] for name in y.ravel().tolist()]).reshape(y.shape)


def _known(where: str, y: np.ndarray, classes: int, several: bool) -> None:
    strange = np.unique(y[(y < 0) | (y >= classes)])
    if len(strange):
        some = ", ".join(map(str, strange[:4].tolist()))
        what = "labels that are there or not" if several else f"{classes} classes"
        raise Refusal(
            f"{where}: y holds {some}, which this run does not know; it has {what}, 0 "
            f"to {classes - 1}: leave such examples out, or train with them"
        )
