"""What scripts under experiments/ found, for entries that they make: last numbers."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from troth.reproduce.entry import Entry

Lines = list[tuple[str, dict[str, float]]]
"""A label, and what was found under it."""

CURVES = {
    "distance": "distance to target",
    "norm": "norm",
    "accuracy": "by true labels",
    "aimed": "by wanted labels",
    "own_accuracy": "honest users' own",
    "shared": "global model",
    "idle": "idle users' models",
    "own": "active user's model",
}


def files(entry: Entry, root: Path) -> list[Path]:
    """The results of an entry's script that are there."""
    return [f for some in entry.results for f in sorted(root.glob(some), key=_order)]


def _order(file: Path) -> list[str | int]:
    """Names by the numbers in them: 20 before 100."""
    parts = re.split(r"(\d+)", file.name)  # texts and numbers in turn
    return [int(part) if k % 2 else part for k, part in enumerate(parts)]


def committed(entry: Entry, root: Path) -> str | None:
    """When results of an entry's script last came into the repository, if they did."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%cI", "--"]
    try:
        found = subprocess.run(
            [*command, *entry.results], capture_output=True, text=True, check=False
        )
    except OSError:  # there is no git
        return None
    return found.stdout.strip() or None if not found.returncode else None


def said(entry: Entry, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every result by its label; behind its folder where several have that label."""
    every = []
    for file in files(entry, root):
        found = json.loads(file.read_text("utf-8"))
        every.append((str(found.get("label", file.stem)), file.parent, found))
    homes = Counter(label for label, _ in {(label, place) for label, place, _ in every})
    for label, place, found in every:
        yield f"{place.name}: {label}" if homes[label] > 1 else label, found


def seconds(entry: Entry, root: Path) -> Iterator[float]:
    """What each run took, as far as the files say."""
    for _, found in said(entry, root):
        yield float(found.get("seconds", found.get("summary", {}).get("seconds", 0.0)))


def lines(entry: Entry, root: Path) -> Lines:
    """A line a result, or a panel; seeds of the same label as one, their mean."""
    found: dict[str, list[dict[str, float]]] = {}
    number = entry.name.rpartition("figure")[2]
    for label, one in said(entry, root):
        if f"figure {number}" in one:
            return _panels(one[f"figure {number}"])
        found.setdefault(label, []).append(_numbers(one))
    return [(label, _mean(every)) for label, every in found.items()]


def layout(lines: Lines) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row a label; what a label has no number for is empty."""
    heads = list(dict.fromkeys(name for _, found in lines for name in found))
    rows = [
        [label, *(f"{found[head]:.4g}" if head in found else "" for head in heads)]
        for label, found in lines
    ]
    return heads, rows


def _mean(every: list[dict[str, float]]) -> dict[str, float]:
    said = {name: float(np.mean([one[name] for one in every])) for name in every[0]}
    return said | {"seeds": float(len(every))}


def _numbers(said: dict[str, Any]) -> dict[str, float]:
    if "certified" in said:
        return {
            f"{whose}, {what}": value
            for whose, curve in said["certified"]["models"].items()
            for what, value in _curve(curve).items()
        }
    if "summary" in said:
        summary, pooled = said["summary"], said.get("pooled", {})
        found = {
            f"{whose}, {what}": float(summary[whose][f"accuracy_{what}"])
            for whose in ("shared", "personal")
            for what in ("weighted", "std")
        }
        tests = summary.get("tests", {})
        found |= {
            f"{whose}, {name}": float(each[whose]["accuracy_mean"])
            for name, each in tests.items()
            for whose in ("shared", "personal")
        }
        told = {f"all clients', {name}": float(v) for name, v in pooled.items()}
        return found | told
    if "end" in said:
        return {name: float(value) for name, value in said["end"].items()}
    curves = {name: said[key] for key, name in CURVES.items() if key in said}
    return {name: float(curve[-1]) for name, curve in curves.items()}


def _curve(curve: dict[str, Any]) -> dict[str, float]:
    """Certified accuracy at the first radius and in the middle, and the mean radius."""
    mean = curve["mean"]
    return {
        "certified at 0": float(mean[0]),
        "at half of the radii": float(mean[len(mean) // 2]),
        "average radius": float(curve["acr"]),
    }


def _panels(figure: dict[str, Any]) -> Lines:
    """Ditto's simulated figures: where errors are least, or how they end."""
    found: Lines = []
    for panel in figure["panels"]:
        if "lam" in figure:
            case, error = panel["case"], np.array(panel["error"])
            at = int(error.argmin())
            label = f"K = {case['K']}, {case['K_a']} adversaries"
            least = {"least error": float(error[at]), "at λ": float(figure["lam"][at])}
            found.append((label, least))
        else:
            numbers = {
                name: float(np.mean(values))
                for name, values in panel.items()
                if name != "title" and isinstance(values, list)
            }
            label = str(panel.get("title", len(found) + 1)).replace("\n", " ")
            found.append((label, {f"mean {n}": v for n, v in numbers.items()}))
    return found
