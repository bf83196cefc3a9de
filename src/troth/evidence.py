"""The files of a run, read with care: what is no such file is a ValueError."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from troth import config, folder
from troth.certificates.curves import Curves, curves
from troth.certificates.smoothing import Smoothing

Table = dict[str, np.ndarray]
METRICS = ("accuracy", "error")
_POINTS = 101  # of a curve


@dataclass
class Certified:
    """The certificates of one setting."""

    settings: dict[str, str]  # as the file has them
    unit: str  # of radii
    table: dict[str, np.ndarray]  # model, client, y, label, radius, parameters
    curves: dict[str, Curves]  # by model, over all that is in the file


@dataclass
class Audit:
    """What an audit found, and how."""

    table: Table
    settings: dict[str, Any]
    rough: list[str]


def experiment(file: Path) -> dict[str, Any]:
    """The sections, with what the run wrote about itself."""
    found = config.read(file)
    if not isinstance(found.get("resolved"), dict):
        raise ValueError("it has no [resolved], which every run writes")
    return found


def rounds(file: Path) -> list[dict[str, Any]]:
    """Every whole line; the last one may still be on its way."""
    lines = file.read_text("utf-8").split("\n")
    found = [json.loads(line) for line in lines[:-1]]
    if not all(isinstance(r, dict) and isinstance(r["round"], int) for r in found):
        raise ValueError("a line is no round")
    return found


def summary(file: Path) -> dict[str, Any]:
    """Means over clients, and how many these are."""
    found = json.loads(file.read_text("utf-8"))
    kinds = found["personal"], found["shared"]
    known = any(all(f"{m}_mean" in kind for kind in kinds) for m in METRICS)
    if not all(isinstance(kind, dict) for kind in kinds) or not known:
        raise ValueError("it holds no means over clients")
    if not isinstance(found["clients"], int):
        raise ValueError("it does not say how many clients there are")
    return found  # type: ignore[no-any-return]


def clients(file: Path) -> Table:
    """A column a name."""
    found = folder.read_csv(file)
    known = any(metric in found for metric in METRICS)
    if not {"client", "malicious", "test"} <= {*found} or not known:
        raise ValueError("columns are missing")
    return found


def audit(file: Path) -> Audit:
    """The table, and the file beside it that says how it was made."""
    table = folder.read_csv(file)
    needed = {"client", "adv_accuracy", "shared_adv_accuracy", "change", "suspect"}
    if not needed <= {*table}:
        raise ValueError("columns are missing")
    said = json.loads(file.with_suffix(".json").read_text("utf-8"))
    return Audit(table, dict(said["settings"]), list(said["rough"]))


def certified(file: Path) -> list[Certified]:
    """The whole lines of the file, apart by their settings."""
    text = file.read_text("utf-8")
    lines = list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))
    apart: dict[tuple[str, ...], list[dict[str, str]]] = {}
    names = [*Smoothing().record()]
    for line in lines:
        apart.setdefault(tuple(line[name] for name in names), []).append(line)
    found = []
    for key, mine in apart.items():
        settings = dict(zip(names, key, strict=True))
        kinds = {"model": str, "parameters": str, "client": int, "y": int}
        kinds |= {"label": int, "radius": float, "used": int}
        table = {n: np.array([k(row[n]) for row in mine]) for n, k in kinds.items()}
        words: dict[str, Any] = {"transform": settings["transform"]}
        words |= {"units": settings["units"] or "normalised"}
        found.append(
            Certified(settings, Smoothing(**words).unit, table, _curves(table))
        )
    return found


def _curves(table: dict[str, np.ndarray]) -> dict[str, Curves]:
    """Certified accuracy of every model, from 0 to the largest radius there is."""
    radii = np.linspace(0, float(table["radius"].max()), _POINTS)
    found = {}
    for model in ("personal", "shared", "local"):
        mine = table["model"] == model
        if mine.any():
            t = {name: column[mine] for name, column in table.items()}
            client, y, label = t["client"], t["y"], t["label"]
            found[model] = curves(client, y, label, t["radius"], t["used"], radii)
    return found
