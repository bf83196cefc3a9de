"""The files of a run, read with care: what is no such file is a ValueError."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from troth import files
from troth.certificates.curves import Curves, curves
from troth.certificates.smoothing import Smoothing
from troth.config import reader
from troth.runs.results import METRICS

Table = dict[str, np.ndarray]
_ENDS = ("", "_low", "_high")
_POINTS = 101  # of a curve
_WHOLE = (
    *("client", "malicious", "newcomer", "train", "valid", "test", "asked", "absent"),
    *("cut", "dropped", "clipped", "chosen", "downweighted"),
)


@dataclass
class Certified:
    """The certificates of one setting."""

    settings: dict[str, str]  # as the file has them
    unit: str  # of radii
    table: dict[str, np.ndarray]  # model, client, y, label, radius, parameters
    curves: dict[str, Curves]  # by model, over all that is in the file
    rows: dict[tuple[str, int], np.ndarray]  # of the table, by model and client


@dataclass
class Audit:
    """What an audit found, and how."""

    table: Table
    settings: dict[str, Any]
    row: dict[int, int]  # of the table, by client


def experiment(file: Path) -> dict[str, Any]:
    """The sections, with what the run wrote about itself."""
    found = reader.read(file)
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
    found = files.read_csv(file)
    known = any(metric in found for metric in METRICS)
    if not {"client", "malicious", "test"} <= {*found} or not known:
        raise ValueError("columns are missing")
    whole = [name for name in found if name in _WHOLE]
    if not all(((found[n] >= 0) & (found[n] < 2**53)).all() for n in whole):
        raise ValueError("a number is missing")
    if not np.array_equal(found["client"], np.arange(len(found["client"]))):
        raise ValueError("clients are not numbered from 0")
    return found


def audit(file: Path) -> Audit:
    """The table, and the file beside it that says how it was made."""
    table = files.read_csv(file)
    needed = {"client", "examples", "adv_accuracy", "shared_adv_accuracy", "suspect"}
    needed |= {f"change{end}" for end in _ENDS}
    if "disparity" in table:
        needed |= {"conflicting", "biased", *(f"disparity{end}" for end in _ENDS)}
    if not needed <= {*table}:
        raise ValueError("columns are missing")
    for name in needed & {"client", "examples", "conflicting"}:
        if not ((table[name] >= 0) & (table[name] < 2**53)).all():
            raise ValueError("a number is missing")
    said = json.loads(file.with_suffix(".json").read_text("utf-8"))
    settings = dict(said["settings"])
    settings |= {key: float(settings[key]) for key in ("limit", "confidence")}
    if not 0 < settings["confidence"] < 1 or not 0 <= settings["limit"] < 1:
        raise ValueError("limit or confidence are no shares")
    return Audit(table, settings, {int(k): i for i, k in enumerate(table["client"])})


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
        if not (np.isfinite(table["radius"]) & (table["radius"] >= 0)).all():
            raise ValueError("a radius is no number")
        if not 0 < float(settings["alpha"]) < 1 or not float(settings["sigma"]) > 0:
            raise ValueError("α or σ is out of range")
        words: dict[str, Any] = {"transform": settings["transform"]}
        words |= {"units": settings["units"] or "normalised"}
        unit = Smoothing(**words).unit
        found.append(Certified(settings, unit, table, _curves(table), _rows(table)))
    return found


def _rows(table: Table) -> dict[tuple[str, int], np.ndarray]:
    """Which rows are about which model of which client."""
    found: dict[tuple[str, int], list[int]] = {}
    whose = zip(table["model"].tolist(), table["client"].tolist(), strict=True)
    for i, key in enumerate(whose):
        found.setdefault(key, []).append(i)
    return {key: np.array(rows) for key, rows in found.items()}


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
